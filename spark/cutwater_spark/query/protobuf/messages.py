"""The values of a message as SQL, by its fields, and the first that does not fit.

A message is read in steps, each a struct of all fields: its entries, what is written of each field, the values. Of
the event itself each step is a column. Of a message inside of it each step is bound to a variable by a lambda, so
that the SQL grows with the schema and not with its depth. `cutwater.core.events.protobuf.records` does the same
without Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

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
    OTHER_TYPE,
    SECONDS,
    TIMESTAMP,
    WRAPPER,
    ProtoField,
)
from cutwater.core.events.protobuf.wire import LENGTH, VARINT
from cutwater.core.events.rejection import ELEMENTS_MAX, TEXT_RULE
from cutwater_spark.query.protobuf.wire import bound, entries, last_entries, number, packed_elements
from cutwater_spark.query.sql import binary, text

_WRONG = "_wrong"
_BEFORE_KEY, _BEHIND_KEY = text("['"), text("']")
_UNFIT = {"string": ("not is_valid_utf8({})", TEXT_RULE), ENUM: ("{} is null", NO_SYMBOL)}
"""By type: when a value does not fit, and the rule that it breaks."""
_LONGS = frozenset({"int64", "sint64", "sfixed64", "uint32", "fixed32"})


def written(all_: str, last: str, fields: Sequence[ProtoField]) -> str:
    """Return what is written of each field: a number, bytes, or an array of these.

    `all_`: the entries. `last`: the last of each number.
    """
    each = [f"'_{at}', {_written(all_, last, one)}" for at, one in enumerate(fields)]
    numbers = ", ".join(str(one.number) for one in fields)
    tags = ", ".join(f"{one.number * 8 + kind}L" for one in fields for kind in _kinds(one))
    fits = f"array_contains(array({tags}), cast(x.number as bigint) * 8 + x.kind)"
    wrong = f"get(filter({all_}, x -> array_contains(array({numbers}), x.number) and not {fits}), 0).number"
    return _unless_null(all_, f"named_struct({', '.join(each)}, '{_WRONG}', {wrong})")


def values(raw: str, fields: Sequence[ProtoField], level: int = 0) -> str:
    """Return the values of the fields. `raw`: as `written`. What holds messages has structs of found and flaw."""
    each = [f"'_{at}', {_value_of(f'{raw}._{at}', one, level)}" for at, one in enumerate(fields)]
    return _unless_null(raw, f"named_struct({', '.join(each)})")


def event(made: str, fields: Sequence[ProtoField]) -> str:
    """Return a struct of the fields by name. `made`: as `values`."""
    each = (f"{text(one.name)}, {_found(f'{made}._{at}', one)}" for at, one in enumerate(fields))
    return f"named_struct({', '.join(each)})"


def flaw(all_: str, raw: str, made: str, fields: Sequence[ProtoField], value_path: str = "") -> str:
    """Return the first flaw, a struct of path and rule; NULL without one. `value_path`: that of a map's value."""
    wrong = " ".join(
        f"when {one.number} then {_flaw(OTHER_TYPE.format(one.shown), text(f'.{one.name}'))}" for one in fields
    )
    flaws = [f"case {raw}.{_WRONG} {wrong} end"]
    for at, one in enumerate(fields):
        path = value_path if at and value_path else text(f".{one.name}")
        flaws.append(_flaw_of(f"{raw}._{at}", f"{made}._{at}", one, path))
    found = ", ".join(one for one in flaws if one)
    return f"case when {all_} is null then {_flaw(NO_MESSAGE)} else coalesce({found}) end"


def _message(body: str, fields: Sequence[ProtoField], level: int) -> str:
    """Return (found, flaw) of a message inside of another. `body`: a variable or a field."""
    all_, _, raw, made = _variables(level)
    whole = _pair(event(made, fields), flaw(all_, raw, made, fields))
    whole = bound(values(raw, fields, level), made, whole)
    return _with_entries(body, level, bound(_written_in(level, fields), raw, whole))


def _with_entries(body: str, level: int, made: str) -> str:
    part, (all_, last, *_) = f"__body{level}", _variables(level)
    return bound(body, part, bound(entries(part), all_, bound(last_entries(all_), last, made)))


def _written_in(level: int, fields: Sequence[ProtoField]) -> str:
    all_, last, *_ = _variables(level)
    return written(all_, last, fields)


def _unless_null(value: str, struct: str) -> str:
    """Return a struct that is NULL if the value is. A struct alone Spark would write out wherever it is used."""
    return f"case when {value} is not null then {struct} end"


def _variables(level: int) -> tuple[str, str, str, str]:
    return f"__entries{level}", f"__last{level}", f"__written{level}", f"__values{level}"


def _kinds(field: ProtoField) -> set[int]:
    return {field.kind, LENGTH} if field.is_packable else {field.kind}


def _written(all_: str, last: str, field: ProtoField) -> str:
    own, found = f"filter({all_}, x -> x.number = {field.number})", f"try_element_at({last}, {field.number})"
    value = "value" if field.kind == VARINT else "part"
    if field.repeated or field.type == MAP:
        parts = f"transform({own}, x -> x.{value})"
        if field.is_packable:
            each = f"if(x.kind = {LENGTH}, {packed_elements('x.part', field)}, array(x.{value}))"
            parts = f"flatten(transform({own}, x -> {each}))"
        none = f"cast(array() as array<{'bigint' if field.kind == VARINT else 'binary'}>)"
        return f"case when {found} is null then {none} else {_few(parts)} end"
    if len(field.members) > 1:  # of a oneof the last one counts
        others = ", ".join(f"try_element_at({last}, {one}).at" for one in field.members)
        return f"case when {found}.at = greatest({others}) then {found}.{value} end"
    if field.fields:  # the parts of a message that is written several times are one
        start = "cast(null as binary)"
        joined = f"aggregate({own}, {start}, (__joined, x) -> concat(coalesce(__joined, X''), x.part))"
        return f"case when {found} is not null then {joined} end"
    return f"{found}.{value}"


def _few(parts: str) -> str:
    return bound(parts, "x", f"case when cardinality(x) <= {ELEMENTS_MAX} then x end")


def _value_of(raw: str, field: ProtoField, level: int) -> str:
    if field.type == MAP:
        pair = f"__pair{level}"
        return f"transform({raw}, {pair} -> {_pair_of(pair, field, level + 1)})"
    if field.repeated:
        each = f"__each{level}"
        return f"transform({raw}, {each} -> {_value(each, field, level)})"
    made = _value(raw, field, level)
    return f"case when {raw} is not null then {made} end" if field.fields else made


def _value(raw: str, field: ProtoField, level: int) -> str:
    """Return a value, (found, flaw) of a message. `raw`: a number if it is a varint, else bytes."""
    if field.fields:
        return _of_message(raw, field, level + 1)
    if field.type == ENUM:
        symbols = " ".join(f"when {at} then {text(symbol)}" for at, symbol in field.symbols)
        return f"case {number(raw, field)} {symbols} end"
    if field.type == "string":
        return f"cast({raw} as string)"
    return raw if field.type == "bytes" else number(raw, field)


def _of_message(raw: str, field: ProtoField, level: int) -> str:
    made, whole = _message(raw, field.fields, level), f"__message{level}"
    if field.type == WRAPPER:
        return bound(made, whole, _pair(f"{whole}.found.value", f"{whole}.flaw"))
    if field.type != TIMESTAMP:
        return made
    seconds, nanos = f"{whole}.found.seconds", f"{whole}.found.nanos"
    fits = f"{seconds} between {SECONDS[0]}L and {SECONDS[1]}L and {nanos} between 0 and {NANOS_MAX}"
    time = f"case when {fits} then timestamp_micros({seconds} * 1000000L + {nanos} div 1000) end"
    no_time = f"coalesce({whole}.flaw, case when not ({fits}) then {_flaw(NO_TIME)} end)"
    return bound(made, whole, _pair(time, no_time))


def _pair_of(body: str, field: ProtoField, level: int) -> str:
    """Return (key, value, flaw) of an entry of a map. A message that is not written is an empty one."""
    key, value = field.fields
    all_, _, raw, made = _variables(level)
    parts = _written_in(level, field.fields)
    if value.fields:
        with_value = f"named_struct('_0', x._0, '_1', coalesce(x._1, X''), '{_WRONG}', x.{_WRONG})"
        parts = bound(parts, "x", _unless_null("x", with_value))
    shown = f"cast({_found(f'{made}._0', key)} as string)"
    path = f"concat({_BEFORE_KEY}, left({shown}, {KEY_SHOWN}), {_BEHIND_KEY})"
    whole = (
        f"named_struct('key', {shown}, 'value', {_found(f'{made}._1', value)}, "
        f"'flaw', {flaw(all_, raw, made, field.fields, path)})"
    )
    whole = bound(values(raw, field.fields, level), made, whole)
    return _with_entries(body, level, bound(parts, raw, whole))


def _as_map(pairs: str) -> str:
    """Return a map of an array of (key, value). Of two equal keys the last counts."""
    keys = f"transform({pairs}, x -> x.key)"
    places = f"array_sort(transform({keys}, (x, i) -> named_struct('key', x, 'at', i)))"
    last = bound(places, "p", "filter(p, (x, i) -> not (get(p, i + 1).key <=> x.key))")
    kept = f"transform({last}, x -> get({pairs}, x.at))"
    each = "x -> named_struct('key', x.key, 'value', x.value)"
    is_plain = f"cardinality(array_distinct({keys})) = cardinality({pairs})"
    return f"map_from_entries(transform(if({is_plain}, {pairs}, {kept}), {each}))"


def _found(made: str, field: ProtoField) -> str:
    """Return what an event has of a field."""
    if field.type == MAP:
        return _as_map(made)
    if field.repeated:
        return f"transform({made}, x -> x.found)" if field.fields else made
    found = f"{made}.found" if field.fields else made
    return found if field.default is None else f"coalesce({found}, {_literal(field)})"


def _flaw_of(raw: str, made: str, field: ProtoField, path: str) -> str:
    """Return the flaw of a field as SQL; empty if it can have none. `path`: SQL."""
    cases, otherwise = [], ""
    if field.repeated or field.type == MAP:
        cases.append(f"when {raw} is null then {_flaw(NO_LIST.format(ELEMENTS_MAX), path)}")
    if not field.has_default:
        cases.append(f"when {raw} is null then {_flaw(NOT_THERE, path)}")
    if field.type == MAP:
        otherwise = _below(_first(made, "x.flaw"), path)
    elif field.fields:
        within = _below("x.flaw", "concat('[', i, ']')")
        otherwise = _below(_first(made, within) if field.repeated else f"{made}.flaw", path)
    elif field.type in _UNFIT:
        cases.append(_flaw_of_text(raw, made, field, path))
    return f"case {' '.join(cases)} {f'else {otherwise} ' if otherwise else ''}end" if cases else otherwise


def _flaw_of_text(raw: str, made: str, field: ProtoField, path: str) -> str:
    """Return the case of a text or an enum, or of one in a list."""
    unfit, rule = _UNFIT[field.type]
    if not field.repeated:
        return f"when {raw} is not null and {unfit.format(made)} then {_flaw(rule, path)}"
    at = f"array_position(transform({made}, x -> {unfit.format('x')}), true)"
    indexed = f"concat({path}, '[', {at} - 1, ']')"
    return f"when {at} > 0 then {_flaw(rule, indexed)}"


def _first(made: str, each: str) -> str:
    """Return the first flaw of an array. `each`: the flaw of the element x with index i."""
    return f"get(filter(transform({made}, (x, i) -> {each}), x -> x is not null), 0)"


def _below(found: str, path: str) -> str:
    """Return a flaw with a path before its own."""
    made = f"named_struct('path', concat({path}, f.path), 'rule', f.rule)"
    return bound(found, "f", f"case when f is not null then {made} end")


def _pair(found: str, flaw_: str) -> str:
    return f"named_struct('found', {found}, 'flaw', {flaw_})"


def _flaw(rule: str, path: str = "''") -> str:
    return f"named_struct('path', {path}, 'rule', {text(rule)})"


def _literal(field: ProtoField) -> str:
    """Return the value of a field that is not written, in the type of its values."""
    given = field.default
    if isinstance(given, bytes):
        return binary(given)
    if isinstance(given, str):
        return text(given)
    if isinstance(given, Decimal):
        return f"cast('{given}' as decimal(20, 0))"
    kinds = {"bool": "boolean", "float": "float", "double": "double"}
    kind = kinds.get(field.type, "bigint" if field.type in _LONGS else "int")
    return f"cast('{str(given).lower()}' as {kind})"
