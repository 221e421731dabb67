"""The rows changed by the newest milestones: written by the follower, read by many.

Changes are kept only while there are readers and `LINGER_S` longer, so that a reader whose connection breaks finds
what it missed. Without readers the applier gathers nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.records import Milestone
from cutwater.core.query.change_buffer import ChangeBuffer

KEPT_BYTES = 32 << 20
ROW_BYTES = 200
"""Approximate overhead of a row in memory."""
FOLLOWERS_MAX = 32
LINGER_S = 60.0
"""How long changes are kept after the last reader has left."""

Rows = Mapping[bytes, bytes]
"""Values by storage key."""


class MilestoneChange(NamedTuple):
    """A milestone and the rows that it changed since the previous one."""

    milestone: Milestone
    rows: Rows


class ChangedRows:
    """The rows of one milestone while it is applied; none if they are too many."""

    def __init__(self, bytes_max: int = KEPT_BYTES) -> None:
        """`bytes_max`: 0 to gather nothing."""
        self._bytes_max = bytes_max
        self._rows: dict[bytes, bytes] | None = {} if bytes_max else None
        self._size = 0

    def add(self, rows: Rows) -> None:
        if self._rows is not None:
            self._rows.update(rows)  # a task that ran twice wrote a row twice: the last one counts
            self._size += size_of(rows)
            if self._size > self._bytes_max:
                self._rows = None

    @property
    def rows(self) -> Rows | None:
        """All rows; None if they were not gathered."""
        return self._rows


class Changes:
    """The changed rows of a view. `shown`: returns the shown milestone. `clock`: monotonic, in seconds."""

    def __init__(
        self,
        shown: Callable[[], Milestone | None],
        clock: Callable[[], float] = time.monotonic,
        bytes_max: int = KEPT_BYTES,
    ) -> None:
        self._shown = shown
        self._clock = clock
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._recent: ChangeBuffer[MilestoneChange] = ChangeBuffer(bytes_max)
        self._until = float("-inf")
        self.followers = 0

    def gathering(self) -> ChangedRows:
        """Return where to add the rows of the next milestone."""
        wanted = self.followers > 0 or self._clock() < self._until
        return ChangedRows(self._bytes_max if wanted else 0)

    def show(self, milestone: Milestone, rows: Rows | None) -> None:
        """Record that the view shows this milestone. `rows`: those that it changed; None if unknown."""
        size = 0 if rows is None else size_of(rows)
        with self._lock:
            if rows is None:
                self._recent.begin(milestone.sequence)
            else:
                self._recent.put(milestone.sequence, MilestoneChange(milestone, rows), size)

    def after(self, sequence: int) -> MilestoneChange | None:
        """Return the change of the milestone after `sequence`; None if it is not shown yet. Raises `Behind`."""
        with self._lock:
            shown = self._shown()
            if self._recent.since is None and shown is not None:
                self._recent.begin(shown.sequence)  # its change is from before this process, or from a snapshot
            return self._recent.after(sequence)

    @property
    def size(self) -> int:
        return self._recent.size

    @contextmanager
    def keep_changes(self) -> Iterator[None]:
        """Keep changes during the context and `LINGER_S` longer. Raises UnavailableError for too many readers."""
        with self._lock:
            if self.followers >= FOLLOWERS_MAX:
                raise UnavailableError(f"{FOLLOWERS_MAX} readers follow the changes already")
            self.followers += 1
        try:
            yield
        finally:
            with self._lock:
                self.followers -= 1
                self._until = self._clock() + LINGER_S


def size_of(rows: Rows) -> int:
    """Return the approximate size of rows in memory."""
    return sum(map(len, rows)) + sum(map(len, rows.values())) + ROW_BYTES * len(rows)
