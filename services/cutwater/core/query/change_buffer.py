"""Buffer of the newest milestones' changes, without gaps and bounded in bytes."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Behind(Exception):
    """The changes after a milestone are not in the buffer: a reader at this milestone must start again."""

    def __init__(self, evicted: bool) -> None:
        """`evicted`: they were in the buffer, but the reader was too slow."""
        super().__init__(evicted)
        self.evicted = evicted


class ChangeBuffer(Generic[T]):
    """Keeps the newest of contiguous changes."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._kept: deque[tuple[T, int]] = deque()
        self._since: int | None = None
        self._begun: int | None = None
        self.size = 0
        """Bytes in the buffer."""

    @property
    def since(self) -> int | None:
        """The milestone after which all changes are kept; None before the first."""
        return self._since

    def put(self, sequence: int, what: T, size: int) -> None:
        """Add the changes of a milestone over the one before it. If they are too large, the buffer restarts."""
        if size > self._bytes_max:
            self.begin(sequence)
            return
        if self._since is None or self._since + len(self._kept) != sequence - 1:
            self.begin(sequence - 1)
        self._kept.append((what, size))
        self.size += size
        while self.size > self._bytes_max:
            self.size -= self._kept.popleft()[1]
            self._since = sequence - len(self._kept)

    def begin(self, sequence: int) -> None:
        """Restart the buffer at this milestone, whose changes are unknown."""
        self._kept.clear()
        self.size = 0
        self._since = self._begun = sequence

    def after(self, sequence: int) -> T | None:
        """Return the changes of the milestone after this one; None if there is none yet. Raises Behind."""
        if self._since is None:
            return None
        if sequence < self._since:
            raise Behind(evicted=self._begun is not None and sequence >= self._begun)
        at = sequence - self._since
        return self._kept[at][0] if at < len(self._kept) else None
