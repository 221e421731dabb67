"""Protobuf's wire format as SQL: the entries of a message, packed lists, and the values of their types.

Spark's own `from_protobuf` tells neither which field is wrong nor a wrong type inside of another message, and
needs a connector of its own. Here a loop over the message collects its entries. Avro reads the numbers: both have
them in groups of seven bits, Avro in zigzag, and floating point numbers are the same.

Nothing here raises an error: what is no message, no list or no number is NULL.
"""

from __future__ import annotations

from cutwater.core.events.protobuf.fields import ENUM, UINT64_DIGITS, ProtoField
from cutwater.core.events.protobuf.wire import (
    ENTRIES_MAX,
    FIXED32,
    FIXED64,
    LENGTH,
    TAG_BYTES_MAX,
    VARINT,
    VARINT_BYTES_MAX,
)
from cutwater_spark.query.sql import text

_CHUNK = 100
"""Entries are collected in chunks: each is copied for each entry that is added to it."""
_ENTRY = "struct<number: int, kind: int, value: bigint, part: binary>"
_DECIMAL = f"decimal({UINT64_DIGITS}, 0)"
_HALF, _WHOLE = f"{1 << 63}BD", f"{1 << 64}BD"
FIXED_BYTES = {FIXED64: 8, FIXED32: 4}
_LONG = '"long"'
_MASK = f"{(1 << 32) - 1}L"
_SIGNED_32 = "cast(shiftright(shiftleft({raw}, 32), 32) as int)"
_NUMBERS = {
    "bool": "{raw} <> 0",
    "int32": _SIGNED_32,
    ENUM: _SIGNED_32,
    "int64": "{raw}",
    "uint32": f"{{raw}} & {_MASK}",
    "uint64": f"cast(if({{raw}} < 0, {{raw}} + {_WHOLE}, {{raw}}) as {_DECIMAL})",
    "sint32": f"cast(shiftrightunsigned({{raw}} & {_MASK}, 1) ^ -({{raw}} & 1L) as int)",
    "sint64": "shiftrightunsigned({raw}, 1) ^ -({raw} & 1L)",
    "fixed32": "cast({whole} as bigint)",
    "fixed64": "{whole}",
    "sfixed32": _SIGNED_32.replace("{raw}", "cast({whole} as bigint)"),
    "sfixed64": f"cast(if({{whole}} >= {_HALF}, {{whole}} - {_WHOLE}, {{whole}}) as bigint)",
    **{one: f"from_avro({{raw}}, '\"{one}\"', map('mode', 'PERMISSIVE'))" for one in ("float", "double")},
}
"""The value by its type, of a number or of the number in bytes that are little endian."""


def bound(value: str, variable: str, made: str) -> str:
    """Return `made` with a value bound to a variable, so that it is computed once."""
    return f"transform(array({value}), {variable} -> {made})[0]"


def entries(body: str) -> str:
    """Return the entries of a message, an array of (number, kind, value, part). `body`: a column or variable."""
    size = f"octet_length({body})"
    steps = f"sequence(1, least({size} div 2 + 1, {ENTRIES_MAX}))"
    start = (
        f"named_struct('at', 1, 'full', cast(array() as array<array<{_ENTRY}>>), "
        f"'chunk', cast(array() as array<{_ENTRY}>))"
    )
    step = f"case when __sum.at <= {size} then {_next(body, size)} else __sum end"
    whole = f"case when __sum.at > {size} then concat(flatten(__sum.full), __sum.chunk) end"
    return f"aggregate({steps}, {start}, (__sum, __step) -> {step}, __sum -> {whole})"


def last_entries(all_: str) -> str:
    """Return a map of the last entry (at, value, part) of each number, which is found faster than by a loop."""
    places = f"array_sort(transform({all_}, (x, i) -> named_struct('number', x.number, 'at', i)))"
    last = bound(places, "p", "filter(p, (x, i) -> not (get(p, i + 1).number <=> x.number))")
    value = ", ".join(f"'{one}', get({all_}, x.at).{one}" for one in ("value", "part"))
    each = f"named_struct('key', x.number, 'value', named_struct('at', x.at, {value}))"
    return f"map_from_entries(transform({last}, x -> {each}))"


def _next(body: str, size: str) -> str:
    """Return the sum with the entry at its place; a place of NULL if there is none."""
    at = "__sum.at + __tag.size"
    tag_size = _varint_size(body, "__sum.at", TAG_BYTES_MAX)
    tag = f"named_struct('bits', {_avro(_ahead(body, '__sum.at'), _LONG)}, 'size', {tag_size})"
    bits, kind = _bits("__tag.bits"), "__head.kind"
    has_number = f"({bits}) & 7 in ({VARINT}, {LENGTH})"
    head = (
        f"case when ({bits}) between 8 and {(1 << 32) - 1}L then named_struct("
        f"'number', cast(shiftright({bits}, 3) as int), 'kind', cast(({bits}) & 7 as int), 'at', {at}, "
        f"'bits', case when {has_number} then {_avro(_ahead(body, at), _LONG)} end, "
        f"'size', case when {has_number} then {_varint_size(body, at, VARINT_BYTES_MAX)} else 0 end) end"
    )
    value = _bits("__head.bits")
    length = (
        f"case {kind} when {VARINT} then 0 when {FIXED64} then 8 when {FIXED32} then 4 "
        f"when {LENGTH} then case when ({value}) between 0 and {size} then cast({value} as int) end end"
    )
    start = "__head.at + __head.size"
    part = f"case when {kind} <> {VARINT} then substring({body}, {start}, {length}) end"
    made = f"named_struct('number', __head.number, 'kind', {kind}, 'value', {value}, 'part', {part})"
    end = f"{start} + {length}"
    is_full = f"cardinality(__sum.chunk) = {_CHUNK}"
    chunk = f"case when {is_full} then cast(array() as array<{_ENTRY}>) else __sum.chunk end"
    added = (
        f"named_struct('at', case when {end} <= {size} + 1 then {end} end, "
        f"'full', case when {is_full} then array_append(__sum.full, __sum.chunk) else __sum.full end, "
        f"'chunk', array_append({chunk}, {made}))"
    )
    return bound(tag, "__tag", bound(head, "__head", added))


def _ahead(body: str, at: str) -> str:
    return f"substring({body}, {at}, {VARINT_BYTES_MAX})"


def _bits(zigzag: str) -> str:
    """Return the 64 bits of a number that Avro has read."""
    return f"shiftleft({zigzag}, 1) ^ shiftright({zigzag}, 63)"


def _varint_size(body: str, at: str, most: int) -> str:
    """Return the bytes of the number at a place: up to the first without the highest bit."""
    cases = (f"when substring({body}, {at} + {one}, 1) < X'80' then {one + 1}" for one in range(most))
    return f"case {' '.join(cases)} end"


def packed_elements(part: str, field: ProtoField) -> str:
    """Return the elements of a packed list: numbers if they are varints, else bytes."""
    if field.kind != VARINT:
        size = FIXED_BYTES[field.kind]
        each = f"substring({part}, cast(__step * {size} + 1 as int), {size})"
        parts = f"transform(sequence(0, octet_length({part}) div {size} - 1), __step -> {each})"
        return (
            f"case when octet_length({part}) = 0 then cast(array() as array<binary>) "
            f"when octet_length({part}) % {size} = 0 then {parts} end"
        )
    # Bytes without the highest bit end a number; the others are two bytes of a text in UTF-8.
    count = f"(2 * octet_length({part}) - octet_length(decode({part}, 'ISO-8859-1')))"
    listed = f"concat(to_avro(cast({count} as bigint), '\"long\"'), {part}, X'00')"
    is_whole = f"substring({part}, -1, 1) < X'80' and {count} <= {ENTRIES_MAX}"
    numbers = _avro(listed, '{"type": "array", "items": "long"}')
    return (
        f"case when octet_length({part}) = 0 then cast(array() as array<bigint>) "
        f"when {is_whole} then transform({numbers}, __zigzag -> {_bits('__zigzag')}) end"
    )


def number(raw: str, field: ProtoField) -> str:
    """Return the value of a type of numbers. `raw`: a variable, a number if it is a varint, else bytes."""
    whole = "" if field.kind == VARINT else _little_endian(raw, FIXED_BYTES[field.kind])
    return _NUMBERS[field.type].format(raw=raw, whole=whole)


def _little_endian(raw: str, size: int) -> str:
    digits = ", ".join(f"substring({raw}, {at}, 1)" for at in range(size, 0, -1))
    return f"cast(conv(hex(concat({digits})), 16, 10) as {_DECIMAL})"


def _avro(value: str, schema: str) -> str:
    """Return what Avro reads at the beginning of bytes; NULL if it reads nothing."""
    return f"from_avro({value}, {text(schema)}, map('mode', 'PERMISSIVE'))"
