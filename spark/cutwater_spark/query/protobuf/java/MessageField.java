package io.cutwater;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;

/** A field of a message, as `cutwater_spark.query.protobuf.transcoder` describes it. */
final class MessageField {
    final String name;
    final int number;
    final String type;
    final int kind;
    final boolean isRepeated;
    final boolean isMap;
    /** Of 64 bits, which Avro has as a decimal. */
    final boolean isUnsigned;
    final boolean isSigned32;
    final boolean isZigzag;
    final boolean isRequired;
    /** Whether Avro has null for a field that is not written. */
    final boolean isNullable;
    /** The default as Protobuf writes it; null for null, and without one. */
    final byte[] defaultEntry;
    /** Avro's bytes of a field that is not written; without a default null. */
    byte[] absent = null;
    /** The places in the message of its oneof's fields; empty without one. */
    final int[] members;
    /** Of an enum: the number of each symbol. */
    final int[] symbols;
    /** The rule of an entry of another kind. */
    final String otherType;
    /** Of a message, a map (key, value), a timestamp (seconds, nanos), a wrapper (value); else empty. */
    final MessageField[] fields;

    private MessageField(JsonNode described) throws IOException {
        this.name = described.required("name").asText();
        this.number = described.required("number").asInt();
        this.type = described.required("type").asText();
        this.kind = described.required("kind").asInt();
        this.isRepeated = described.required("repeated").asBoolean();
        this.isMap = this.type.equals("map");
        this.isUnsigned = this.type.equals("uint64") || this.type.equals("fixed64");
        this.isZigzag = this.type.startsWith("sint");
        this.isSigned32 =
            this.type.equals("int32") || this.type.equals("sint32") || this.type.equals("sfixed32")
            || this.type.equals("enum");
        this.isRequired = described.required("required").asBoolean();
        this.isNullable = described.required("nullable").asBoolean();
        this.defaultEntry = described.required("default").isNull() ? null : described.required("default").binaryValue();
        this.members = ints(described.required("members"));
        this.symbols = ints(described.required("symbols"));
        this.otherType = described.required("other_type").asText();
        this.fields = fields(described.required("fields"));
    }

    static MessageField[] fields(JsonNode described) throws IOException {
        MessageField[] found = new MessageField[described.size()];
        for (int at = 0; at < found.length; at++) {
            found[at] = new MessageField(described.required(at));
        }
        return found;
    }

    boolean fits(int kind) {
        return kind == this.kind || this.isRepeated && this.kind != WireEntries.LENGTH && kind == WireEntries.LENGTH;
    }

    private static int[] ints(JsonNode described) {
        int[] found = new int[described.size()];
        for (int at = 0; at < found.length; at++) {
            found[at] = described.required(at).asInt();
        }
        return found;
    }
}
