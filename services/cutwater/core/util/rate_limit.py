"""A limit in bytes per second."""

from __future__ import annotations

PIECE_S = 5.0
"""The time that one piece takes at the limit. Brokers that accept no higher rate must acknowledge a piece well
before the timeout (20 s)."""


class Throttle:
    """Bytes are sent first, followed by a proportional wait. Times are seconds of a monotonic clock."""

    def __init__(self, bytes_per_s: int) -> None:
        """`bytes_per_s`: 0 for no limit."""
        self._bytes_per_s = bytes_per_s
        self._free_s = 0.0

    def record_bytes(self, size: int, now_s: float) -> None:
        if self._bytes_per_s:
            self._free_s = max(self._free_s, now_s) + size / self._bytes_per_s

    def piece(self, most: int) -> int:
        """Return how many bytes may be sent at once, at most `most`."""
        return min(most, max(1, int(PIECE_S * self._bytes_per_s))) if self._bytes_per_s else most

    def free(self, now_s: float) -> bool:
        return now_s >= self._free_s
