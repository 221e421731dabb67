"""Random Protobuf message types and messages of them, by Google's own library."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.message import Message

from support.events import messages

_WRAPPER = "google.protobuf.UInt64Value"
_TIMESTAMP = "google.protobuf.Timestamp"
_KEYS = ("string", "bool", "int32", "uint64", "sint64", "fixed32", "fixed64", "sfixed64")
_TEXTS = ("", "größe", "\U0001f600'", "a\0b", "x\U0001f600" * 40)
_DEEPEST = 8


def random_file(rng: random.Random, syntax: str = "proto3") -> descriptor_pb2.FileDescriptorProto:
    """A file whose message shop.Order has a key, a time, random fields, and the deepest messages that are read."""
    made = messages.file()
    made.syntax = syntax
    del made.message_type[:]
    names = [f"Part{level}" for level in range(_DEEPEST - 1)]
    for level, name in enumerate(names):
        # Each holds the next one, so that the deepest is reached.
        part = made.message_type.add(name=name)
        if level + 1 < len(names):
            messages.field(part, "next", 1, f"shop.{names[level + 1]}", "repeated" if level == 2 else "optional")
            _add_fields(part, rng, [], 2, rng.randrange(1, 4), syntax)
        else:
            messages.field(part, "last", 1, rng.choice(messages.TYPES))
    order = made.message_type.add(name="Order")
    messages.field(order, "key", 1, "string")
    messages.field(order, "at", 2, _TIMESTAMP)
    messages.field(order, "first", 3, "shop.Part0")
    _add_fields(order, rng, ["shop.Part5", "shop.Part6"], 4, 12, syntax)
    return made


def _add_fields(
    message: descriptor_pb2.DescriptorProto,
    rng: random.Random,
    parts: list[str],
    first: int,
    count: int,
    syntax: str,
) -> None:
    message.oneof_decl.add(name="choice")
    for number in range(first, first + count):
        kind = rng.choice([*messages.TYPES, *parts, _WRAPPER, _TIMESTAMP])
        name, shape = f"f{number}", 3 if number == first else rng.randrange(7)
        if shape == 0:
            messages.field(message, name, number, kind, "repeated")
        elif shape == 1:
            messages.mapped(message, name, number, rng.choice(_KEYS), kind)
        elif shape == 2 and syntax == "proto3":
            messages.optional(message, name, number, kind)
        elif shape == 3:
            messages.field(message, name, number, kind, oneof_index=0)
        elif shape == 4 and syntax == "proto2":
            messages.field(message, name, number, kind, "required")
        else:
            messages.field(message, name, number, kind)


def random_message(made_of: type[Message], rng: random.Random) -> Message:
    """A message with a key and a time."""
    made: Any = made_of()
    _fill(made, rng)
    made.key = f"k{rng.randrange(9)}"
    made.at.FromSeconds(1_700_000_000 + rng.randrange(600))
    return made


def _fill(message: Any, rng: random.Random) -> None:
    for one in message.DESCRIPTOR.fields:
        if one.is_required or rng.random() < 0.8:
            _set(message, one, rng)


def _set(message: Any, of: Any, rng: random.Random) -> None:
    values = getattr(message, of.name)
    if of.message_type is not None and of.message_type.GetOptions().map_entry:
        key, value = of.message_type.fields_by_name["key"], of.message_type.fields_by_name["value"]
        for _ in range(rng.randrange(3)):
            at = _value(key, rng)
            if value.message_type is None:
                values[at] = _value(value, rng)
            else:
                _fill_part(values[at], rng)
    elif of.is_repeated and of.message_type is not None:
        for _ in range(rng.randrange(3)):
            _fill_part(values.add(), rng)
    elif of.is_repeated:
        values.extend(_value(of, rng) for _ in range(rng.randrange(4)))
    elif of.message_type is not None:
        values.SetInParent()
        _fill_part(values, rng)
    else:
        setattr(message, of.name, _value(of, rng))


def _fill_part(message: Any, rng: random.Random) -> None:
    name = message.DESCRIPTOR.full_name
    if name == _TIMESTAMP:
        message.FromMicroseconds(rng.randrange(-(10**15), 10**15))
    elif name == _WRAPPER:
        message.value = rng.choice([0, 7, (1 << 64) - 1])
    else:
        _fill(message, rng)


def _value(of: Any, rng: random.Random) -> Any:
    if of.enum_type is not None:
        return rng.choice([one.number for one in of.enum_type.values])
    kind = messages.TYPE_NAMES[of.type]
    if kind == "string":
        return rng.choice(_TEXTS)
    return rng.choice([messages.ZEROS.get(kind, 0), *messages.NUMBERS[kind]])
