"""What a file about an incident holds: its parts, their bounds, and what is missing with the reason.

Parts come in the order of their use: if the file is full, or time is over, it is the logs' older end that lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

MB = 1 << 20
PART_BYTES_MAX = 4 * MB
TOTAL_BYTES_MAX = 64 * MB
PARTS_MAX = 300
SECONDS_MAX = 180.0
"""No part is begun after this time."""
PROBLEM_MAX = 1_000


class Excerpt(NamedTuple):
    """A part's text, with what was left out before it."""

    text: str
    left_out_bytes: int = 0


class PartReport(NamedTuple):
    """One line of the table of contents."""

    name: str
    bytes: int
    """Uncompressed; 0 if the part is missing."""
    left_out_bytes: int
    """Older bytes that were not taken."""
    problem: str
    """Why the part is missing; empty if it is there."""


@dataclass(frozen=True)
class Contents:
    """The parts so far, and the room that is left."""

    parts: tuple[PartReport, ...] = ()
    bytes_max: int = TOTAL_BYTES_MAX

    @property
    def bytes_left(self) -> int:
        """The most bytes that the next part may have."""
        return max(0, min(PART_BYTES_MAX, self.bytes_max - sum(one.bytes for one in self.parts)))

    @property
    def complete(self) -> bool:
        return not any(one.problem for one in self.parts)

    def refusal(self, elapsed_s: float) -> str:
        """Return why no further part is begun; empty if there is room and time."""
        if elapsed_s > SECONDS_MAX:
            return f"the time of {SECONDS_MAX:.0f} s was over before it"
        if len(self.parts) >= PARTS_MAX:
            return f"the file has {PARTS_MAX} parts already"
        if not self.bytes_left:
            return f"the file is full: {self.bytes_max // MB} MB"
        return ""

    def add(self, name: str, size: int, left_out_bytes: int = 0) -> Contents:
        """Return the contents with a part that is there."""
        return replace(self, parts=(*self.parts, PartReport(name, size, left_out_bytes, "")))

    def lack(self, name: str, problem: str) -> Contents:
        """Return the contents with a part that is missing."""
        why = " ".join(problem.split())[:PROBLEM_MAX] or "no reason was given"
        return replace(self, parts=(*self.parts, PartReport(name, 0, 0, why)))

    def as_json(self, job: str, created: str) -> dict[str, Any]:
        """Return the table of contents as the file has it."""
        parts = [one._asdict() for one in self.parts]
        return {"job": job, "created": created, "complete": self.complete, "parts": parts}


def newest_lines(text: str, bytes_max: int) -> Excerpt:
    """Return the last whole lines of a text that fit; of a single longer line its end."""
    data = text.encode()
    if len(data) <= bytes_max:
        return Excerpt(text)
    kept = data[len(data) - bytes_max :] if bytes_max > 0 else b""
    whole = kept.partition(b"\n")[2] or kept
    return Excerpt(whole.decode(errors="ignore"), len(data) - len(whole))


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return names of files that differ: a repeated one gets a number."""
    found: list[str] = []
    for name in names:
        stem, dot, ending = name.partition(".")
        number, one = 2, name
        while one in found:
            one, number = f"{stem}-{number}{dot}{ending}", number + 1
        found.append(one)
    return found
