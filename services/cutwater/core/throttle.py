"""So many bytes a second and no more: when the next may go."""

from __future__ import annotations


class Throttle:
    """Bytes are taken first and paid for by waiting. Moments come from a clock that never goes back."""

    def __init__(self, bytes_per_s: int) -> None:
        """0 for as many as there are."""
        self._bytes_per_s = bytes_per_s
        self._free_s = 0.0

    def took(self, size: int, now_s: float) -> None:
        if self._bytes_per_s:
            self._free_s = max(self._free_s, now_s) + size / self._bytes_per_s

    def free(self, now_s: float) -> bool:
        """Is everything paid for that was taken?"""
        return now_s >= self._free_s
