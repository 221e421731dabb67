"""The changed rows of a milestone as text, in pieces, shared by all readers that want every row.

A piece is made when a reader needs it, so each reader costs one piece beside the shared rows.
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
from cutwater.views.query.change_feed import MilestoneChange
from cutwater.views.query.presenter import Presenter
from cutwater.views.store.key_layout import Window, parse

PIECE_ROWS = 1_000
PIECE_BYTES = 256 << 10
"""Of stored rows, plus one row. As text they are a few times larger."""
SHARED_CHARS_MAX = 4 << 20
"""Of the newest pieces made for readers of all rows."""

Wanted = Callable[[Window], bool]


class ChangePiece(NamedTuple):
    rows: str
    """A JSON list."""
    following: int | None
    """The number of the next piece's first row in the milestone; None if there is none."""


class ChangeTexts:
    """The pieces of text; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shared: dict[tuple[Token, int], ChangePiece] = {}

    def piece(self, job: Job, changed: MilestoneChange, start: int, wanted: Wanted | None) -> ChangePiece:
        """Return the wanted rows from `start` on; None wants all. Raises UsageError for damaged rows."""
        if wanted is not None:
            return _make_piece(job, changed, start, wanted)
        at = (changed.milestone.token, start)
        with self._lock:  # the second reader finds what the first has made
            if at not in self._shared:
                self._shared[at] = _make_piece(job, changed, start, wanted)
                self._forget()
            return self._shared[at]

    def _forget(self) -> None:
        size = sum(len(one.rows) for one in self._shared.values())
        while size > SHARED_CHARS_MAX and len(self._shared) > 1:
            size -= len(self._shared.pop(next(iter(self._shared))).rows)


def _make_piece(job: Job, changed: MilestoneChange, start: int, wanted: Wanted | None) -> ChangePiece:
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
    return ChangePiece(f"[{', '.join(rows)}]", following)
