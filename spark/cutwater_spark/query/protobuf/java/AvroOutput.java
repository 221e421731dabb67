package io.cutwater;

import java.util.Arrays;

/** Bytes of a value as Avro writes it. */
final class AvroOutput {
    private static final int UINT64_BYTES = 9;
    private byte[] bytes = new byte[256];
    private int size = 0;

    byte[] toByteArray() {
        return Arrays.copyOf(this.bytes, this.size);
    }

    void writeLong(long number) {
        long zigzag = (number << 1) ^ (number >> 63);
        this.reserve(10);
        while ((zigzag & ~127L) != 0) {
            this.bytes[this.size++] = (byte) (zigzag & 127 | 128);
            zigzag >>>= 7;
        }
        this.bytes[this.size++] = (byte) zigzag;
    }

    void writeBoolean(boolean value) {
        this.reserve(1);
        this.bytes[this.size++] = (byte) (value ? 1 : 0);
    }

    /** As a decimal without a fraction. */
    void writeUnsigned(long number) {
        this.writeLong(UINT64_BYTES);
        this.reserve(UINT64_BYTES);
        this.bytes[this.size++] = 0;
        for (int bits = 56; bits >= 0; bits -= 8) {
            this.bytes[this.size++] = (byte) (number >>> bits);
        }
    }

    void writeBytes(byte[] from, int at, int length) {
        this.writeLong(length);
        this.writeRaw(from, at, length);
    }

    void writeRaw(byte[] from, int at, int length) {
        this.reserve(length);
        System.arraycopy(from, at, this.bytes, this.size, length);
        this.size += length;
    }

    private void reserve(int more) {
        if (this.bytes.length - this.size < more) {
            this.bytes = Arrays.copyOf(this.bytes, Math.max(this.bytes.length * 2, this.size + more));
        }
    }
}
