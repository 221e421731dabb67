"""Tables as lines of text, limited to the width of a terminal or not.

A narrow terminal never breaks a word. Columns are added by rank while they fit. Long values are shown under their
row. The last line names the columns that are left out. Cells are data: no markup, no control characters.
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
INDENT = 2
HINT = "--wide shows all columns, --json all values"
TITLE, HEADING = "bold", "dim"
_NUMBER = re.compile(
    r"(-?[0-9][0-9,]*(\.[0-9]+)?([eE][-+]?[0-9]+)?|NaN|-?Infinity|nan|-?inf)( (s|ms|bytes|[kKMGT]?B))?"
)
_UNKNOWN = ("", "?", "-")


@dataclass(frozen=True)
class Styled:
    """Text in a colour or weight: red, green, yellow, bold or dim; empty for none."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class Lines:
    """A cell of several facts: joined on one line, or packed under the row."""

    items: tuple[str, ...]


Line = tuple[Styled, ...]


@dataclass(frozen=True)
class Column:
    name: str
    rank: int = 0
    """Columns with a higher rank are left out first in a narrow terminal. 0: never; it moves under the row."""
    below: bool = False
    """Long text, which moves under the row if the whole table does not fit."""


@dataclass(frozen=True)
class Table:
    """A title, columns and rows; a cell is a text, a number, `Styled`, `Lines`, or None for an empty one."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...] = field(repr=False)
    hint: str = HINT
    """How to see the columns that are left out."""

    def lines(self, width_max: int | None) -> list[Line]:
        """Return the table as lines. `width_max`: the columns of the terminal, None for no limit."""
        grid = [[_render_cell(cell) for cell in row] for row in self.rows]
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
    """Return a table. A column given by name is never left out."""
    made = tuple(Column(one) if isinstance(one, str) else one for one in columns)
    return Table(title, made, tuple(tuple(row) for row in rows), hint)


def ranked(first: Sequence[str | Column], *others: str, rank: int = 1) -> list[str | Column]:
    """Return columns of which the last ones are left out first. `first`: columns that keep their rank."""
    return [*first, *(Column(name, rank + at) for at, name in enumerate(others))]


def number_text(value: int | float | Decimal) -> str:
    """Return a number with all digits and thousands separators: 1,263,109.430000007."""
    if isinstance(value, int):
        return f"{value:,}"
    if value.is_nan() if isinstance(value, Decimal) else math.isnan(value):
        return "NaN"
    if math.isfinite(value):
        return f"{value:,}"
    return "Infinity" if value > 0 else "-Infinity"


def wrapped(text: str, width_max: int | None, indent: int = 0) -> list[str]:
    """Return the text as lines, broken between words; a word that is longer than a line stays whole."""
    return packed(text.split(" "), " ", width_max, "", indent)


def packed(items: Sequence[str], between: str, width_max: int | None, first: str, indent: int) -> list[str]:
    """Return items joined in as few lines as possible; one that is too long is broken at blanks.

    `first`: the start of the first line. `indent`: blanks before the other lines.
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
        elif empty:  # do not break a line that holds only its start
            line += text
        else:
            lines.append(line)
            line = " " * indent + text
        empty = False
    return [one.rstrip() for one in (*lines, line)]


class _Shown(NamedTuple):
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
    """Columns side by side with their widths, columns under the row, and columns left out."""

    beside: tuple[tuple[int, int], ...]
    below: tuple[int, ...] = ()
    left_out: frozenset[int] = frozenset()


def _render_cell(cell: Any) -> _Shown:
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
    # The first column names the row, so half the width is no limit for it. Long ones are placed last, if they fit.
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
