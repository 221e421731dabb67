"""What the newest milestones changed, as far as it is kept: without a gap, and within a bound of bytes."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Behind(Exception):
    """What comes after a milestone is not kept any more, or never was: whoever stands there must begin anew."""

    def __init__(self, evicted: bool) -> None:
        """`evicted`: it was kept, and the reader was too slow."""
        super().__init__(evicted)
        self.evicted = evicted


class Recent(Generic[T]):
    """Keeps what is put, the newest of it, as long as each follows the one before."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._kept: deque[tuple[T, int]] = deque()
        self._since: int | None = None
        self._begun: int | None = None
        self.size = 0
        """Bytes that are kept."""

    @property
    def since(self) -> int | None:
        """The milestone after which nothing is missing; None before there was any."""
        return self._since

    def put(self, sequence: int, what: T, size: int) -> None:
        """What this milestone changed over the one before it. Too large to be kept, it begins anew."""
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
        """This milestone is there, and what it changed is not known."""
        self._kept.clear()
        self.size = 0
        self._since = self._begun = sequence

    def after(self, sequence: int) -> T | None:
        """What the milestone after this one changed; None where there is none yet. Raises Behind."""
        if self._since is None:
            return None
        if sequence < self._since:
            raise Behind(evicted=self._begun is not None and sequence >= self._begun)
        at = sequence - self._since
        return self._kept[at][0] if at < len(self._kept) else None
