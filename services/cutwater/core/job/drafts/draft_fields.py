"""The fields of sampled events that a draft chooses from: flat ones, and by path those inside of others."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.events.key_columns import NULL, PARAMETERS
from cutwater.core.job.field_paths import Steps, parse_path
from cutwater.core.job.job import TAKEN_COLUMNS
from cutwater.core.util.suggestions import closest, listed, safe, value_text

COLUMN_CHARS_MAX = 50
_COLUMN = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*")
_OTHERS = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True)
class SampleRow:
    event: Mapping[str, Any]
    """With the values of inner fields by their paths."""
    partition: int
    offset: int
    timestamp_ms: int | None
    key: str | None
    """The record's key, if it is text."""


class Fields(NamedTuple):
    """Kinds by field, and by path inside of others."""

    flat: Mapping[str, str]
    inner: Mapping[str, str]
    element: Mapping[str, str] = MappingProxyType({})
    """Of an array whose elements are the events, by path from an element on."""

    @property
    def all(self) -> dict[str, str]:
        return {**self.flat, **self.inner, **self.element}

    @property
    def by_place(self) -> tuple[Mapping[str, str], ...]:
        """Where a key and measures are looked for, in this order."""
        return self.element, self.flat, self.inner

    @property
    def of_record(self) -> Fields:
        return Fields(self.flat, self.inner)

    def of(self, wanted: Collection[str]) -> list[str]:
        """Return the fields of these kinds, all of the first place that has one."""
        found = ([one for one, kind in part.items() if kind in wanted] for part in self.by_place)
        return next((one for one in found if one), [])

    @property
    def text(self) -> str:
        return listed(self.all) if self.all else "none"


def steps_of(field: str) -> Steps:
    """Return the names and indexes of a path; of a flat field its name."""
    return parse_path(field) or (field,)


def last_word(field: str) -> str:
    """Return the last name of a path, which says what it is."""
    return next(str(one) for one in reversed(steps_of(field)) if isinstance(one, str))


def column_names(paths: Iterable[str], taken: Iterable[str], inside: int = 0) -> dict[str, str]:
    """Return a column's name for each path: its last two names, as in `user_id`, or more of them.

    `inside`: so many names at its start are left out if another one is left.
    """
    used = {one.lower() for one in (*taken, *TAKEN_COLUMNS, *PARAMETERS, NULL)}
    named: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        able = _candidates(list(_words(steps_of(path))), inside)
        named[path] = next(one for one in able if _COLUMN.fullmatch(one) and one.lower() not in used)
        used.add(named[path].lower())
    return named


def _candidates(path: Sequence[str], inside: int) -> Iterator[str]:
    words = path if len(path) > inside else [*path, "value"]
    for count in range(min(2, len(words) - inside), len(words) + 1):
        yield "_".join(words[-count:])[:COLUMN_CHARS_MAX]
    whole = "_".join(words)[: COLUMN_CHARS_MAX - 5]
    yield from (f"{whole}_{number}" for number in itertools.count(2))


def _words(steps: Steps) -> Iterator[str]:
    """Yield a column's words: the first element of an array has none, others have their number."""
    for one in steps:
        if isinstance(one, str):
            yield (_OTHERS.sub("_", one).strip("_") if not _COLUMN.fullmatch(one) else one) or "value"
        elif one:
            yield str(one)


def require_field(field: str, fields: Fields, fits: bool, rows: Sequence[SampleRow], what: str) -> None:
    """Raise UsageError if a field that the user names does not exist, or does not fit."""
    kinds = fields.all
    if field not in kinds:
        alike = (one for part in fields.by_place for one in part if last_word(one) == field)
        meant = closest(field, kinds) or next(alike, "")
        hint = f"; did you mean '{meant}'?" if meant else inner_hint(rows, fields)
        raise UsageError(
            f"no sampled event has a usable field {value_text(field)}; there are: {fields.text}{hint}"
        )
    if not fits:
        inside = [one for one in fields.inner if steps_of(one)[0] == field]
        advice = f". Inside of it are: {listed(inside)}" if inside else ""
        raise UsageError(f"'{safe(field)}' is {kinds[field]} and cannot be the {what}{advice}")


def inner_hint(rows: Sequence[SampleRow], fields: Fields) -> str:
    """Return what to do if the field that is missed may be inside of another; empty if no field holds others, or
    those are known."""
    names = dict.fromkeys(name for row in rows for name, value in row.event.items() if isinstance(value, dict))
    if not names or fields.inner:
        return ""
    shown = ", ".join(list(names)[:5])
    return (
        f". Nothing inside of {shown} can be drafted: write the job file by hand, with it in the schema and the "
        "field in source.columns (docs/JOBFILE.md)"
    )


def present_share(rows: Sequence[SampleRow], field: str) -> float:
    return sum(row.event.get(field) is not None for row in rows) / max(1, len(rows))


def count_distinct(rows: Sequence[SampleRow], fields: Sequence[str]) -> int:
    found = (tuple(row.event.get(field) for field in fields) for row in rows)
    return len({one for one in found if None not in one})
