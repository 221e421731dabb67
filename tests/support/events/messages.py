"""A Protobuf message with every type, its descriptor file, and random events, by Google's own library."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2
from google.protobuf.message import Message

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.job.job import Job
from support.events.wide import job_text

NAME = "shop.Order"
PROTO = """\
syntax = "proto3";  // a comment with message Ghost {
package shop;
import "google/protobuf/timestamp.proto";
/* message Ghost { } */
message Other { message Order { string s = 1; } string message = 1 [json_name = "message Ghost {"]; }
enum Color { RED = 0; GREEN = 1; option allow_alias = true; }
message Order { string key = 1; }
"""
"""The messages that are in this text are Other, with the index 0, and Order, with the index 1."""
_D = descriptor_pb2.FieldDescriptorProto
NUMBERS = {
    "int32": (-(1 << 31), (1 << 31) - 1, -1, 300),
    "int64": (-(1 << 63), (1 << 63) - 1, -1, 1 << 40),
    "uint32": ((1 << 32) - 1, 1 << 31, 7),
    "uint64": ((1 << 64) - 1, 1 << 63, 7),
    "sint32": (-(1 << 31), (1 << 31) - 1, -1, 300),
    "sint64": (-(1 << 63), (1 << 63) - 1, -1, 1 << 40),
    "fixed32": ((1 << 32) - 1, 1 << 31, 7),
    "fixed64": ((1 << 64) - 1, 1 << 63, 7),
    "sfixed32": (-(1 << 31), (1 << 31) - 1, -1, 300),
    "sfixed64": (-(1 << 63), (1 << 63) - 1, -1, 1 << 40),
    "float": (0.5, -3.25, float("inf"), float("-inf"), 2.0**100),
    "double": (0.1, -1e300, float("inf"), float("-inf"), 5e-324),
    "bool": (True,),
    "string": ("größe", "\U0001f600 'x' \\", "a\0b", "x" * 200),
    "bytes": (b"\0\xff\xc3", b"plain", b"x" * 200),
    "color": ("GREEN", "BLUE", "DARK"),
}
"""Values of each type, beside its default."""
ZEROS: dict[str, Any] = {"float": 0.0, "double": 0.0, "bool": False, "string": "", "bytes": b"", "color": "RED"}
TYPES = tuple(NUMBERS)
TYPE_NAMES = {_D.Type.Value(f"TYPE_{one.upper()}"): one for one in TYPES if one != "color"}
_UNSIGNED = ("uint64", "fixed64")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE = 1_700_000_000 // 60 * 60


def field(
    message: descriptor_pb2.DescriptorProto,
    name: str,
    number: int,
    kind: str,
    label: str = "optional",
    **more: Any,
) -> descriptor_pb2.FieldDescriptorProto:
    """Add a field. `kind`: a type of TYPES, or the full name of a message."""
    made = message.field.add(name=name, number=number, label=_D.Label.Value(f"LABEL_{label.upper()}"), **more)
    if kind == "color":
        made.type, made.type_name = _D.TYPE_ENUM, ".shop.Color"
    elif kind in TYPES:
        made.type = _D.Type.Value(f"TYPE_{kind.upper()}")
    else:
        made.type, made.type_name = _D.TYPE_MESSAGE, f".{kind}"
    return made


def optional(message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str) -> None:
    """Add a field that is `optional` in proto3: as the only one of a oneof."""
    field(message, name, number, kind, proto3_optional=True, oneof_index=len(message.oneof_decl))
    message.oneof_decl.add(name=f"_{name}")


def mapped(message: descriptor_pb2.DescriptorProto, name: str, number: int, key: str, value: str) -> None:
    entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
    entry.options.map_entry = True
    field(entry, "key", 1, key)
    field(entry, "value", 2, value)
    field(message, name, number, f"shop.{message.name}.{entry.name}", "repeated")


def file() -> descriptor_pb2.FileDescriptorProto:
    """The file of the message: Item and Order, which is the second."""
    made = descriptor_pb2.FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    made.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    colors = made.enum_type.add(name="Color")
    colors.options.allow_alias = True
    for name, number in {"RED": 0, "GREEN": 1, "BLUE": 2, "AZURE": 2, "DARK": -5}.items():
        colors.value.add(name=name, number=number)
    item = made.message_type.add(name="Item")
    field(item, "sku", 1, "string")
    field(item, "count", 2, "int32")
    field(item, "marks", 3, "color", "repeated")
    field(item, "at", 4, "google.protobuf.Timestamp")
    order = made.message_type.add(name="Order")
    field(order, "key", 1, "string")
    field(order, "at", 2, "google.protobuf.Timestamp")
    order.oneof_decl.add(name="choice")
    for at, kind in enumerate(TYPES):
        field(order, kind, 10 + at, kind)
        optional(order, f"{kind}_or", 110 + at, kind)
        field(order, f"{kind}_list", 210 + at, kind, "repeated")
    field(order, "one", 40, "int32", oneof_index=0)
    field(order, "other", 41, "string", oneof_index=0)
    field(order, "item_of", 42, "shop.Item", oneof_index=0)
    field(order, "item", 50, "shop.Item")
    field(order, "items", 51, "shop.Item", "repeated")
    mapped(order, "counts", 60, "string", "int64")
    mapped(order, "named", 61, "sint32", "shop.Item")
    mapped(order, "flags", 62, "bool", "color")
    field(order, "text", 70, "google.protobuf.StringValue")
    field(order, "number", 71, "google.protobuf.UInt64Value")
    field(order, "times", 72, "google.protobuf.Timestamp", "repeated")
    return made


def descriptor_set(*files: descriptor_pb2.FileDescriptorProto) -> bytes:
    """As `protoc --include_imports --descriptor_set_out` writes it."""
    made = descriptor_pb2.FileDescriptorSet()
    for module in (timestamp_pb2, wrappers_pb2):
        module.DESCRIPTOR.CopyToProto(made.file.add())
    made.file.extend(files or [file()])
    return made.SerializeToString()


def message_class(descriptor: bytes, name: str = NAME) -> type[Message]:
    pool = descriptor_pool.DescriptorPool()
    for one in descriptor_pb2.FileDescriptorSet.FromString(descriptor).file:
        pool.Add(one)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def job(folder: Path, source: str = "", descriptor: bytes | None = None, name: str = NAME) -> Job:
    """A job on the message, from files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "event.desc").write_bytes(descriptor_set() if descriptor is None else descriptor)
    text = job_text("wide", f"format: confluent-protobuf, message: {name}{source}").replace(
        "event.avsc", "event.desc"
    )
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    return load_job(folder / "job.yaml")


def events(count: int, seed: int) -> list[dict[str, Any]]:
    """Events of 20 keys within ten minutes: fields of Order that are left out have their defaults."""
    rng = random.Random(seed)
    return [_event(rng) for _ in range(count)]


def _event(rng: random.Random) -> dict[str, Any]:
    event: dict[str, Any] = {"key": f"k{rng.randrange(20)}", "at": _time(rng)}
    for kind in TYPES:
        zero = ZEROS.get(kind, 0)
        pick = [zero, *NUMBERS[kind]]
        for name, value in {
            kind: rng.choice(pick),
            f"{kind}_or": rng.choice(pick),
            f"{kind}_list": [rng.choice(pick) for _ in range(rng.choice([1, 2, 9]))],
        }.items():
            if rng.random() < 0.5:
                event[name] = value
    chosen = rng.choice([{}, {"one": 0}, {"one": -3}, {"other": ""}, {"item_of": _item(rng)}])
    event |= chosen
    for name, make in {
        "item": lambda: _item(rng),
        "items": lambda: [_item(rng) for _ in range(rng.randrange(4))],
        "counts": lambda: {rng.choice("abcdé"): rng.randrange(-9, 9) for _ in range(3)},
        "named": lambda: {rng.randrange(-3, 3): _item(rng) for _ in range(2)},
        "flags": lambda: {rng.random() < 0.5: rng.choice(["RED", "DARK"])},
        "text": lambda: rng.choice(["", "x"]),
        "number": lambda: rng.choice([0, (1 << 64) - 1]),
        "times": lambda: [_time(rng) for _ in range(2)],
    }.items():
        if rng.random() < 0.5:
            event[name] = make()
    return event


def _item(rng: random.Random) -> dict[str, Any]:
    made = {
        "sku": rng.choice(["a", "ß" * 30]),
        "count": rng.randrange(-5, 500),
        "marks": ["BLUE", "RED"][: rng.randrange(3)],
        "at": _time(rng),
    }
    return {name: value for name, value in made.items() if rng.random() < 0.6}


def _time(rng: random.Random) -> datetime:
    return _EPOCH + timedelta(seconds=_MINUTE + rng.randrange(600), microseconds=rng.choice([0, 1, 999_999]))


def serialized(event: dict[str, Any], made_of: type[Message]) -> bytes:
    """The event's bytes, by Google's library."""
    made = made_of()
    _fill(made, event)
    return made.SerializeToString()


def _fill(message: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        kind = message.DESCRIPTOR.fields_by_name[name]
        if kind.message_type is not None and kind.message_type.GetOptions().map_entry:
            for key, held in value.items():
                _set_in_map(getattr(message, name), key, held, kind.message_type.fields_by_name["value"])
        elif isinstance(value, list):
            for one in value:
                _append(getattr(message, name), one, kind)
        elif kind.message_type is not None:
            getattr(message, name).SetInParent()
            _fill_message(getattr(message, name), value)
        else:
            setattr(message, name, _plain(value, kind))


def _plain(value: Any, kind: Any) -> Any:
    return kind.enum_type.values_by_name[value].number if kind.enum_type is not None else value


def _append(values: Any, one: Any, kind: Any) -> None:
    if kind.message_type is not None:
        _fill_message(values.add(), one)
    else:
        values.append(_plain(one, kind))


def _set_in_map(values: Any, key: Any, held: Any, kind: Any) -> None:
    if kind.message_type is not None:
        values[key].SetInParent()
        _fill_message(values[key], held)
    else:
        values[key] = _plain(held, kind)


def _fill_message(message: Any, value: Any) -> None:
    if isinstance(value, datetime):
        message.FromDatetime(value)
    elif isinstance(value, dict):
        _fill(message, value)
    else:
        message.value = value


def read(event: dict[str, Any]) -> dict[str, Any]:
    """What a job reads of an event: each field of Order, with times in microseconds."""
    made: dict[str, Any] = {"key": event["key"], "at": _micros(event["at"])}
    for kind in TYPES:
        zero = _decimal(ZEROS.get(kind, 0), kind)
        made[kind] = _decimal(event.get(kind, zero), kind)
        made[f"{kind}_or"] = _decimal(event.get(f"{kind}_or"), kind)
        made[f"{kind}_list"] = [_decimal(one, kind) for one in event.get(f"{kind}_list", ())]
    made |= {name: event.get(name) for name in ("one", "other", "text")}
    made |= {name: _read_item(event.get(name)) for name in ("item_of", "item")}
    made["items"] = [_read_item(one) for one in event.get("items", ())]
    made["counts"] = event.get("counts", {})
    made["named"] = {str(key): _read_item(one) for key, one in event.get("named", {}).items()}
    made["flags"] = {str(key).lower(): one for key, one in event.get("flags", {}).items()}
    made["number"] = _decimal(event.get("number"), "uint64")
    made["times"] = [_micros(one) for one in event.get("times", ())]
    return made


def _read_item(item: dict[str, Any] | None) -> dict[str, Any] | None:
    if item is None:
        return None
    at = item.get("at")
    of = {"sku": item.get("sku", ""), "count": item.get("count", 0), "marks": item.get("marks", [])}
    return {**of, "at": None if at is None else _micros(at)}


def _decimal(value: Any, kind: str) -> Any:
    return Decimal(value) if kind in _UNSIGNED and value is not None else value


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def of_message(message: Any) -> dict[str, Any]:
    """What a job reads of a message that Google's library has read."""
    return {one.name: _of_field(message, one) for one in message.DESCRIPTOR.fields}


def _of_field(message: Any, of: Any) -> Any:
    value = getattr(message, of.name)
    if of.message_type is not None and of.message_type.GetOptions().map_entry:
        held = of.message_type.fields_by_name["value"]
        keys = {one: str(one) if isinstance(one, str) else str(one).lower() for one in value}
        return {shown: _of_value(value[one], held) for one, shown in keys.items()}
    if of.is_repeated:
        return [_of_value(one, of) for one in value]
    return _of_value(value, of) if not of.has_presence or message.HasField(of.name) else None


def _of_value(value: Any, of: Any) -> Any:
    if of.enum_type is not None:
        return of.enum_type.values_by_number[value].name
    if of.message_type is None:
        return Decimal(value) if of.type in (_D.TYPE_UINT64, _D.TYPE_FIXED64) else value
    if of.message_type.full_name == "google.protobuf.Timestamp":
        return value.seconds * 1_000_000 + value.nanos // 1_000
    if of.message_type.full_name.endswith("UInt64Value"):
        return Decimal(value.value)
    return value.value if of.message_type.full_name.startswith("google.") else of_message(value)
