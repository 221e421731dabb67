"""What became of a token: held against a stream whose every milestone knows its own parent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.protocol import lineage
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.lineage import SPANS_MAX, UNKNOWN, Lineage
from cutwater.core.query.global_merge import root_of
from unit.core.state.test_backlog import chain

FIRST = chain(1)[0].milestone


class Stream:
    """Milestones in a row; each generation begins where the one before ended, or goes back."""

    def __init__(self) -> None:
        self.lineage = UNKNOWN
        self.tokens: list[Token] = []
        self.parent: dict[int, int] = {}

    def grow(self, milestones: int, rewinds_to: int = 0) -> None:
        number = self.tokens[-1].generation.number + 1 if self.tokens else 1
        for _ in range(milestones):
            sequence = len(self.tokens) + 1
            token = Token(Generation(number, "local"), sequence)
            self.parent[sequence] = rewinds_to or sequence - 1
            made = replace(FIRST, generation=token.generation, sequence=sequence, rewinds_to=rewinds_to)
            self.lineage, rewinds_to = self.lineage.after(made), 0
            self.tokens.append(token)

    def held(self) -> set[int]:
        """The milestones whose state went into the newest one."""
        at, found = len(self.tokens), set()
        while at:
            found.add(at)
            at = self.parent[at]
        return found


@given(st.data())
def test_a_token_is_lost_just_where_the_newest_milestone_does_not_come_from_it(data: st.DataObject) -> None:
    stream = Stream()
    stream.grow(data.draw(st.integers(1, 4)))
    for milestones in data.draw(st.lists(st.integers(1, 4), max_size=6)):
        stream.grow(milestones, data.draw(st.integers(0, len(stream.tokens) - 1)))
    held = stream.held()
    for token in stream.tokens:
        assert (stream.lineage.why_lost(token) is None) == (token.sequence in held), token
        for other in {one.generation for one in stream.tokens} - {token.generation}:
            newest = other == stream.tokens[-1].generation and token.sequence > len(stream.tokens)
            assert stream.lineage.why_lost(Token(other, token.sequence)) or newest


def test_what_is_to_come_is_not_lost() -> None:
    stream = Stream()
    stream.grow(3)
    stream.grow(2)
    assert stream.lineage.why_lost(Token(Generation(2, "local"), 99)) is None
    later = Token(Generation(3, "local", "abcdef01"), 6)
    assert (stream.lineage.ahead(later), stream.lineage.why_lost(later)) == (True, None)
    other = Token(Generation(2, "local", "abcdef01"), 4)
    assert (stream.lineage.ahead(other), bool(stream.lineage.why_lost(other))) == (False, True)


def test_before_a_stream_was_read_every_token_may_be_to_come() -> None:
    assert UNKNOWN.ahead(FIRST.token)
    assert UNKNOWN.why_lost(FIRST.token) is None


def test_a_pruned_beginning_is_believed() -> None:
    """The stream does not say any more how early its oldest generation began."""
    stream = Stream()
    stream.grow(2)
    stream.grow(2)
    pruned = Lineage(stream.lineage.spans[1:])
    oldest = pruned.spans[0]
    assert pruned.why_lost(Token(oldest.generation, oldest.first - 1)) is None
    assert Lineage.of(FIRST.generation).why_lost(FIRST.token) is None


@given(st.data())
def test_it_is_bounded_and_what_is_forgotten_is_never_believed(data: st.DataObject) -> None:
    """The first generation stays, whose events it is. What it says of a token is right or "lost"; and right of
    those generations that it remembers behind the first."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lineage, "SPANS_MAX", 4)
        stream = Stream()
        stream.grow(data.draw(st.integers(1, 3)))
        for milestones in data.draw(st.lists(st.integers(1, 3), min_size=4, max_size=9)):
            stream.grow(milestones, data.draw(st.integers(0, len(stream.tokens) - 1)))
        spans = stream.lineage.spans
        assert [one.generation.number for one in spans] == [1, *range(spans[-1].generation.number - 2, 100)][:4]
        held = stream.held()
        for token in stream.tokens:
            believed = stream.lineage.why_lost(token) is None
            remembered = token.generation in [one.generation for one in spans[1:]]
            assert believed == (remembered and token.sequence in held), token


def test_after_many_promotions_it_is_still_known_whose_events_they_are() -> None:
    """A global view leaves out a region of which that is not known."""
    later = [Generation(number, "local", f"{number:08x}") for number in range(2, SPANS_MAX + 5)]
    found = UNKNOWN
    for sequence, generation in enumerate([FIRST.generation, *later], 1):
        found = found.after(replace(FIRST, generation=generation, sequence=sequence))
    assert len(found.spans) == SPANS_MAX
    assert root_of(later[-1], found) == FIRST.generation
    assert found.why_lost(FIRST.token)
