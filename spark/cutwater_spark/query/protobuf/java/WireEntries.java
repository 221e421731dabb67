package io.cutwater;

import java.util.Arrays;

/** The entries of a message, or the numbers of a packed list. */
final class WireEntries {
    static final int VARINT = 0;
    static final int FIXED64 = 1;
    static final int LENGTH = 2;
    static final int FIXED32 = 5;
    private static final int TAG_BYTES_MAX = 5;
    private static final int VARINT_BYTES_MAX = 10;

    final byte[] message;
    int count = 0;
    int[] numbers = new int[16];
    int[] kinds = new int[16];
    /** The values of varints, of the others the places of their bytes. */
    long[] values = new long[16];
    int[] sizes = new int[16];
    private int at;
    private final int end;
    private final int most;
    /** The number that was read last. */
    private long varint;

    private WireEntries(byte[] message, int start, int length, int most) {
        this.message = message;
        this.most = most;
        this.at = start;
        this.end = start + length;
    }

    /** Returns null for what is no message, or has more than so many entries. */
    static WireEntries ofMessage(byte[] message, int start, int length, int most) {
        WireEntries found = new WireEntries(message, start, length, most);
        return found.readEntries() ? found : null;
    }

    /** Returns null for what is no packed list of so many numbers. */
    static WireEntries ofPacked(byte[] message, int start, int length, int kind, int most) {
        WireEntries found = new WireEntries(message, start, length, most);
        return found.readPacked(kind) ? found : null;
    }

    private boolean readEntries() {
        while (this.at < this.end) {
            if (!this.readVarint(TAG_BYTES_MAX)) {
                return false;
            }
            long tag = this.varint;
            if (tag < 8 || tag > 0xFFFFFFFFL || this.count == this.most) {
                return false;
            }
            if (!this.readValue((int) (tag >>> 3), (int) tag & 7)) {
                return false;
            }
        }
        return true;
    }

    private boolean readValue(int number, int kind) {
        if (kind == VARINT) {
            if (!this.readVarint(VARINT_BYTES_MAX)) {
                return false;
            }
            this.add(number, kind, this.varint, 0);
            return true;
        }
        long size = kind == FIXED64 ? 8 : kind == FIXED32 ? 4 : -1;
        if (kind == LENGTH) {
            if (!this.readVarint(VARINT_BYTES_MAX)) {
                return false;
            }
            size = this.varint;
        }
        if (size < 0 || size > this.end - this.at) {
            return false;
        }
        this.add(number, kind, this.at, (int) size);
        this.at += (int) size;
        return true;
    }

    private boolean readPacked(int kind) {
        int size = kind == FIXED64 ? 8 : 4;
        if (kind != VARINT) {
            for (; this.at + size <= this.end; this.at += size) {
                this.add(0, kind, this.at, size);
            }
            return this.at == this.end;
        }
        while (this.at < this.end) {
            if (!this.readVarint(VARINT_BYTES_MAX) || this.count == this.most) {
                return false;
            }
            this.add(0, kind, this.varint, 0);
        }
        return true;
    }

    /** Returns whether there is a number of at most so many bytes. */
    private boolean readVarint(int most) {
        long number = 0;
        for (int read = 0; read < most && this.at < this.end; read++) {
            byte next = this.message[this.at++];
            number |= (long) (next & 127) << 7 * read;
            if (next >= 0) {
                this.varint = number;
                return true;
            }
        }
        return false;
    }

    private void add(int number, int kind, long value, int size) {
        if (this.count == this.numbers.length) {
            int more = this.count * 2;
            this.numbers = Arrays.copyOf(this.numbers, more);
            this.kinds = Arrays.copyOf(this.kinds, more);
            this.values = Arrays.copyOf(this.values, more);
            this.sizes = Arrays.copyOf(this.sizes, more);
        }
        this.numbers[this.count] = number;
        this.kinds[this.count] = kind;
        this.values[this.count] = value;
        this.sizes[this.count++] = size;
    }
}
