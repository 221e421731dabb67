"""The rows of a milestone as text, a piece at a time, and made once for all readers that want every row.

A piece is made when its reader takes it: beside the rows that are kept for all, a reader costs one piece.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Token
from cutwater.rehydrator.http_api.context import shown_row
from cutwater.views.query.change_feed import Changed
from cutwater.views.query.presenter import Presenter
from cutwater.views.store.key_layout import Window, parse

PIECE_ROWS = 1_000
PIECE_BYTES = 256 << 10
"""Of stored rows, and one row more. As text they are a few times as large."""
SHARED_CHARS_MAX = 4 << 20
"""Of the newest pieces that any reader of everything asked for."""

Wanted = Callable[[Window], bool]


class Piece(NamedTuple):
    rows: str
    """A JSON list."""
    following: int | None
    """Which of the milestone's rows the next piece begins with; None where there is none."""


class Telling:
    """Asked by many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shared: dict[tuple[Token, int], Piece] = {}

    def piece(self, job: Job, changed: Changed, start: int, wanted: Wanted | None) -> Piece:
        """The rows from this one on that are wanted; None wants all. Raises UsageError for damaged ones."""
        if wanted is not None:
            return _made(job, changed, start, wanted)
        at = (changed.milestone.token, start)
        with self._lock:  # whoever comes second finds what the first has made
            if at not in self._shared:
                self._shared[at] = _made(job, changed, start, wanted)
                self._forget()
            return self._shared[at]

    def _forget(self) -> None:
        """The oldest, but never the newest."""
        size = sum(len(one.rows) for one in self._shared.values())
        while size > SHARED_CHARS_MAX and len(self._shared) > 1:
            size -= len(self._shared.pop(next(iter(self._shared))).rows)


def _made(job: Job, changed: Changed, start: int, wanted: Wanted | None) -> Piece:
    presenter = Presenter(job)
    rows: list[str] = []
    size = 0
    following: int | None = None
    for at, (storage, value) in enumerate(islice(changed.rows.items(), start, None), start):
        window = parse(storage)
        if wanted is None or wanted(window):
            if len(rows) == PIECE_ROWS or size >= PIECE_BYTES:
                following = at
                break
            rows.append(json.dumps(shown_row(presenter.row(window, value))))
            size += len(storage) + len(value)
    return Piece(f"[{', '.join(rows)}]", following)
