"""Google's .proto files that every compiler brings along, as far as events can use them."""

from __future__ import annotations

_HEAD = 'syntax = "proto3"; package google.protobuf; '
_WRAPPERS = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
_FILES = {
    "timestamp": "message Timestamp { int64 seconds = 1; int32 nanos = 2; }",
    "duration": "message Duration { int64 seconds = 1; int32 nanos = 2; }",
    "wrappers": " ".join(f"message {one}Value {{ {one.lower()} value = 1; }}" for one in _WRAPPERS),
    "any": "message Any { string type_url = 1; bytes value = 2; }",
    "empty": "message Empty {}",
    "field_mask": "message FieldMask { repeated string paths = 1; }",
    "struct": """
        message Struct { map<string, Value> fields = 1; }
        message Value {
          oneof kind {
            NullValue null_value = 1; double number_value = 2; string string_value = 3; bool bool_value = 4;
            Struct struct_value = 5; ListValue list_value = 6;
          }
        }
        enum NullValue { NULL_VALUE = 0; }
        message ListValue { repeated Value values = 1; }
    """,
    "descriptor": "",  # imported for options, which say nothing about an event
}
WELL_KNOWN = {f"google/protobuf/{name}.proto": _HEAD + text for name, text in _FILES.items()}
"""By the name in an import. A file of that name beside the .proto has precedence."""
