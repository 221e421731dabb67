"""The event schema of a message: Avro, with a note per field that says how Protobuf writes it."""

from __future__ import annotations

import math
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.events.json_events import ELEMENT_FIELDS_MAX, LEVELS_MAX, NESTED_FIELDS_MAX
from cutwater.core.events.protobuf.fields import ENUM, MAP, MESSAGE, NOTE, TIMESTAMP, UINT64_DIGITS, WRAPPER, zero
from cutwater.core.events.protobuf.message_types import REPEATED, REQUIRED, MessageField, MessageType, MessageTypes
from cutwater.core.util.suggestions import closest, listed, value_text

_UNSIGNED = {"type": "bytes", "logicalType": "decimal", "precision": UINT64_DIGITS, "scale": 0}
_AVRO: dict[str, Any] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), "int"),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), "long"),
    **dict.fromkeys(("uint64", "fixed64"), _UNSIGNED),
    "bool": "boolean",
    **{one: one for one in ("float", "double", "string", "bytes")},
    TIMESTAMP: {"type": "long", "logicalType": "timestamp-micros"},
}
_WRAPPED = {
    f"google.protobuf.{name}Value": of
    for name, of in {
        "Double": "double", "Float": "float", "Int64": "int64", "UInt64": "uint64", "Int32": "int32",
        "UInt32": "uint32", "Bool": "bool", "String": "string", "Bytes": "bytes",
    }.items()
}  # fmt: skip
_TIMESTAMP = "google.protobuf.Timestamp"
_REMEDY = "remove it from a copy of the .proto; fields that the copy lacks are ignored"


def message_schema(types: MessageTypes, message: str, origin: str) -> dict[str, Any]:
    """Return the event schema of a message, with the notes that `fields` reads.

    Raises UsageError, which names the origin, for an unknown message, or a type that is not read.
    """
    if message not in types.top:
        raise _no_message(types, message, origin)
    made: dict[str, Any] = _Schema(types, origin).record(message, "", ())
    return made


def _no_message(types: MessageTypes, message: str, origin: str) -> UsageError:
    if message in types.messages:
        return UsageError(
            f"{origin}: message {value_text(message)} is inside of another, and serializers number such messages "
            "in different ways: only a message of its own can be an event"
        )
    meant = closest(message, types.top)
    advice = f"; did you mean '{meant}'?" if meant else ""
    return UsageError(f"{origin} has no message {value_text(message)}; it has: {listed(types.top)}{advice}")


class _Schema:
    """Writes the Avro types of messages, each named type in full at its first use."""

    def __init__(self, types: MessageTypes, origin: str) -> None:
        self._types, self._origin = types, origin
        self._defined: set[str] = set()
        self._nested = 0

    def record(self, name: str, path: str, within: tuple[str, ...], level: int = 0) -> Any:
        """`within`: the messages around this one."""
        message = self._types.messages[name]
        if name in within:
            raise self._refusal(path, "contains itself")
        if not message.fields:
            raise self._refusal(path or name, "is a message without fields")
        oneofs: dict[int, list[int]] = {}
        for one in message.fields:
            if one.oneof is not None:
                oneofs.setdefault(one.oneof, []).append(one.number)
        seen, fields = name in self._defined, []
        self._defined.add(name)
        for one in message.fields:
            inner = f"{path}.{one.name}" if path else one.name
            made = self._field(one, message, inner, (*within, name), level)
            if one.oneof is not None:
                made[NOTE]["members"] = oneofs[one.oneof]
            fields.append(made)
        return name if seen else {"type": "record", **_named(name), "fields": fields}

    def _field(
        self, one: MessageField, message: MessageType, path: str, within: tuple[str, ...], level: int
    ) -> dict[str, Any]:
        self._nested += 1 if level else 0
        if self._nested > NESTED_FIELDS_MAX:
            raise self._refusal(path, f"is one of more than {NESTED_FIELDS_MAX} fields inside of others")
        note: dict[str, Any] = {"number": one.number, "type": one.type}
        of_map = self._types.messages.get(one.type_name) if one.type == MESSAGE else None
        if of_map and of_map.is_map:
            avro = self._map(of_map, note, path, within, level)
            return {"name": one.name, "type": avro, "default": {}, NOTE: note}
        if one.label == REPEATED:
            avro = {"type": "array", "items": self._type(one, note, path, within, self._deeper(path, level))}
            self._require_few_fields(one.type_name, path)
            return {"name": one.name, "type": avro, "default": [], NOTE: note}
        avro = self._type(one, note, path, within, level)
        return {"name": one.name, **self._presence(one, message, avro, path), NOTE: note}

    def _map(
        self, of: MessageType, note: dict[str, Any], path: str, within: tuple[str, ...], level: int
    ) -> dict[str, Any]:
        key, value = sorted(of.fields, key=lambda one: one.number)
        inner: dict[str, Any] = {"type": value.type}
        avro = self._type(value, inner, path, within, self._deeper(path, level))
        self._require_few_fields(value.type_name, path)
        note |= {"type": MAP, "key": key.type, "value": inner["type"], "wrapped": inner.get("value")}
        return {"type": "map", "values": avro}

    def _presence(self, one: MessageField, message: MessageType, avro: Any, path: str) -> dict[str, Any]:
        """Return type and default: what the field is if it is not written."""
        if one.label == REQUIRED:
            return {"type": avro}
        if one.default is not None:
            return {"type": avro, "default": self._default(one, path)}
        implicit = message.is_proto3 and one.oneof is None and not one.is_optional and one.type != MESSAGE
        if not implicit:
            return {"type": ["null", avro], "default": None}
        return {"type": avro, "default": self._zero(one)}

    def _zero(self, one: MessageField) -> Any:
        if one.type == ENUM:
            return next(iter(self._types.enums[one.type_name].values()))
        plain = zero(one.type)
        return {"uint64": "\0", "fixed64": "\0", "bytes": ""}.get(one.type, plain)

    def _default(self, one: MessageField, path: str) -> Any:
        given = one.default or ""
        if one.type == ENUM:
            return self._types.aliases.get(one.type_name, {}).get(given, given)
        if one.type == "string":
            return given
        if one.type == "bool":
            return given == "true"
        try:
            if one.type == "bytes":  # protoc writes it with the escapes of C
                return given.encode("latin-1").decode("unicode_escape")
            number: Any = float(given) if one.type in ("float", "double") else int(given)
            if math.isfinite(number):
                return number if _AVRO[one.type] is not _UNSIGNED else number.to_bytes(9, "big").decode("latin-1")
        except (ValueError, OverflowError):
            pass
        raise self._refusal(path, f"has the default {value_text(given)}")

    def _type(
        self, one: MessageField, note: dict[str, Any], path: str, within: tuple[str, ...], level: int
    ) -> Any:
        """Return the Avro type of one value, and note what Protobuf's is."""
        name = one.type_name
        if one.type == ENUM:
            return self._enum(name, path)
        if one.type != MESSAGE:
            if one.type not in _AVRO:
                raise self._refusal(path, f"is a {one.type}")
            return _AVRO[one.type]
        if name == _TIMESTAMP:
            note["type"] = TIMESTAMP
            return _AVRO[TIMESTAMP]
        if name in _WRAPPED:
            note |= {"type": WRAPPER, "value": _WRAPPED[name]}
            return _AVRO[_WRAPPED[name]]
        if name not in self._types.messages:
            raise UsageError(
                f"{self._origin}: field '{path}' is {value_text(name)}, which the descriptor lacks: make it with "
                "--include_imports"
            )
        return self.record(name, path, within, self._deeper(path, level))

    def _enum(self, name: str, path: str) -> Any:
        symbols = self._types.enums.get(name)
        if not symbols:
            raise self._refusal(path, f"is an enum {value_text(name)} that the descriptor lacks")
        if name in self._defined:
            return name
        self._defined.add(name)
        return {"type": "enum", **_named(name), "symbols": list(symbols.values()), NOTE: list(symbols)}

    def _deeper(self, path: str, level: int) -> int:
        if level == LEVELS_MAX:
            raise self._refusal(path, f"is more than {LEVELS_MAX} levels deep")
        return level + 1

    def _require_few_fields(self, name: str, path: str) -> None:
        """A message of two bytes, an empty one, has all of its fields in memory."""
        if name in self._types.messages and len(self._types.messages[name].fields) > ELEMENT_FIELDS_MAX:
            raise self._refusal(path, f"holds messages of more than {ELEMENT_FIELDS_MAX} fields")

    def _refusal(self, path: str, why: str) -> UsageError:
        return UsageError(f"{self._origin}: field '{path}' {why}, which is not read: {_REMEDY}")


def _named(name: str) -> dict[str, str]:
    namespace, _, short = name.rpartition(".")
    return {"name": short, "namespace": namespace} if namespace else {"name": short}
