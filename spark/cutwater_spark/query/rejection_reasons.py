"""Reasons of rejection as SQL: conditions in the order of their evaluation, each with its texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cutwater.core.events.json_events import KEY_SHOWN
from cutwater.core.events.rejection import unit_hints
from cutwater_spark.query.sql import text

FLAW = "__flaw"
"""Column: field and rule of a rejected event, a struct of two texts."""
RULE_CHARS_MAX = 500
"""Of a rule that shows why a schema is not read."""


class Flaw(NamedTuple):
    """A condition with reason, field and rule, all as SQL."""

    when: str
    reason: str
    """A reason of `cutwater.core.events.rejection`."""
    detail: str
    """Field, NULL for the whole record, and rule."""


def flaw(when: str, reason: str, rule: str, field: str | None = None) -> Flaw:
    """Return a flaw whose reason and rule are plain text. `when`: SQL."""
    return Flaw(when, text(reason), rule_struct(text(rule), field))


def rule_struct(rule: str, field: str | None = None) -> str:
    """Return the struct (field, rule). `rule`: SQL."""
    return struct_at("cast(null as string)" if field is None else text(field), rule)


def struct_at(path: str, rule: str) -> str:
    """Return the struct (field, rule). Both are SQL."""
    return f"named_struct('field', {path}, 'rule', {rule})"


def first_of_parts(whole: str, is_map: bool, path: str, level: int, flaw_of: Callable[[str, str], str]) -> str:
    """Return the first flaw of the parts of an array or a map; NULL if none has one.

    `flaw_of`: the flaw of a part, given its value and its path. Values, paths and flaws are SQL.
    """
    part, at = f"__part{level}", f"__at{level}"
    parts, value, step = whole, part, f"'[', {at}, ']'"
    if is_map:
        parts, value = f"map_entries({whole})", f"{part}.value"
        step = f"""{text("['")}, left({part}.key, {KEY_SHOWN}), {text("']")}"""
    flaws = flaw_of(value, f"concat({path}, {step})")
    return f"get(filter(transform({parts}, ({part}, {at}) -> {flaws}), {part} -> {part} is not null), 0)"


def number_of(time: str, kind: str) -> str:
    """Return a time as a number in the unit of its logical type."""
    return f"unix_micros({time})" if kind == "timestamp-micros" else f"unix_millis({time})"


def unit_hint(number: str, kind: str) -> str:
    """Return `cutwater.core.events.rejection.unit_hint` as SQL. `number`: SQL."""
    hints = " ".join(
        f"when {number} >= {one.first}L and {number} < {one.end}L then {text(one.said)}"
        for one in unit_hints(kind)
    )
    return f"case {hints} else '' end"


def cases(flaws: Sequence[Flaw], pick: Callable[[Flaw], str]) -> str:
    """Return `pick` of an event's first flaw; NULL if it has none."""
    return f"case {' '.join(f'when {one.when} then {pick(one)}' for one in flaws)} end"
