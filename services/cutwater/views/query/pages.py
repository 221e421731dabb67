"""What a view is asked for, and what it answers: plain values. Each answer is of one milestone."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from cutwater.core.protocol.records import Milestone
from cutwater.views.query.presenter import Row
from cutwater.views.store.key_layout import Window


class Page(NamedTuple):
    """Rows of one key at one milestone; `next_from_ms` is where to go on, None at the end."""

    milestone: Milestone
    rows: list[Row]
    next_from_ms: int | None


class KeyPage(NamedTuple):
    """One key's part of an answer for many."""

    key: str
    rows: list[Row]
    next_from_ms: int | None


class KeysPage(NamedTuple):
    """Rows of several keys at one milestone; `left` are the keys that there was no room for."""

    milestone: Milestone
    pages: list[KeyPage]
    left: list[str]


class ScanPage(NamedTuple):
    """Rows of all keys at one milestone; `after` is the cursor to go on from, None at the end.

    The cursor names the layout of its view: that of another view with the same rows may order them otherwise.
    """

    milestone: Milestone
    rows: list[Row]
    after: bytes | None


class Part(NamedTuple):
    """Rows by their windows, which start in [from_ms, to_ms), and by the shards of their keys; None for any."""

    from_ms: int | None = None
    to_ms: int | None = None
    shards: Container[int] | None = None


EVERYTHING = Part()


class Order(NamedTuple):
    """The first `most` rows by a measure. Equal ones stand by key and window."""

    measure: str
    descending: bool
    most: int


Stored = tuple[Window, bytes]
"""A row as it is stored: its value as the changelog has it."""


class StoredPage(NamedTuple):
    """Rows as they are stored, at one milestone; `after` is the cursor to go on from, None at the end."""

    milestone: Milestone
    rows: list[Stored]
    after: bytes | None


class StoredKeyPage(NamedTuple):
    """The same of one key; `next_from_ms` is where to go on, None at the end."""

    milestone: Milestone
    rows: list[Stored]
    next_from_ms: int | None


class StoredOf(NamedTuple):
    """One key's part of an answer for many."""

    key: str
    rows: list[Stored]
    next_from_ms: int | None


class StoredKeysPage(NamedTuple):
    """The same of several keys; `left` are those that there was no room for."""

    milestone: Milestone
    pages: list[StoredOf]
    left: list[str]


class Top(NamedTuple):
    """The first rows of a part at one milestone, in order; None where the part has too many rows to look at."""

    milestone: Milestone
    rows: list[Stored] | None
