"""Generation ids and tokens: what users type and topics are named by, parsed back exactly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import Generation, Token
from support.protocol_samples import GENERATIONS


@given(GENERATIONS)
def test_a_generation_is_parsed_back(generation: Generation) -> None:
    """The id in topic names and headers says everything about the generation."""
    assert Generation.parse(str(generation)) == generation


@given(GENERATIONS, st.integers(0, 10**18 - 1))
def test_a_token_is_parsed_back(generation: Generation, sequence: int) -> None:
    """A token is enough to name a milestone."""
    assert Token.parse(str(Token(generation, sequence))) == Token(generation, sequence)


@given(st.text(max_size=40))
def test_any_other_text_is_refused_in_words(text: str) -> None:
    """Tokens come from strangers over HTTP: text is a token or a UsageError, and only ever one way."""
    try:
        token = Token.parse(text)
    except UsageError:
        return
    assert Token.parse(str(token)) == token


@pytest.mark.parametrize(
    "text",
    [
        "",
        "g1-local-00000000",
        "g0-local-00000000:1",
        "g01-local-00000000:1",
        "g1-Local-00000000:1",
        "g1-local-0000000:1",
        "g1-local-0000000G:1",
        "g1-local-00000000:-1",
        "g1-local-00000000:1\n",
        "g1-local-00000000:\u0663",
        "g1-local-00000000:" + "9" * 5_000,
        "g" + "9" * 5_000 + "-local-00000000:1",
    ],
)
def test_near_misses_are_refused(text: str) -> None:
    """Digits of other scripts and numbers of thousands of digits are refused, not tracebacks."""
    with pytest.raises(UsageError, match="one looks like g1-local-00000000"):
        Token.parse(text)


def test_generations_are_ordered_by_number() -> None:
    """The tenth generation is newer than the ninth, which text order would get wrong."""
    assert Generation(10, "a") > Generation(9, "z")
