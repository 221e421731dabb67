"""The generation of each sequence of the commit stream, to check whether a reader's token is still on the line.

Sequences continue across generations, so a later milestone holds all that an earlier one of its line held. Two
kinds of milestones are not on the line: those of a generation that was never promoted, and those that a rollback
undid.
"""

from __future__ import annotations

from typing import NamedTuple

from cutwater.core.protocol.chain import FIRST_SEQUENCE
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Milestone

SPANS_MAX = 64
"""The most generations to remember: the first, which identifies the events of the lineage, and the newest.

With more, generations between them are forgotten, with their rollbacks. A token of the first or of a forgotten one
then counts as lost, and its reader starts again.
"""


class Span(NamedTuple):
    """A generation's part of the stream: from its first milestone to that of the next span."""

    first: int
    generation: Generation
    rewinds_to: int
    """The sequence whose state a rollback returned to; 0: it continued from the milestone before its first."""


class Lineage(NamedTuple):
    """The generations of a stream up to the last milestone read, the newest last."""

    spans: tuple[Span, ...] = ()

    @staticmethod
    def of(generation: Generation) -> Lineage:
        """Return the lineage of a generation without known predecessors."""
        return Lineage((Span(FIRST_SEQUENCE, generation, 0),))

    def after(self, milestone: Milestone) -> Lineage:
        if self.spans and self.spans[-1].generation == milestone.generation:
            return self
        span = Span(milestone.sequence, milestone.generation, milestone.rewinds_to)
        kept = self.spans if len(self.spans) < SPANS_MAX else (self.spans[0], *self.spans[2:])
        return Lineage((*kept, span))

    def ahead(self, token: Token) -> bool:
        """Return whether a token's generation may still be promoted. Numbers increase, and are never reused."""
        return not self.spans or token.generation.number > self.spans[-1].generation.number

    def why_lost(self, token: Token) -> str | None:
        """Return why no later milestone holds what this one held; None if later ones do."""
        if self.ahead(token):
            return None
        back: Span | None = None
        ends = token.sequence + 1
        whole = len(self.spans) < SPANS_MAX
        for number, span in reversed(list(enumerate(self.spans))[0 if whole else 1 :]):
            if span.generation == token.generation:
                begins = span.first if number else FIRST_SEQUENCE  # its first sequence may be pruned
                if not begins <= token.sequence < ends:
                    return f"{token.generation} has no milestone of that number"
                if back and back.rewinds_to < token.sequence:
                    return f"{back.generation} went back to the state of milestone {back.rewinds_to}"
                return None
            if span.rewinds_to and not (back and back.rewinds_to < span.first):
                back = span  # a rollback that was itself undone does not count
            ends = span.first
        return f"{token.generation} was never promoted here, or too long ago"


UNKNOWN = Lineage()
"""The lineage of a stream that was not read yet."""
