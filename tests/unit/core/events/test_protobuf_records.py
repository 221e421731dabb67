"""Protobuf messages without Spark: read and written as Google's library does; what is no event has a reason."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.events.formats import WriterSchema
from cutwater.core.events.protobuf.descriptors import event_schema_of
from cutwater.core.events.protobuf.encoder import encode_message
from cutwater.core.events.protobuf.fields import (
    NO_MESSAGE,
    NO_SYMBOL,
    NO_TIME,
    NOT_THERE,
    protobuf_fields,
)
from cutwater.core.events.protobuf.records import ProtobufReader
from cutwater.core.events.protobuf.wire import LENGTH, entry
from cutwater.core.events.rejection import TEXT_RULE, UNDECODABLE, Flaw
from support.events import messages, odd_messages
from support.events.odd_messages import HEAD, LIST

DESCRIPTOR = messages.descriptor_set()
SCHEMA = event_schema_of(DESCRIPTOR, messages.NAME, "event.desc")
FIELDS = protobuf_fields(SCHEMA)
ORDER = messages.message_class(DESCRIPTOR)
READER = ProtobufReader(SCHEMA, [WriterSchema(HEAD, {}, "number 3")])
STRICTER = {NO_MESSAGE, NO_SYMBOL, NO_TIME, LIST, TEXT_RULE}
"""Rules of events that Google's library reads, with something left out or a number that is no symbol."""


def read(body: bytes) -> Any:
    return READER.read(HEAD + body)


def shown(event: dict[str, Any]) -> str:
    """As text, in which NaN is equal to itself."""
    return json.dumps(event, sort_keys=True, default=repr)


@given(st.integers(0, 10**9))
def test_a_message_is_read_and_written_as_google_s_library_does(seed: int) -> None:
    """Every type, with and without presence; the bytes of `produce` are the same message."""
    (event,) = messages.events(1, seed)
    body = messages.serialized(event, ORDER)
    assert read(body) == messages.read(event)
    assert ORDER.FromString(encode_message(event, FIELDS)) == ORDER.FromString(body)


@given(st.integers(0, 10**9))
def test_damaged_bytes_are_read_as_google_s_library_does_or_have_a_rule(seed: int) -> None:
    """Without maps: of an entry with an unknown field that library leaves all out."""
    rng = random.Random(seed)
    event = {
        name: one for name, one in messages.events(1, seed)[0].items() if name not in ("counts", "named", "flags")
    }
    body = bytearray(messages.serialized(event, ORDER))
    for _ in range(rng.randrange(1, 4)):
        body[rng.randrange(len(body))] = rng.randrange(256)
    if rng.random() < 0.3:
        del body[rng.randrange(len(body)) :]
    found = read(bytes(body))
    try:
        expected = ORDER.FromString(bytes(body))
    except DecodeError:
        assert isinstance(found, Flaw)
        return
    if isinstance(found, Flaw):
        assert found.rule in STRICTER or found.rule.startswith("is not written as ")
    else:
        assert shown(found) == shown(messages.of_message(expected))


def test_what_is_no_event_has_a_reason_and_a_path() -> None:
    assert {value: READER.read(value) for value in odd_messages.FLAWS} == odd_messages.FLAWS


def test_what_serializers_rarely_write_is_read_by_protobuf_s_rules() -> None:
    """The last of a field and of a oneof counts, parts of a message are joined, lists may be packed or not."""
    for body in odd_messages.RARE:
        assert read(body) == messages.of_message(ORDER.FromString(body))


def test_proto2_has_required_fields_and_defaults() -> None:
    """A missing field with a default reads as that; a missing required one makes the event undecodable."""
    file = messages.file()
    file.syntax = "proto2"
    file.message_type[1].ClearField("oneof_decl")
    for one in file.message_type[1].field:
        one.ClearField("oneof_index")
        one.ClearField("proto3_optional")
    by_name = {one.name: one for one in file.message_type[1].field}
    by_name["key"].label = by_name["key"].LABEL_REQUIRED
    defaults = {"int32": "-7", "string": "ü\n", "bytes": "\\001\\377a", "color": "BLUE", "bool": "true",
                "uint64": "18446744073709551615", "double": "0.5"}  # fmt: skip
    for name, default in defaults.items():
        by_name[name].default_value = default
    descriptor = messages.descriptor_set(file)
    reader = ProtobufReader(event_schema_of(descriptor, messages.NAME, ""), [WriterSchema(HEAD, {}, "")])
    event = reader.read(HEAD + entry(1, LENGTH, b"k"))
    assert isinstance(event, dict)
    found = {name: event[name] for name in defaults}
    assert found == {"int32": -7, "string": "ü\n", "bytes": b"\x01\xffa", "color": "BLUE", "bool": True,
                     "uint64": Decimal((1 << 64) - 1), "double": 0.5}  # fmt: skip
    assert event["int64"] is None
    assert reader.read(HEAD) == Flaw(UNDECODABLE, NOT_THERE, "key")
    made_of: Any = messages.message_class(descriptor)
    message = made_of.FromString(entry(1, LENGTH, b"k"))
    assert {name: getattr(message, name) for name in ("int32", "string", "bytes")} == {
        name: found[name] for name in ("int32", "string", "bytes")
    }


def test_produce_takes_times_and_keys_as_json_has_them() -> None:
    event = {"key": "k", "at": "2023-11-14T22:13:20.5Z", "named": {"-3": {"sku": "a"}}, "flags": {"true": "RED"}}
    found = read(encode_message(event, FIELDS))
    assert found["at"] == 1_700_000_000_500_000
    assert (found["named"]["-3"]["sku"], found["flags"]) == ("a", {"true": "RED"})
    naive = read(encode_message({"at": datetime(2023, 11, 14, tzinfo=UTC), "uint64": 5}, FIELDS))
    assert (naive["at"] % 86_400_000_000, naive["uint64"]) == (0, Decimal(5))


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"int32": 1 << 31}, "int32: 2147483648 is no int32"),
        ({"uint64": -1}, "uint64: -1 is no uint64"),
        ({"bool": 1}, "bool: 1 is no bool"),
        ({"int64": True}, "int64: True is no int64"),
        ({"string": b"x"}, "string: b'x' is no string"),
        ({"string": "\ud800"}, "is no string"),
        ({"bytes": "x"}, "bytes: 'x' is no bytes"),
        ({"color": "PINK"}, "color: 'PINK' is no enum"),
        ({"color": 1}, "color: 1 is no enum"),
        ({"float": 1e300}, "is no float"),
        ({"double": "1"}, "is no double"),
        ({"at": "yesterday"}, "at is missing, null or no timestamp"),
        ({"item": 5}, "item: 5 is no message"),
        ({"item": {"skew": "a"}}, "item.skew: the message has no such field"),
        ({"items": {}}, "items: {} is no list of message"),
        ({"items": [{"count": "1"}]}, r"items\[0\].count: '1' is no int32"),
        ({"items": [None]}, r"items\[0\] is missing, null or no message"),
        ({"counts": []}, r"counts: \[\] is no map"),
        ({"named": {"x": {}}}, "named is missing, null or no sint32"),
        ({"int32": "5"}, "int32: '5' is no int32"),
        ({"int32": Decimal("Infinity")}, r"int32: Decimal\('Infinity'\) is no int32"),
    ],
)
def test_produce_refuses_what_does_not_fit(event: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        encode_message(event, FIELDS)
