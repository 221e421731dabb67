"""What messages say of a value, and which word they take for the one that was meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.job.measure_kinds import KINDS, SYNONYMS
from cutwater.core.util.suggestions import SHOWN_MAX, closest, listed, safe, value_text

FIELDS = ("source", "event_time", "key", "window", "max_bytes")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("sorce", "source"),
        ("soruce", "source"),
        ("Source ", "source"),
        ("EVENT-TIME", "event_time"),
        ("event time", "event_time"),
        ("eventtime", "event_time"),
        ("kye", "key"),
        ("keys", "key"),
        ("max_byte", "max_bytes"),
        ("sauce", ""),
        ("wind", "window"),
        ("topic", ""),
        ("", ""),
        ("source" * 1_000, ""),
    ],
)
def test_a_field_that_was_probably_meant(word: str, meant: str) -> None:
    """Near words, other letter case, `-` for `_`, swapped letters; nothing for words that are only alike."""
    assert closest(word, FIELDS) == meant


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("averge", "avg"),
        ("mean", "avg"),
        ("AVG", "avg"),
        ("cont", "count"),
        ("frist", "first"),
        ("maximun", "max"),
        ("count-distinct", "distinct"),
        ("total", "sum"),
        ("median", ""),
        ("mode", ""),
        ("var_samp", "variance"),
        ("standard_deviation", "stddev"),
        ("bool_or", "any"),
        ("correlation", ""),
        ("percentile", "quantile"),
    ],
)
def test_a_measure_that_was_probably_meant(word: str, meant: str) -> None:
    """By its own name and by what it is called elsewhere; a measure that there is not is none of ours."""
    assert closest(word, KINDS, SYNONYMS) == meant


def test_every_synonym_means_a_measure() -> None:
    """And is none itself."""
    assert set(SYNONYMS.values()) == set(KINDS)
    assert not set(SYNONYMS) & set(KINDS)


@given(st.text())
def test_what_is_shown_is_short_and_printable(text: str) -> None:
    """An escaped character may take ten places."""
    assert safe(text).isprintable()
    assert len(safe(text)) <= 10 * SHOWN_MAX
    assert safe(text) == text or len(text) > SHOWN_MAX or not text.isprintable() or "://" in text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "nothing"),
        ("a\tb", r"'a\tb'"),
        (True, "True"),
        (1.5, "1.5"),
        ({}, "a mapping"),
        ([[]], "a list"),
        (10**5_000, "a number with too many digits"),
        ("http://ann:pa@ss@host/x", "'http://…@host/x'"),
        ("http://host/x", "'http://host/x'"),
        ("x" * 100, f"'{'x' * 79}…'"),
    ],
    ids=range(10),
)
def test_values_as_they_are_shown(value: object, said: str) -> None:
    """Scalars as they are, without a URL's user; what holds others by its kind."""
    assert value_text(value) == said


def test_many_names_are_cut() -> None:
    """With the number of those that are left out."""
    assert listed("abc") == "a, b, c"
    assert listed("abcde", most=3) == "a, b, c and 2 more"


def test_two_letters_that_are_swapped_are_no_mistake_to_guess_at() -> None:
    """Of three they are: 'jbo'."""
    assert closest("di", ("id",)) == ""
    assert closest("jbo", ("job",)) == "job"
