package io.cutwater;

import java.util.Arrays;

/** The entries of a message by its fields. */
final class MessageEntries {
    final WireEntries wire;
    final MessageField[] fields;
    /** Of each entry the place of its field; -1 without one. */
    final int[] places;
    /** Of each field its last entry; -1 without one. */
    final int[] last;
    /** Of each field the number of its entries. */
    final int[] counts;

    /** Throws UnfitException for an entry of another kind than its field's. */
    MessageEntries(WireEntries wire, MessageField[] fields) throws UnfitException {
        this.wire = wire;
        this.fields = fields;
        this.places = new int[wire.count];
        this.last = new int[fields.length];
        this.counts = new int[fields.length];
        Arrays.fill(this.last, -1);
        int place = -1;
        for (int at = 0; at < wire.count; at++) {
            int found = this.find(wire.numbers[at], place + 1);
            this.places[at] = found;
            if (found >= 0) {
                MessageField field = fields[found];
                if (!field.fits(wire.kinds[at])) {
                    throw new UnfitException(field.otherType, "." + field.name);
                }
                this.last[found] = at;
                this.counts[found]++;
                place = found;
            }
        }
    }

    /** Finds a field by its number, first where the next one is expected. */
    private int find(int number, int expected) {
        for (int step = 0; step < this.fields.length; step++) {
            int place = (expected + step) % this.fields.length;
            if (this.fields[place].number == number) {
                return place;
            }
        }
        return -1;
    }

    /** Returns the entry that counts for a field; -1 without one. */
    int entryOf(int place) {
        int own = this.last[place];
        for (int member : this.fields[place].members) {
            if (this.last[member] > own) {
                return -1;
            }
        }
        return own;
    }

    /** Returns the next entry of a field from a place on. The field has one. */
    int next(int place, int from) {
        int at = from;
        while (this.places[at] != place) {
            at++;
        }
        return at;
    }

    /** Returns the bytes of all entries of a field: the parts of a message that was written several times. */
    byte[] joined(int place) {
        AvroOutput whole = new AvroOutput();
        for (int count = 0, at = -1; count < this.counts[place]; count++) {
            at = this.next(place, at + 1);
            whole.writeRaw(this.wire.message, (int) this.wire.values[at], this.wire.sizes[at]);
        }
        return whole.toByteArray();
    }
}
