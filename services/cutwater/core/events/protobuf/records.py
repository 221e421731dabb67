"""A decoder of Protobuf events, for samples that are read without Spark.

The driver decodes in the JVM (`cutwater_spark.query.protobuf.java`), and tests compare the two.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from cutwater.core.events.formats import (
    CONFLUENT_HEADER_BYTES,
    CONFLUENT_PROTOBUF,
    WriterSchema,
    of_another_schema,
)
from cutwater.core.events.json_events import KEY_SHOWN
from cutwater.core.events.protobuf.fields import (
    ENUM,
    MAP,
    NANOS_MAX,
    NO_LIST,
    NO_MESSAGE,
    NO_SYMBOL,
    NO_TIME,
    NOT_THERE,
    OTHER_MESSAGE,
    OTHER_TYPE,
    SECONDS,
    TIMESTAMP,
    WRAPPER,
    ProtoField,
    protobuf_fields,
)
from cutwater.core.events.protobuf.message_index import headers_of
from cutwater.core.events.protobuf.wire import LENGTH, VARINT, WireEntry, WireError, entries_of, varints_of
from cutwater.core.events.rejection import (
    ELEMENTS_MAX,
    NO_VALUE,
    NO_VALUE_RULE,
    TEXT_RULE,
    UNDECODABLE,
    Flaw,
)

FORMATS = {"double": "<d", "float": "<f", "fixed32": "<I", "fixed64": "<Q", "sfixed32": "<i", "sfixed64": "<q"}
"""Of fixed numbers, in the words of `struct`."""


class _UnfitError(ValueError):
    def __init__(self, rule: str, path: str) -> None:
        super().__init__(rule)
        self.flaw = Flaw(UNDECODABLE, rule, path.removeprefix(".") or None)


class ProtobufReader:
    """Reads events of the `known` schemas with a job's `schema`."""

    def __init__(self, schema: Mapping[str, Any], known: Iterable[WriterSchema]) -> None:
        self._fields = protobuf_fields(schema)
        self._known = {one.header[:CONFLUENT_HEADER_BYTES]: one for one in known}

    def read(self, value: bytes | None) -> dict[str, Any] | Flaw:
        """Decode an event, with times in microseconds since 1970."""
        if value is None:
            return Flaw(NO_VALUE, NO_VALUE_RULE)
        known = self._known.get(value[:CONFLUENT_HEADER_BYTES])
        if known is None:
            return of_another_schema(CONFLUENT_PROTOBUF, value)
        header = next((one for one in headers_of(known) if value.startswith(one)), None)
        if known.problem or header is None:
            return Flaw(UNDECODABLE, known.problem or OTHER_MESSAGE)
        try:
            return _message(value[len(header) :], self._fields, "")
        except _UnfitError as error:
            return error.flaw


def _message(body: bytes, fields: Sequence[ProtoField], path: str) -> dict[str, Any]:
    entries = _entries(body, fields, path)
    return {one.name: _field(entries, one, f"{path}.{one.name}") for one in fields}


def _entries(body: bytes, fields: Sequence[ProtoField], path: str) -> list[WireEntry]:
    """Return the entries of a message, each of a kind that its field has."""
    try:
        entries = entries_of(body)
    except WireError:
        raise _UnfitError(NO_MESSAGE, path) from None
    of = {one.number: one for one in fields}
    for one in entries:
        field = of.get(one.number)
        if field and one.kind != field.kind and not (field.is_packable and one.kind == LENGTH):
            raise _UnfitError(OTHER_TYPE.format(field.shown), f"{path}.{field.name}")
    return entries


def _field(entries: Sequence[WireEntry], field: ProtoField, path: str) -> Any:
    own = [one for one in entries if one.number == field.number]
    if field.repeated:
        return _list(own, field, path)
    if field.type == MAP:
        return _map(own, field, path)
    if field.members:
        last = [one for one in entries if one.number in field.members][-1:]
        own = [one for one in last if one.number == field.number]
    if own and field.fields:  # the parts of a message that is written several times are one
        return _value(b"".join(one.part for one in own), field, path)
    if own:
        return _value(own[-1].value if field.kind == VARINT else own[-1].part, field, path)
    if not field.has_default:
        raise _UnfitError(NOT_THERE, path)
    return field.default


def _list(own: Sequence[WireEntry], field: ProtoField, path: str) -> list[Any]:
    found: list[int | bytes] = []
    for one in own:
        if field.is_packable and one.kind == LENGTH:
            found += _packed(one.part, field, path)
        else:
            found.append(one.value if field.kind == VARINT else one.part)
    if len(found) > ELEMENTS_MAX:
        raise _UnfitError(NO_LIST.format(ELEMENTS_MAX), path)
    return [_value(one, field, f"{path}[{at}]") for at, one in enumerate(found)]


def _packed(body: bytes, field: ProtoField, path: str) -> Sequence[int | bytes]:
    if field.kind != VARINT:
        size = struct.calcsize(FORMATS[field.type])
        if len(body) % size:
            raise _UnfitError(NO_LIST.format(ELEMENTS_MAX), path)
        return [body[at : at + size] for at in range(0, len(body), size)]
    try:
        return varints_of(body)
    except WireError:
        raise _UnfitError(NO_LIST.format(ELEMENTS_MAX), path) from None


def _map(own: Sequence[WireEntry], field: ProtoField, path: str) -> dict[str, Any]:
    """Return a map with its keys as texts; of two equal ones the last counts."""
    if len(own) > ELEMENTS_MAX:
        raise _UnfitError(NO_LIST.format(ELEMENTS_MAX), path)
    key, value = field.fields
    found = {}
    for one in own:
        entries = _entries(one.part, field.fields, path)
        name = _field(entries, key, f"{path}.key")
        shown = name if isinstance(name, str) else str(name).lower()
        if value.fields and not any(each.number == value.number for each in entries):
            entries.append(WireEntry(value.number, LENGTH, 0, b""))
        found[shown] = _field(entries, value, f"{path}['{shown[:KEY_SHOWN]}']")
    return found


def _value(raw: int | bytes, field: ProtoField, path: str) -> Any:
    if isinstance(raw, int):
        return _of_varint(raw, field, path)
    if field.type in FORMATS:
        (number,) = struct.unpack(FORMATS[field.type], raw)
        return Decimal(number) if field.type == "fixed64" else number
    if field.type == "string":
        return _text(raw, path)
    if field.type == "bytes":
        return raw
    found = _message(raw, field.fields, path)
    if field.type == WRAPPER:
        return found["value"]
    return _time(found, path) if field.type == TIMESTAMP else found


def _text(raw: bytes, path: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise _UnfitError(TEXT_RULE, path) from None


def _time(found: Mapping[str, int], path: str) -> int:
    if not SECONDS[0] <= found["seconds"] <= SECONDS[1] or not 0 <= found["nanos"] <= NANOS_MAX:
        raise _UnfitError(NO_TIME, path)
    return found["seconds"] * 1_000_000 + found["nanos"] // 1_000


def _of_varint(raw: int, field: ProtoField, path: str) -> Any:
    kind = field.type
    if kind == "bool":
        return raw != 0
    if kind == "uint64":
        return Decimal(raw)
    if kind.endswith("32") or kind == ENUM:
        raw &= 0xFFFF_FFFF
    if kind == "uint32":
        return raw
    bits = 64 if kind.endswith("64") else 32
    number = raw >> 1 ^ -(raw & 1) if kind.startswith("sint") else raw - ((raw >> bits - 1) << bits)
    if kind != ENUM:
        return number
    symbol = dict(field.symbols).get(number)
    if symbol is None:
        raise _UnfitError(NO_SYMBOL, path)
    return symbol
