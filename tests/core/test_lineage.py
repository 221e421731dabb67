"""What became of a token: held against a stream whose every milestone knows its own parent."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from test_restore import chain

from cutwater.core.generations import Generation, Token
from cutwater.core.lineage import SPANS_MAX, UNKNOWN, Lineage

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


def test_it_is_bounded_and_a_pruned_beginning_is_believed() -> None:
    stream = Stream()
    for _ in range(SPANS_MAX + 5):
        stream.grow(2)
    assert len(stream.lineage.spans) == SPANS_MAX
    assert stream.lineage.why_lost(stream.tokens[0])
    oldest = stream.lineage.spans[0]
    assert stream.lineage.why_lost(Token(oldest.generation, oldest.first - 1)) is None
    assert Lineage.of(FIRST.generation).why_lost(FIRST.token) is None
