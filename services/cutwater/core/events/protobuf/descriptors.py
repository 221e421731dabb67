"""A descriptor file of protoc, made into the event schema of one of its messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.events.protobuf.fields import ENUM, MESSAGE
from cutwater.core.events.protobuf.message_schema import message_schema
from cutwater.core.events.protobuf.message_types import MessageField, MessageType, MessageTypes
from cutwater.core.events.protobuf.wire import LENGTH, WireEntry, WireError, entries_of
from cutwater.core.util.suggestions import value_text

_TYPES = (
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", MESSAGE,
    "bytes", "uint32", ENUM, "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
"""By their number in a descriptor."""


def event_schema_of(descriptor: bytes, message: str, origin: str) -> dict[str, Any]:
    """Return the event schema of a message of a file descriptor set, with the notes that `fields` reads.

    Raises UsageError, which names the origin, for another file, an unknown message, or a type that is not read.
    """
    types = MessageTypes()
    try:
        for one in _inside(entries_of(descriptor), 1):
            _add_file(one, types, origin)
    except (WireError, UnicodeDecodeError, TypeError, IndexError):
        raise UsageError(
            f"{origin}: no descriptor file: make it with 'protoc --include_imports --descriptor_set_out=FILE …'"
        ) from None
    return message_schema(types, message, origin)


def file_messages(descriptor: bytes) -> tuple[str, ...]:
    """Return the full names of a file descriptor's messages, without those inside of others. Raises WireError."""
    types = MessageTypes()
    try:
        _add_file(descriptor, types, "")
    except (UnicodeDecodeError, TypeError, IndexError, UsageError):
        raise WireError(descriptor[:20]) from None
    return tuple(types.top)


def _inside(entries: list[WireEntry], number: int) -> Iterator[bytes]:
    return (one.part for one in entries if one.number == number and one.kind == LENGTH)


def _text(entries: list[WireEntry], number: int, otherwise: str = "") -> str:
    return [otherwise, *(one.decode() for one in _inside(entries, number))][-1]


def _number(entries: list[WireEntry], number: int) -> int:
    return next((one.value for one in reversed(entries) if one.number == number), 0)


def _add_file(file: bytes, types: MessageTypes, origin: str) -> None:
    entries = entries_of(file)
    syntax = _text(entries, 12, "proto2")
    if syntax not in ("proto2", "proto3"):
        raise UsageError(
            f"{origin}: {_text(entries, 1)} has syntax {value_text(syntax)}; proto2 and proto3 are read"
        )
    package = _text(entries, 2)
    for one in _inside(entries, 4):
        types.top.append(_add_message(one, package, syntax == "proto3", types))
    for one in _inside(entries, 5):
        _add_enum(one, package, types)


def _add_message(message: bytes, within: str, is_proto3: bool, types: MessageTypes) -> str:
    entries = entries_of(message)
    name = _full(within, _text(entries, 1))
    options = [one for each in _inside(entries, 7) for one in entries_of(each)]
    made = types.messages[name] = MessageType(is_proto3, bool(_number(options, 7)))
    made.fields = [_field(entries_of(one)) for one in _inside(entries, 2)]
    for one in _inside(entries, 3):
        _add_message(one, name, is_proto3, types)
    for one in _inside(entries, 4):
        _add_enum(one, name, types)
    return name


def _add_enum(enum: bytes, within: str, types: MessageTypes) -> None:
    entries = entries_of(enum)
    name = _full(within, _text(entries, 1))
    symbols = types.enums[name] = {}
    aliases = types.aliases[name] = {}
    for one in _inside(entries, 2):
        value = entries_of(one)
        number = _number(value, 2)
        symbol = _text(value, 1)
        first = symbols.setdefault(number - ((number >> 63) << 64), symbol)
        if first != symbol:
            aliases[symbol] = first


def _full(within: str, name: str) -> str:
    return f"{within}.{name}" if within else name


def _field(entries: list[WireEntry]) -> MessageField:
    is_optional = bool(_number(entries, 17))
    in_oneof = any(one.number == 9 for one in entries) and not is_optional
    return MessageField(
        _text(entries, 1),
        _number(entries, 3),
        _TYPES[_number(entries, 5)],
        _number(entries, 4),
        _text(entries, 6).removeprefix("."),
        _text(entries, 7) if any(one.number == 7 for one in entries) else None,
        _number(entries, 9) if in_oneof else None,
        is_optional,
    )
