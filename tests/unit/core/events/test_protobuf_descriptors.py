"""A descriptor file as an event schema, what is refused of it, and the messages of a registry's schema."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.avro.codec import check_schema
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import WriterSchema, confluent_header
from cutwater.core.events.protobuf.descriptors import event_schema_of
from cutwater.core.events.protobuf.fields import message_name, protobuf_fields
from cutwater.core.events.protobuf.message_index import headers_of, message_index, schema_messages
from cutwater.core.events.protobuf.wire import WireError
from support.events import messages


def schema_of(change: Callable[[Any, Any], Any], name: str = messages.NAME) -> dict[str, Any]:
    """The event schema after a change of the file and its message Order."""
    file = messages.file()
    change(file, file.message_type[1])
    return event_schema_of(messages.descriptor_set(file), name, "event.desc")


def test_a_message_is_a_record() -> None:
    schema = schema_of(lambda file, order: None)
    check_schema(schema, "event.desc", own=True)
    types = {one["name"]: one["type"] for one in schema["fields"]}
    item = {**types["item_of"][1]}
    assert message_name(schema) == "shop.Order"
    assert (item["name"], item["namespace"], [one["name"] for one in item["fields"]]) == (
        "Item",
        "shop",
        ["sku", "count", "marks", "at"],
    )
    assert types["item"] == ["null", "shop.Item"]
    assert types["color"]["symbols"] == ["RED", "GREEN", "BLUE", "DARK"]
    shown = {one: types[one] for one in ("int32", "uint32", "fixed64_or", "bool_list", "counts", "text", "one")}
    unsigned = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}
    assert shown == {
        "int32": "int",
        "uint32": "long",
        "fixed64_or": ["null", unsigned],
        "bool_list": {"type": "array", "items": "boolean"},
        "counts": {"type": "map", "values": "long"},
        "text": ["null", "string"],
        "one": ["null", "int"],
    }
    assert types["at"] == ["null", {"type": "long", "logicalType": "timestamp-micros"}]
    fields = {one.name: one for one in protobuf_fields(schema)}
    assert fields["color"].symbols == ((0, "RED"), (1, "GREEN"), (2, "BLUE"), (-5, "DARK"))
    assert fields["one"].members == fields["item_of"].members == (40, 41, 42)
    assert [one.type for one in fields["named"].fields] == ["sint32", "message"]


def test_types_that_are_not_read_are_refused_with_their_field() -> None:
    def with_field(kind: str) -> Callable[[Any, Any], Any]:
        return lambda file, order: messages.field(order, "more", 99, kind)

    def nested(file: Any, order: Any) -> None:
        for level in range(10):
            made = file.message_type.add(name=f"Level{level}")
            messages.field(made, "deeper", 1, f"shop.Level{level + 1}" if level < 9 else "string")
        messages.field(order, "more", 99, "shop.Level0")

    def wide(file: Any, order: Any) -> None:
        made = file.message_type.add(name="Wide")
        for number in range(1, 103):
            messages.field(made, f"f{number}", number, "int32")
        messages.field(order, "more", 99, "shop.Wide", "repeated")

    def group(file: Any, order: Any) -> None:
        file.syntax = "proto2"
        order.nested_type.add(name="More").field.add(name="x", number=1, type=5, label=1)
        order.field.add(name="more", number=99, type=10, label=1, type_name=".shop.Order.More")

    def empty(file: Any, order: Any) -> None:
        file.message_type.add(name="Empty")
        messages.field(order, "more", 99, "shop.Empty")

    def editions(file: Any, order: Any) -> None:
        file.syntax = "editions"

    refused = {
        "field 'more' contains itself": with_field("shop.Order"),
        "field 'more' is 'shop.Missing', which the descriptor lacks": with_field("shop.Missing"),
        "is more than 8 levels deep": nested,
        "field 'more' holds messages of more than 100 fields": wide,
        "field 'more' is a group, which is not read: remove it from a copy": group,
        "field 'more' is a message without fields": empty,
        "shop/order.proto has syntax 'editions'; proto2 and proto3 are read": editions,
    }
    for said, change in refused.items():
        with pytest.raises(UsageError) as caught:
            schema_of(change)
        assert said in str(caught.value)


def test_a_recursive_message_of_google_is_refused() -> None:
    made = descriptor_pb2.FileDescriptorSet()
    struct_pb2.DESCRIPTOR.CopyToProto(made.file.add())
    with pytest.raises(UsageError, match=r"contains itself, which is not read"):
        event_schema_of(made.SerializeToString(), "google.protobuf.Struct", "event.desc")


def test_the_message_must_be_one_of_the_file() -> None:
    descriptor = messages.descriptor_set()
    with pytest.raises(
        UsageError, match=r"has no message 'shop.Ordr'; it has: .*shop.Item, shop.Order; did you mean"
    ):
        event_schema_of(descriptor, "shop.Ordr", "event.desc")
    with pytest.raises(UsageError, match=r"'shop.Order.CountsEntry' is inside of another"):
        event_schema_of(descriptor, "shop.Order.CountsEntry", "event.desc")


@given(st.binary(max_size=200))
def test_no_descriptor_is_refused(data: bytes) -> None:
    for damaged in (data, messages.descriptor_set()[: len(data) + 20], b"syntax = 'proto3';"):
        with pytest.raises(UsageError, match=r"event\.desc"):
            event_schema_of(damaged, messages.NAME, "event.desc")


def test_messages_of_a_registry_s_schema_by_text_and_by_descriptor() -> None:
    """Comments, texts and messages inside of others do not count; some serializers register a descriptor."""
    assert schema_messages(messages.PROTO) == ("shop.Other", "shop.Order")
    encoded = base64.b64encode(messages.file().SerializeToString()).decode()
    assert schema_messages(encoded) == ("shop.Item", "shop.Order")
    assert schema_messages(
        "message A{}message B { oneof x { int32 message = 1; } } service S { rpc R (A) returns (B); }"
    ) == ("A", "B")
    for damaged in (encoded[:-8], "AAA", "////"):
        with pytest.raises(WireError):
            schema_messages(damaged)


@given(st.text(max_size=300))
def test_no_text_of_a_registry_is_too_odd(text: str) -> None:
    for one in (text, messages.PROTO.replace("shop", text)):
        with suppress(WireError):
            assert all(isinstance(name, str) for name in schema_messages(one))


def test_the_index_of_a_message_is_that_of_confluent_s_serializers() -> None:
    """As their documentation has it: [0] is one zero byte, others are length and numbers in zigzag."""
    assert [message_index(one) for one in (0, 1, 2, 64)] == [b"\0", b"\2\2", b"\2\4", b"\2\x80\1"]
    head = confluent_header(7)
    assert headers_of(WriterSchema(head + b"\0", {}, "")) == [head + b"\0", head + b"\2\0"]
    assert headers_of(WriterSchema(head + b"\2\2", {}, "")) == [head + b"\2\2"]
