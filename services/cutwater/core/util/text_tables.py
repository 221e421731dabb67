"""Tables as lines of text that fit into a terminal, or are as wide as they need to be.

Too narrow a terminal never breaks a word. Columns are taken by their rank as long as they fit. Long values stand
under their row. What is left out is named in the last line. Cells are data: no markup, no control characters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from cutwater.core.util.printable_text import printable, width

GAP = 2
"""Blanks between two columns."""
INDENT = 2
"""Blanks before what stands under a row."""
HINT = "--wide shows all columns, --json all values"
TITLE, HEADING = "bold", "dim"
_NUMBER = re.compile(
    r"(-?[0-9][0-9,]*(\.[0-9]+)?([eE][-+]?[0-9]+)?|NaN|-?Infinity|nan|-?inf)( (s|ms|bytes|[kKMGT]?B))?"
)
"""A number, with its unit if it has one."""
_UNKNOWN = ("", "?", "-")


@dataclass(frozen=True)
class Styled:
    """Text in a colour or weight: red, green, yellow, bold or dim; empty for none."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class Lines:
    """A cell of several facts: joined in one line, or packed under the row."""

    items: tuple[str, ...]


Line = tuple[Styled, ...]
"""One line of the output, in parts."""


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    rank: int = 0
    """The greater, the sooner it is left out in a narrow terminal. 0: never; it stands under the row instead."""
    below: bool = False
    """Long text: where the whole table does not fit, it stands under the row."""


@dataclass(frozen=True)
class Table:
    """A title, columns and rows; a cell is a text, a number, `Styled`, `Lines`, or None for an empty one."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...] = field(repr=False)
    hint: str = HINT
    """How to see what is left out."""

    def lines(self, width_max: int | None) -> list[Line]:
        """Return the table as lines. `width_max`: the columns of the terminal, None for all that is needed."""
        grid = [[_shown(cell) for cell in row] for row in self.rows]
        names = [printable(one.name) for one in self.columns]
        widths = [max(map(width, (name, *(row[at].text for row in grid)))) for at, name in enumerate(names)]
        layout = _layout(self.columns, widths, width_max)
        right = [all(row[at].number for row in grid if row[at].text not in _UNKNOWN) for at in range(len(names))]
        found: list[Line] = [(Styled(line, TITLE),) for line in wrapped(printable(self.title), width_max)]
        found.append(_row([Styled(name, HEADING) for name in names], layout, right))
        for row in grid:
            found.append(_row([one.styled for one in row], layout, right))
            for at in layout.below:
                found += _under(names[at], row[at], width_max)
        found = [line for line in found if line]
        if left_out := [name for at, name in enumerate(names) if at in layout.left_out]:
            note = f"left out: {', '.join(left_out)}; {self.hint}"
            found += [(Styled(line, HEADING),) for line in wrapped(note, width_max)]
        return found


def table(title: str, columns: Sequence[str | Column], rows: Iterable[Sequence[Any]], hint: str = HINT) -> Table:
    """Return a table; a column that is only named is never left out."""
    made = tuple(Column(one) if isinstance(one, str) else one for one in columns)
    return Table(title, made, tuple(tuple(row) for row in rows), hint)


def ranked(first: Sequence[str | Column], *others: str, rank: int = 1) -> list[str | Column]:
    """Return columns of which the last ones are left out first. `first`: those that are told as they are."""
    return [*first, *(Column(name, rank + at) for at, name in enumerate(others))]


def number_text(value: int | float | Decimal) -> str:
    """Return a number without losing a digit, thousands apart: 1,263,109.430000007."""
    if isinstance(value, int):
        return f"{value:,}"
    if value.is_nan() if isinstance(value, Decimal) else math.isnan(value):
        return "NaN"
    if math.isfinite(value):
        return f"{value:,}"
    return "Infinity" if value > 0 else "-Infinity"


def wrapped(text: str, width_max: int | None, indent: int = 0) -> list[str]:
    """Return lines that are broken between words; a word that is longer than a line stays whole."""
    return packed(text.split(" "), " ", width_max, "", indent)


def packed(items: Sequence[str], between: str, width_max: int | None, first: str, indent: int) -> list[str]:
    """Return items one behind the other in as few lines as hold them; one that is too long is broken at blanks.

    `first`: what the first line begins with. `indent`: blanks before each other line.
    """
    lines, line, empty = list[str](), first, True
    for at, item in enumerate(items):
        text = item + (between.rstrip() if at < len(items) - 1 else "")
        gap = "" if empty else " "
        if width_max is None or width(line) + len(gap) + width(text) <= width_max:
            line, empty = line + gap + text, False
            continue
        if " " in text and (empty or indent + width(text) > width_max):
            *whole, line = packed(text.split(" "), " ", width_max, line + gap, indent)
            lines += whole
        elif empty:  # a line that holds only what it begins with is no place to break
            line += text
        else:
            lines.append(line)
            line = " " * indent + text
        empty = False
    return [one.rstrip() for one in (*lines, line)]


class _Shown(NamedTuple):
    """A cell as text."""

    items: tuple[str, ...]
    style: str = ""
    number: bool = False

    @property
    def text(self) -> str:
        return "; ".join(self.items)

    @property
    def styled(self) -> Styled:
        return Styled(self.text, self.style)


class _Layout(NamedTuple):
    """Which columns stand side by side and how wide each is, which under the row, which not at all."""

    beside: tuple[tuple[int, int], ...]
    below: tuple[int, ...] = ()
    left_out: frozenset[int] = frozenset()


def _shown(cell: Any) -> _Shown:
    if cell is None:
        return _Shown(())
    if isinstance(cell, Styled):
        return _Shown((printable(cell.text),), cell.style)
    if isinstance(cell, Lines):
        return _Shown(tuple(map(printable, cell.items)))
    if isinstance(cell, bool):
        return _Shown(("true" if cell else "false",))
    if isinstance(cell, int | float | Decimal):
        return _Shown((number_text(cell),), number=True)
    text = printable(str(cell))
    return _Shown((text,), number=_NUMBER.fullmatch(text) is not None)


def _layout(columns: Sequence[Column], widths: Sequence[int], width_max: int | None) -> _Layout:
    if width_max is None or sum(widths) + GAP * (len(widths) - 1) <= width_max:
        return _Layout(tuple(enumerate(widths)))
    long = {at for at, one in enumerate(columns) if one.below or (widths[at] > width_max // 2 and at > 0)}
    below, left_out, beside, room = set[int](), set[int](), set[int](), width_max + GAP
    # The first one names the row: half the width is no bound for it. Long ones come last, if there is room left.
    for at in sorted(range(len(columns)), key=lambda at: (at in long, columns[at].rank, at)):
        if widths[at] + GAP <= room and not (at in long and (left_out or below & long)):
            beside.add(at)
            room -= widths[at] + GAP
        elif columns[at].rank and at not in long:
            left_out.add(at)
        else:
            below.add(at)
    return _Layout(tuple((at, widths[at]) for at in sorted(beside)), tuple(sorted(below)), frozenset(left_out))


def _row(cells: Sequence[Styled], layout: _Layout, right: Sequence[bool]) -> Line:
    parts, blanks = list[Styled](), 0
    for at, wide in layout.beside:
        cell = cells[at]
        padding = wide - width(cell.text)
        before, after = (padding, 0) if right[at] else (0, padding)
        parts += [Styled(" " * (blanks + before)), cell]
        blanks = after + GAP
    return tuple(one for one in parts if one.text)


def _under(name: str, cell: _Shown, width_max: int | None) -> list[Line]:
    if not cell.text:
        return []
    lead = f"{' ' * INDENT}{name}: " if name else " " * INDENT
    first, *others = packed(cell.items, "; ", width_max, lead, 2 * INDENT)
    head = (Styled(lead, HEADING), Styled(first.removeprefix(lead), cell.style))
    return [head, *((Styled(line, cell.style),) for line in others)]
