"""The text by which a person names a milestone of a job.

latest                    the newest milestone on the commit stream
42                        the milestone with this sequence number on the commit stream
g1-local-00000000:42      a token
g2-local-5f0c21aa         the newest milestone of a generation, also of a candidate
2026-01-31T08:00:00Z      the newest milestone on the commit stream that was committed by then
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Milestone
from cutwater.core.util.suggestions import value_text
from cutwater.core.util.timestamps import iso, iso_ms

LATEST = "latest"
_SEQUENCE = re.compile(r"[0-9]{1,7}|[0-9]{9,18}")
"""Eight digits could also be a day, as 20260131 is."""


@dataclass(frozen=True)
class MilestonePoint:
    """One of the fields is set; none of them means the newest milestone."""

    token: Token | None = None
    sequence: int | None = None
    generation: Generation | None = None
    at_ms: int | None = None

    @staticmethod
    def of(text: str) -> MilestonePoint:
        """Parse one of the forms above. Raises UsageError for another text."""
        if text == LATEST:
            return MilestonePoint()
        if _SEQUENCE.fullmatch(text):
            return MilestonePoint(sequence=int(text))
        for parsed in (_token, _generation, _time):
            if (found := parsed(text)) is not None:
                return found
        raise UsageError(
            f"{value_text(text)} names no milestone: write latest, a sequence number (42), a token "
            "(g1-local-00000000:42), a generation (g2-local-5f0c21aa) or a time (2026-01-31T08:00:00Z)"
        )

    @property
    def of_generation(self) -> Generation | None:
        """The generation that the text names; None if only the commit stream tells it."""
        return self.token.generation if self.token else self.generation

    def means(self, milestone: Milestone) -> bool:
        """Return whether this is the milestone, if no later one of the same stream is."""
        if self.token is not None:
            return milestone.token == self.token
        if self.sequence is not None:
            return milestone.sequence == self.sequence
        if self.generation is not None:
            return milestone.generation == self.generation
        return self.at_ms is None or milestone.committed_ms <= self.at_ms

    def __str__(self) -> str:
        if self.sequence is not None:
            return f"a milestone of sequence {self.sequence}"
        if self.at_ms is not None:
            return f"a milestone committed by {iso(self.at_ms)}"
        return str(self.token or self.generation or "any milestone")


def _token(text: str) -> MilestonePoint | None:
    try:
        return MilestonePoint(token=Token.parse(text))
    except UsageError:
        return None


def _generation(text: str) -> MilestonePoint | None:
    try:
        return MilestonePoint(generation=Generation.parse(text))
    except UsageError:
        return None


def _time(text: str) -> MilestonePoint | None:
    try:
        return MilestonePoint(at_ms=iso_ms(text))
    except ValueError:
        return None
