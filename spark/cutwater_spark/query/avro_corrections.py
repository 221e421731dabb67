"""Corrections of Avro events that were read with a widened schema, as SQL.

`cutwater.core.events.reader_schema` says why. A value is corrected level by level, and a lambda binds the parts of
an array or map to a name of each level, so that the SQL grows with the schema and not with its depth.
"""

from __future__ import annotations

from cutwater.core.events.reader_schema import Correction
from cutwater.core.events.rejection import UNDECODABLE
from cutwater_spark.query.rejection_reasons import Flaw, first_of_parts, struct_at
from cutwater_spark.query.sql import name, text


def value_of(value: str, correction: Correction | None, level: int = 0) -> str:
    """Return the value in the type of the job's schema; NULL for a decimal that does not fit. `value`: SQL."""
    if correction is None:
        return value
    if correction.decimal:
        return f"try_cast({value} as {correction.decimal})"
    if (unknown := correction.unknown) is not None:
        return f"if({_is_unknown(value, unknown.symbols)}, {text(unknown.default)}, {value})"
    if correction.item is None:
        parts = [
            f"{text(field)}, {value_of(f'{value}.{name(field)}', one, level)}"
            for field, one in (correction.fields or {}).items()
        ]
        return f"if({value} is null, null, named_struct({', '.join(parts)}))"
    part = f"__part{level}"
    made = value_of(part, correction.item, level + 1)
    if correction.is_map:
        return f"transform_values({value}, (__key{level}, {part}) -> {made})"
    return f"transform({value}, {part} -> {made})"


def flaws(event: str, correction: Correction | None) -> list[Flaw]:
    """Return the flaws of values beyond their type. `event`: the struct that was read, as SQL."""
    fields = (correction.fields or {}) if correction else {}
    found = ((f"{event}.{name(field)}", field, one) for field, one in fields.items() if one and _has_decimal(one))
    told = (_flaw_of(value, one, text(field), 0) for value, field, one in found)
    return [Flaw(f"{one} is not null", text(UNDECODABLE), one) for one in told]


def has_unknown(value: str, correction: Correction | None, level: int = 0) -> str:
    """Return whether a value has a symbol that is replaced, as SQL."""
    if correction is None:
        return "false"
    if correction.unknown is not None:
        return f"coalesce({_is_unknown(value, correction.unknown.symbols)}, false)"
    if correction.item is not None:
        part = f"__part{level}"
        inner = has_unknown(part, correction.item, level + 1)
        parts = f"map_values({value})" if correction.is_map else value
        return "false" if inner == "false" else f"coalesce(exists({parts}, {part} -> {inner}), false)"
    fields = (correction.fields or {}).items()
    found = [has_unknown(f"{value}.{name(field)}", one, level) for field, one in fields]
    return " or ".join(one for one in found if one != "false") or "false"


def _flaw_of(value: str, correction: Correction, path: str, level: int) -> str:
    """Return the first flaw, a struct of path and rule; NULL if there is none. `path`: SQL."""
    if correction.decimal:
        rule = struct_at(path, text(f"is beyond {correction.decimal}"))
        return f"if({value} is not null and {value_of(value, correction)} is null, {rule}, null)"
    if correction.item is None:
        found = [
            _flaw_of(f"{value}.{name(field)}", one, f"concat({path}, {text(f'.{field}')})", level)
            for field, one in (correction.fields or {}).items()
            if one and _has_decimal(one)
        ]
        return f"coalesce({', '.join(found)})"
    item = correction.item
    return first_of_parts(
        value, correction.is_map, path, level, lambda one, at: _flaw_of(one, item, at, level + 1)
    )


def _has_decimal(correction: Correction) -> bool:
    if correction.item is not None:
        return _has_decimal(correction.item)
    return bool(correction.decimal) or any(one and _has_decimal(one) for one in (correction.fields or {}).values())


def _is_unknown(value: str, symbols: tuple[str, ...]) -> str:
    return f"{value} in ({', '.join(map(text, symbols))})"
