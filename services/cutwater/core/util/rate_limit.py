"""So many bytes a second and no more: when the next may go."""

from __future__ import annotations

PIECE_S = 5.0
"""What goes at once is paid for in so long, about. Who sets a rate may have brokers that take no more: what they
are given at once must be acknowledged well before anybody gives up (20 s)."""


class Throttle:
    """Bytes are taken first and paid for by waiting. Moments come from a clock that never goes back."""

    def __init__(self, bytes_per_s: int) -> None:
        """0 for as many as there are."""
        self._bytes_per_s = bytes_per_s
        self._free_s = 0.0

    def took(self, size: int, now_s: float) -> None:
        if self._bytes_per_s:
            self._free_s = max(self._free_s, now_s) + size / self._bytes_per_s

    def piece(self, most: int) -> int:
        """So many bytes may go at once, of at most `most`."""
        return min(most, max(1, int(PIECE_S * self._bytes_per_s))) if self._bytes_per_s else most

    def free(self, now_s: float) -> bool:
        """Is everything paid for that was taken?"""
        return now_s >= self._free_s
