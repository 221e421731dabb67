"""Parameters and answers of a view as plain values. Each answer is of one milestone; its rows are as stored."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from cutwater.core.protocol.records import Milestone
from cutwater.views.store.key_layout import Window

Stored = tuple[Window, bytes]
"""A row with its value in the changelog's form; of a sliding window, merged from its panes."""

KeySpan = tuple[str, int | None, int | None]
"""A key, and the bounds of its windows' starts, [first, end) in ms."""


class KeyPage(NamedTuple):
    """Rows of one key at one milestone. `next_from_ms`: where to continue; None at the end."""

    milestone: Milestone
    key: str
    rows: list[Stored]
    next_from_ms: int | None


class KeysPage(NamedTuple):
    """Rows of several keys at one milestone. `left`: the keys beyond the limit on rows."""

    milestone: Milestone
    pages: list[KeyPage]
    left: list[str]


class ScanPage(NamedTuple):
    """Rows of all keys at one milestone. `after`: the cursor to continue from; None at the end. The cursor
    contains the layout of its view, since another view may keep the same rows in another order."""

    milestone: Milestone
    rows: list[Stored]
    after: bytes | None


class Part(NamedTuple):
    """A part of the rows: windows that start in [from_ms, to_ms), keys in `shards`; None for any."""

    from_ms: int | None = None
    to_ms: int | None = None
    shards: Container[int] | None = None
    prefix: str = ""
    """Only keys that start with it."""


EVERYTHING = Part()


class Order(NamedTuple):
    """The first `most` rows by a measure. Equal values are ordered by key and window."""

    measure: str
    descending: bool
    most: int


class Top(NamedTuple):
    """The first rows of a part at one milestone, in order; None if the part has too many rows to rank."""

    milestone: Milestone
    rows: list[Stored] | None
