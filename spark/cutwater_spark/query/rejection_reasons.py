"""Why an event cannot be used, as SQL: conditions in the order in which they are asked, and what each says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cutwater.core.events.rejection import unit_hints
from cutwater_spark.query.sql import text

FLAW = "__flaw"
"""Column: field and rule of a rejected event, a struct of two texts."""


class Flaw(NamedTuple):
    """Every part is SQL."""

    when: str
    reason: str
    """A word of `cutwater.core.events.rejection`."""
    said: str
    """Field, if it is one's, and rule."""


def flaw(when: str, reason: str, rule: str, field: str | None = None) -> Flaw:
    """One whose rule is a text; `when` is SQL."""
    return Flaw(when, text(reason), said(text(rule), field))


def said(rule: str, field: str | None = None) -> str:
    """Struct (field, rule), of a rule that is SQL."""
    return f"named_struct('field', {'cast(null as string)' if field is None else text(field)}, 'rule', {rule})"


def number_of(time: str, kind: str) -> str:
    """A time as the number that it was, in the unit of its logical type."""
    return f"unix_micros({time})" if kind == "timestamp-micros" else f"unix_millis({time})"


def unit_hint(number: str, kind: str) -> str:
    """As `cutwater.core.events.rejection.unit_hint` has it, of a number that is SQL."""
    hints = " ".join(
        f"when {number} >= {one.first}L and {number} < {one.end}L then {text(one.said)}"
        for one in unit_hints(kind)
    )
    return f"case {hints} else '' end"


def cases(flaws: Sequence[Flaw], pick: Callable[[Flaw], str]) -> str:
    """What the first flaw that an event has says; NULL without one."""
    return f"case {' '.join(f'when {one.when} then {pick(one)}' for one in flaws)} end"
