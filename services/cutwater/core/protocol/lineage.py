"""Which sequences of the commit stream belong to which generation: what became of a token that a reader holds.

Sequences go on where a generation takes over, so a later milestone holds all that an earlier one of its line held.
Two kinds of milestones are not on the line: those of a generation that was never promoted, and those that a
rollback went back behind.
"""

from __future__ import annotations

from typing import NamedTuple

from cutwater.core.protocol.chain import FIRST_SEQUENCE
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Milestone

SPANS_MAX = 64
"""Generations remembered: the first, since it says whose events the lineage holds, and the newest.

Where there are so many, some between them may be forgotten, and with them whether one went back behind the first.
A token of the first or of a forgotten one counts as lost then: its reader begins anew.
"""


class Span(NamedTuple):
    """A generation's part of the stream: from its first milestone to the next span's."""

    first: int
    generation: Generation
    rewinds_to: int
    """The sequence whose state it went back to; 0: it went on from the milestone before its first."""


class Lineage(NamedTuple):
    """The generations of a stream as far as it was read, the newest last."""

    spans: tuple[Span, ...] = ()

    @staticmethod
    def of(generation: Generation) -> Lineage:
        """Where nothing is known of what was before it."""
        return Lineage((Span(FIRST_SEQUENCE, generation, 0),))

    def after(self, milestone: Milestone) -> Lineage:
        """With the next milestone of the stream."""
        if self.spans and self.spans[-1].generation == milestone.generation:
            return self
        span = Span(milestone.sequence, milestone.generation, milestone.rewinds_to)
        kept = self.spans if len(self.spans) < SPANS_MAX else (self.spans[0], *self.spans[2:])
        return Lineage((*kept, span))

    def ahead(self, token: Token) -> bool:
        """Is it of a generation that may be promoted yet? Numbers are never used twice, and rise."""
        return not self.spans or token.generation.number > self.spans[-1].generation.number

    def why_lost(self, token: Token) -> str | None:
        """Why no milestone from here on can hold what this one held; None: each later one does, or will."""
        if self.ahead(token):
            return None
        back: Span | None = None
        ends = token.sequence + 1
        whole = len(self.spans) < SPANS_MAX
        for number, span in reversed(list(enumerate(self.spans))[0 if whole else 1 :]):
            if span.generation == token.generation:
                begins = span.first if number else FIRST_SEQUENCE  # the stream does not say any more how early
                if not begins <= token.sequence < ends:
                    return f"{token.generation} has no milestone of that number"
                if back and back.rewinds_to < token.sequence:
                    return f"{back.generation} went back to the state of milestone {back.rewinds_to}"
                return None
            if span.rewinds_to and not (back and back.rewinds_to < span.first):
                back = span  # one that was itself gone back behind has no say
            ends = span.first
        return f"{token.generation} was never promoted here, or too long ago"


UNKNOWN = Lineage()
"""Of a stream that was not read yet."""
