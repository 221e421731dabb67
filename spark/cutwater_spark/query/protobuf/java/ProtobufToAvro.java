package io.cutwater;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.catalyst.expressions.GenericRow;

/**
 * A Protobuf message as Avro writes the same event: (Avro's bytes, path and rule of the first flaw).
 *
 * `cutwater.core.events.protobuf.records` decodes the same without Spark, and finds the same flaws in the same order.
 */
public final class ProtobufToAvro implements UDF1 {
    private static final byte[] EMPTY = new byte[0];
    private static final long FIRST_SECOND = -62135596800L;
    private static final long LAST_SECOND = 253402300799L;
    private static final long LAST_NANO = 999999999L;
    /** JSON, made by `cutwater_spark.query.protobuf.transcoder`. */
    private String described = null;
    /** Set last by `prepare`. */
    private transient volatile MessageField[] fields = null;
    private transient JsonNode rules = null;
    private transient int entriesMax = 0;
    private transient int elementsMax = 0;
    private transient int keyShown = 0;

    public void describe(String message) {
        this.described = message;
    }

    /** Given a message's bytes, returns a row; null for null. */
    public Object call(Object given) throws Exception {
        if (given == null) {
            return null;
        }
        if (this.fields == null) {
            this.prepare();
        }
        byte[] message = (byte[]) given;
        AvroOutput output = new AvroOutput();
        try {
            this.writeMessage(message, 0, message.length, this.fields, output);
        } catch (UnfitException unfit) {
            return new GenericRow(new Object[] {null, unfit.path, unfit.rule});
        }
        return new GenericRow(new Object[] {output.toByteArray(), null, null});
    }

    private synchronized void prepare() throws Exception {
        if (this.fields != null) {
            return;
        }
        JsonNode all = new ObjectMapper().readTree(this.described);
        this.rules = all.required("rules");
        this.entriesMax = all.required("entries_max").asInt();
        this.elementsMax = all.required("elements_max").asInt();
        this.keyShown = all.required("key_shown").asInt();
        MessageField[] found = MessageField.fields(all.required("fields"));
        this.setDefaults(found);
        this.fields = found;
    }

    private void setDefaults(MessageField[] all) throws UnfitException {
        for (MessageField field : all) {
            this.setDefaults(field.fields);
            AvroOutput output = new AvroOutput();
            if (field.isNullable) {
                output.writeLong(0);
                field.absent = output.toByteArray();
            } else if (field.defaultEntry != null) {
                WireEntries entry = WireEntries.ofMessage(field.defaultEntry, 0, field.defaultEntry.length, 1);
                this.writeValue(entry.message, entry.values[0], entry.sizes[0], field, output);
                field.absent = output.toByteArray();
            }
        }
    }

    private UnfitException unfit(String rule) {
        return new UnfitException(this.rules.required(rule).asText(), "");
    }

    private MessageEntries entries(byte[] bytes, int at, int length, MessageField[] of) throws UnfitException {
        WireEntries found = WireEntries.ofMessage(bytes, at, length, this.entriesMax);
        if (found == null) {
            throw this.unfit("no_message");
        }
        return new MessageEntries(found, of);
    }

    private void writeMessage(byte[] bytes, int at, int length, MessageField[] of, AvroOutput output)
            throws UnfitException {
        MessageEntries entries = this.entries(bytes, at, length, of);
        for (int place = 0; place < of.length; place++) {
            try {
                this.writeField(entries, place, output);
            } catch (UnfitException unfit) {
                throw unfit.below("." + of[place].name);
            }
        }
    }

    private void writeField(MessageEntries entries, int place, AvroOutput output) throws UnfitException {
        MessageField field = entries.fields[place];
        if (field.isRepeated) {
            this.writeList(entries, place, output);
        } else if (field.isMap) {
            this.writeMap(entries, place, output);
        } else {
            this.writeOne(entries, place, output);
        }
    }

    private void writeOne(MessageEntries entries, int place, AvroOutput output) throws UnfitException {
        MessageField field = entries.fields[place];
        int own = entries.entryOf(place);
        if (own < 0) {
            this.writeAbsent(field, output);
            return;
        }
        if (field.isNullable) {
            output.writeLong(1);
        }
        if (field.fields.length > 0 && field.members.length == 0 && entries.counts[place] > 1) {
            byte[] whole = entries.joined(place);
            this.writeValue(whole, 0, whole.length, field, output);
        } else {
            this.writeValue(entries.wire.message, entries.wire.values[own], entries.wire.sizes[own], field, output);
        }
    }

    private void writeAbsent(MessageField field, AvroOutput output) throws UnfitException {
        if (field.isRequired) {
            throw this.unfit("not_there");
        }
        if (field.absent != null) {
            output.writeRaw(field.absent, 0, field.absent.length);
        } else {
            this.writeValue(EMPTY, 0, 0, field, output); // a message as the value of a map
        }
    }

    private void writeList(MessageEntries entries, int place, AvroOutput output) throws UnfitException {
        MessageField field = entries.fields[place];
        WireEntries[] packed = new WireEntries[entries.counts[place]];
        long count = 0;
        for (int own = 0, at = -1; own < packed.length; own++) {
            at = entries.next(place, at + 1);
            packed[own] = this.elements(entries.wire, at, field);
            count += packed[own] == null ? 1 : packed[own].count;
        }
        if (count > this.elementsMax) {
            throw this.unfit("no_list");
        }
        if (count > 0) {
            output.writeLong(count);
            this.writeElements(entries, place, packed, output);
        }
        output.writeLong(0);
    }

    /** Returns the elements of an entry that is a packed list; null for one element. */
    private WireEntries elements(WireEntries wire, int at, MessageField field) throws UnfitException {
        if (field.kind == WireEntries.LENGTH || wire.kinds[at] != WireEntries.LENGTH) {
            return null;
        }
        int max = this.entriesMax;
        WireEntries found = WireEntries.ofPacked(wire.message, (int) wire.values[at], wire.sizes[at], field.kind, max);
        if (found == null) {
            throw this.unfit("no_list");
        }
        return found;
    }

    private void writeElements(MessageEntries entries, int place, WireEntries[] packed, AvroOutput output)
            throws UnfitException {
        MessageField field = entries.fields[place];
        int index = 0;
        for (int own = 0, at = -1; own < packed.length; own++) {
            at = entries.next(place, at + 1);
            WireEntries of = packed[own] == null ? entries.wire : packed[own];
            int first = packed[own] == null ? at : 0;
            int end = packed[own] == null ? at + 1 : of.count;
            for (int each = first; each < end; each++) {
                try {
                    this.writeValue(of.message, of.values[each], of.sizes[each], field, output);
                } catch (UnfitException unfit) {
                    throw unfit.below("[" + index + "]");
                }
                index++;
            }
        }
    }

    private void writeMap(MessageEntries entries, int place, AvroOutput output) throws UnfitException {
        MessageField field = entries.fields[place];
        if (entries.counts[place] > this.elementsMax) {
            throw this.unfit("no_list");
        }
        Map found = new LinkedHashMap(); // of two equal keys the last counts
        for (int own = 0, at = -1; own < entries.counts[place]; own++) {
            at = entries.next(place, at + 1);
            int start = (int) entries.wire.values[at];
            MessageEntries pair = this.entries(entries.wire.message, start, entries.wire.sizes[at], field.fields);
            String key = this.keyOf(pair);
            AvroOutput value = new AvroOutput();
            try {
                this.writeOne(pair, 1, value);
            } catch (UnfitException unfit) {
                throw unfit.below("['" + this.beginning(key) + "']");
            }
            found.put(key, value.toByteArray());
        }
        this.writePairs(found, output);
    }

    private void writePairs(Map found, AvroOutput output) {
        if (!found.isEmpty()) {
            output.writeLong(found.size());
        }
        for (Iterator all = found.entrySet().iterator(); all.hasNext();) {
            Map.Entry each = (Map.Entry) all.next();
            byte[] key = ((String) each.getKey()).getBytes(StandardCharsets.UTF_8);
            byte[] value = (byte[]) each.getValue();
            output.writeBytes(key, 0, key.length);
            output.writeRaw(value, 0, value.length);
        }
        output.writeLong(0);
    }

    private String keyOf(MessageEntries pair) throws UnfitException {
        MessageField key = pair.fields[0];
        int own = pair.last[0];
        WireEntries wire = pair.wire;
        if (key.type.equals("string")) {
            try {
                return own < 0 ? "" : this.text(wire.message, (int) wire.values[own], wire.sizes[own]);
            } catch (UnfitException unfit) {
                throw unfit.below(".key");
            }
        }
        long number = own < 0 ? 0 : number(wire.message, wire.values[own], key);
        if (key.type.equals("bool")) {
            return number == 0 ? "false" : "true";
        }
        return key.isUnsigned ? Long.toUnsignedString(number) : Long.toString(number);
    }

    private String beginning(String key) {
        int shown = Math.min(this.keyShown, key.codePointCount(0, key.length()));
        return key.substring(0, key.offsetByCodePoints(0, shown));
    }

    /** Writes one value. `raw`: a number if it is a varint, else the place of its bytes. */
    private void writeValue(byte[] bytes, long raw, int size, MessageField field, AvroOutput output)
            throws UnfitException {
        if (field.type.equals("timestamp")) {
            output.writeLong(this.micros(this.entries(bytes, (int) raw, size, field.fields)));
        } else if (field.fields.length > 0) {
            this.writeMessage(bytes, (int) raw, size, field.fields, output);
        } else if (field.type.equals("string")) {
            this.requireText(bytes, (int) raw, size);
            output.writeBytes(bytes, (int) raw, size);
        } else if (field.type.equals("bytes")) {
            output.writeBytes(bytes, (int) raw, size);
        } else if (field.type.equals("float") || field.type.equals("double")) {
            output.writeRaw(bytes, (int) raw, size); // both have them little endian
        } else {
            this.writeNumber(number(bytes, raw, field), field, output);
        }
    }

    private void writeNumber(long number, MessageField field, AvroOutput output) throws UnfitException {
        if (field.type.equals("bool")) {
            output.writeBoolean(number != 0);
        } else if (field.isUnsigned) {
            output.writeUnsigned(number);
        } else if (field.type.equals("enum")) {
            output.writeLong(this.symbolOf(number, field));
        } else {
            output.writeLong(number);
        }
    }

    private int symbolOf(long number, MessageField field) throws UnfitException {
        for (int symbol = 0; symbol < field.symbols.length; symbol++) {
            if (field.symbols[symbol] == number) {
                return symbol;
            }
        }
        throw this.unfit("no_symbol");
    }

    private long micros(MessageEntries time) throws UnfitException {
        long seconds = time.last[0] < 0 ? 0 : time.wire.values[time.last[0]];
        long nanos = time.last[1] < 0 ? 0 : (int) time.wire.values[time.last[1]];
        if (seconds < FIRST_SECOND || seconds > LAST_SECOND || nanos < 0 || nanos > LAST_NANO) {
            throw this.unfit("no_time");
        }
        return seconds * 1000000L + nanos / 1000L;
    }

    private static long number(byte[] bytes, long raw, MessageField field) {
        long bits = raw;
        if (field.kind != WireEntries.VARINT) {
            bits = 0;
            for (int at = field.kind == WireEntries.FIXED64 ? 7 : 3; at >= 0; at--) {
                bits = bits << 8 | bytes[(int) raw + at] & 255L;
            }
        }
        if (field.isSigned32) {
            int half = (int) bits;
            return field.isZigzag ? half >>> 1 ^ -(half & 1) : half;
        }
        if (field.type.equals("uint32")) {
            return bits & 0xFFFFFFFFL;
        }
        return field.isZigzag ? bits >>> 1 ^ -(bits & 1L) : bits;
    }

    private void requireText(byte[] bytes, int start, int size) throws UnfitException {
        for (int at = start; at < start + size; at++) {
            if (bytes[at] < 0) {
                this.text(bytes, start, size);
                return;
            }
        }
    }

    private String text(byte[] bytes, int start, int size) throws UnfitException {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes, start, size)).toString();
        } catch (CharacterCodingException damaged) {
            throw this.unfit("no_text");
        }
    }
}
