"""Records, arrays and maps inside of a JSON event, as SQL over the token of the field that holds them.

A token is a VARIANT. It is taken apart level by level, and a lambda binds each level to a name of its own, so that
the SQL grows with the schema and not with its depth. Spark's cast of a whole token would make NULL of what does
not fit, which a null is too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cutwater.core.events.json_events import MISSING, NESTED, RULES, TIMES, JsonField
from cutwater.core.events.rejection import ELEMENTS_MAX
from cutwater_spark.query import json_values
from cutwater_spark.query.rejection_reasons import first_of_parts, struct_at
from cutwater_spark.query.sql import name, text


def value_of(token: str, field: JsonField, level: int = 0) -> str:
    """Return the value of a token that `flaw_of` has no flaw of, or the field's default."""
    made = _nested(token, field, level) if field.kind in NESTED else json_values.from_token(token, field)
    if field.default is None:
        return made
    return f"case when {json_values.has_value(token)} then {made} else {_literal(field, field.default)} end"


def _nested(token: str, field: JsonField, level: int) -> str:
    part, taken = f"__part{level}", _taken(token, field)
    if field.item is None:
        values = [
            f"{text(one.name)}, {value_of(f'{part}.{name(one.name)}', one, level + 1)}" for one in field.fields
        ]
        return _bound(taken, part, f"case when {part} is not null then named_struct({', '.join(values)}) end")
    made = value_of(part, field.item, level + 1)
    if field.kind == "array":
        return f"transform({taken}, {part} -> {made})"
    return f"transform_values({taken}, (__key{level}, {part}) -> {made})"


def flaw_of(token: str, field: JsonField, path: str, level: int = 0) -> str:
    """Return the first flaw, a struct of path and rule; NULL if the token fits the field. `path`: SQL."""
    missing = "" if field.nullable or field.default is not None else f" else {struct_at(path, text(MISSING))}"
    found = _nested_flaw(token, field, path, level) if field.kind in NESTED else _flat_flaw(token, field, path)
    return f"case when {json_values.has_value(token)} then {found}{missing} end"


def _flat_flaw(token: str, field: JsonField, path: str) -> str:
    rule = text(f"is not {RULES[field.kind]}")
    if field.kind in TIMES:
        rule = json_values.time_rule(json_values.as_text(token), rule, field.kind)
    return f"case when {json_values.from_token(token, field)} is null then {struct_at(path, rule)} end"


def _nested_flaw(token: str, field: JsonField, path: str, level: int) -> str:
    whole = f"__whole{level}"
    if field.item is None:
        within, unfit = _first_of_fields(field.fields, whole, path, level), f"{whole} is null"
    else:
        unfit = f"{whole} is null or cardinality({whole}) > {ELEMENTS_MAX}"
        item = field.item
        within = first_of_parts(
            whole, field.kind == "map", path, level, lambda one, at: flaw_of(one, item, at, level + 1)
        )
    rule = struct_at(path, text(f"is not {RULES[field.kind]}"))
    return _bound(_taken(token, field), whole, f"case when {unfit} then {rule} else {within} end")


def _first_of_fields(fields: Sequence[JsonField], whole: str, path: str, level: int) -> str:
    flaws = [
        flaw_of(f"{whole}.{name(one.name)}", one, f"concat({path}, {text('.' + one.name)})", level + 1)
        for one in fields
    ]
    return f"coalesce({', '.join(flaws)})"


def repeats(raw: str, fields: Sequence[JsonField], level: int = 0) -> str:
    """Return whether an object, or one inside of it that the schema names, has a name twice. `raw`: its text.

    VARIANT keeps the last value of a name, so the text is parsed once more, as far as objects may be in it.
    """
    found = [_has_twice(raw)]
    for one in fields:
        if one.kind == "map" or _holds_objects(one):
            found.append(_repeats_within(f"get_json_object({raw}, {text(f'$.{one.name}')})", one, level))
    return found[0] if len(found) == 1 else f"({' or '.join(found)})"


def _repeats_within(raw: str, field: JsonField, level: int) -> str:
    if field.item is None:
        return repeats(raw, field.fields, level)
    twice = [_has_twice(raw)] if field.kind == "map" else []
    if _holds_objects(field.item):
        part = f"__text{level}"
        parts = f"from_json({raw}, 'array<string>')"
        if field.kind == "map":
            parts = f"map_values(from_json({raw}, 'map<string,string>'))"
        inner = _repeats_within(part, field.item, level + 1)
        twice.append(f"coalesce(exists({parts}, {part} -> {inner}), false)")
    return f"({' or '.join(twice)})"


def _holds_objects(field: JsonField) -> bool:
    return field.kind in ("record", "map") or (field.item is not None and _holds_objects(field.item))


def _has_twice(raw: str) -> str:
    keys = f"json_object_keys({raw})"
    return f"coalesce(size({keys}) <> size(array_distinct({keys})), false)"


def _taken(token: str, field: JsonField) -> str:
    """Return the parts of a token as tokens; NULL if it is of another kind."""
    if field.item is None:
        type_ = f"struct<{', '.join(f'{name(one.name)}: variant' for one in field.fields)}>"
    else:
        type_ = "array<variant>" if field.kind == "array" else "map<string, variant>"
    return f"try_variant_get({token}, '$', {text(type_)})"


def _bound(value: str, variable: str, made: str) -> str:
    """Return `made` with a value bound to a variable."""
    return f"transform(array({value}), {variable} -> {made})[0]"


def _literal(field: JsonField, given: Any) -> str:
    if given is None:
        return f"cast(null as {_type(field)})"
    if field.item is None and not field.fields:
        return json_values.default(replace(field, default=given))
    if field.item is None:
        made = [f"{text(one.name)}, {_literal(one, given.get(one.name, one.default))}" for one in field.fields]
        return f"named_struct({', '.join(made)})"
    if not given:
        return f"cast({field.kind}() as {_type(field)})"
    if field.kind == "array":
        return f"array({', '.join(_literal(field.item, one) for one in given)})"
    return f"map({', '.join(f'{text(key)}, {_literal(field.item, one)}' for key, one in given.items())})"


def _type(field: JsonField) -> str:
    if field.kind == "record":
        return f"struct<{', '.join(f'{name(one.name)}: {_type(one)}' for one in field.fields)}>"
    if field.item is not None:
        return f"array<{_type(field.item)}>" if field.kind == "array" else f"map<string, {_type(field.item)}>"
    return json_values.sql_type(field)
