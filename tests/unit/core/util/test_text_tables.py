"""Tables as text: what fits stands side by side, what is long under its row; nothing is broken or obeyed."""

from __future__ import annotations

import unicodedata
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.util.printable_text import printable, printable_lines, width
from cutwater.core.util.text_tables import (
    Column,
    Lines,
    Styled,
    Table,
    number_text,
    packed,
    ranked,
    table,
    wrapped,
)

TEXT = st.text(st.characters())
"""Any characters: control characters, wide ones and lone surrogates too."""
CELL = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.decimals(allow_nan=True), TEXT,
    st.builds(Styled, TEXT, st.sampled_from(["", "red"])), st.builds(Lines, st.lists(TEXT, max_size=4).map(tuple)),
)  # fmt: skip
COLUMN = st.builds(Column, TEXT, st.integers(0, 3), st.booleans())


@st.composite
def tables(draw: st.DrawFn) -> Table:
    columns = draw(st.lists(COLUMN, min_size=1, max_size=6))
    rows = draw(st.lists(st.tuples(*(CELL for _ in columns)), max_size=4))
    return table(draw(TEXT), columns, rows)


def text(made: Table, width_max: int | None = None) -> list[str]:
    return ["".join(part.text for part in line).rstrip() for line in made.lines(width_max)]


@given(tables(), st.one_of(st.none(), st.integers(1, 200)))
def test_any_text_is_shown_and_none_is_obeyed(made: Table, width_max: int | None) -> None:
    """Whatever stands in a title, a heading or a cell: no error, no control character, and it can be encoded."""
    for line in text(made, width_max):
        line.encode()
        assert not [one for one in line if unicodedata.category(one) in {"Cc", "Cs", "Zl", "Zp"}]


@given(tables(), st.integers(20, 200))
def test_no_line_is_wider_than_the_terminal(made: Table, width_max: int) -> None:
    """But for a single word that is wider than half of it: nothing breaks that."""
    words = [word for line in text(made) for word in line.split(" ")]
    names = [printable(one.name) for one in made.columns]
    if max(map(width, words)) <= width_max // 2 and max(map(width, names)) <= width_max // 4:
        assert all(width(line) <= width_max for line in text(made, width_max))


@given(TEXT)
def test_escaped_text_is_printable_and_stays_as_it_is(one: str) -> None:
    """Escaping twice changes nothing; line ends are kept where lines are."""
    assert printable(one).isprintable()
    assert printable(printable(one)) == printable(one)
    assert printable_lines(one).split("\n") == [printable(line) for line in one.split("\n")]


def test_a_control_sequence_is_shown_as_text() -> None:
    """What would clear the screen, end a line or turn the direction of writing is seen; markup is only text."""
    keys = ["\x1b[2J", "a\nb", "\u202egnp", "[/foo]", "\ud83d", "\x9b2J"]
    shown = [r"\x1b[2J", r"a\nb", r"\u202egnp", "[/foo]", r"\ud83d", r"\x9b2J"]
    assert text(table("[/foo]", ["key"], [[key] for key in keys])) == ["[/foo]", "key", *shown]


def test_wide_characters_take_two_columns() -> None:
    """So what follows them is aligned."""
    assert text(table("t", ["key", "n"], [["東京", 1], ["ab", 2], ["e\u0301", 3]]))[2:] == [
        "東京  1",
        "ab    2",
        "e\u0301     3",
    ]


COLUMNS = ("name", Column("much", 1), Column("less", 2), Column("why", below=True))
ROWS = [("first", 1_234, "yes", "because of this and of that"), ("second", 12, "no", "")]


def test_all_stands_side_by_side_where_it_fits() -> None:
    """In a pipe there is no width at all: one row is one line. Numbers are right-aligned."""
    wide = [
        "title",
        "name     much  less  why",
        "first   1,234  yes   because of this and of that",
        "second     12  no",
    ]
    assert text(table("title", COLUMNS, ROWS)) == text(table("title", COLUMNS, ROWS), 80) == wide


def test_what_is_long_stands_under_its_row() -> None:
    """Broken between words only."""
    assert text(table("title", COLUMNS, ROWS), 20) == [
        *("title", "name     much  less", "first   1,234  yes"),
        *("  why: because of", "    this and of that", "second     12  no"),
    ]


def test_what_does_not_fit_is_left_out_by_its_rank_and_named() -> None:
    """The last line says what, and how to see it."""
    assert text(table("title", COLUMNS[:3], ROWS and [row[:3] for row in ROWS], hint="ask"), 14) == [
        *("title", "name     much", "first   1,234", "second     12", "left out:", "less; ask"),
    ]


def test_a_column_of_no_rank_is_never_left_out() -> None:
    """It stands under the row."""
    assert text(table("", ["name", "more"], [["a" * 10, "b" * 9]]), 16)[1:] == [
        "name",
        "a" * 10,
        "  more: " + "b" * 9,
    ]


def test_one_long_value_does_not_cost_the_other_columns() -> None:
    """What is wider than half of the terminal stands under its row; only what names the row may be wider."""
    made = table("", ["name", Column("process", 1), Column("more", 2)], [["first", "p" * 11, "m" * 9]])
    assert text(made, 20)[1:] == ["name   more", "first  " + "m" * 9, "  process: " + "p" * 11]
    assert text(table("", ["name", Column("more", 1)], [["f" * 11, "m" * 8]]), 20)[1:] == [
        *("name", "f" * 11, "left out: more;", "--wide shows all", "columns, --json all", "values"),
    ]


def test_a_token_is_never_cut() -> None:
    """A word that is longer than the line stays whole; the terminal does with it what it does."""
    token = "g1-local-00000000:42"
    made = table("", ["token", "why"], [[token, f"behind {token}"]])
    assert text(made, 22)[1:] == ["token", token, "  why: behind", f"    {token}"]
    assert text(made, 12)[1:] == [f"  token: {token}", "  why: behind", f"    {token}"]


def test_several_facts_are_packed() -> None:
    """A fact is broken only where it has no line of its own."""
    facts = Lines(("planned -1", "committed -1", "a fact that is longer than a line"))
    assert text(table("", ["n", Column("found", below=True)], [["driver", facts]]), 26)[2:] == [
        *("driver", "  found: planned -1;", "    committed -1; a fact", "    that is longer than a", "    line"),
    ]
    assert text(table("", ["n", "found"], [["driver", facts]]))[-1].endswith(
        "-1; a fact that is longer than a line"
    )


def test_sentences_are_broken_between_words() -> None:
    assert wrapped("one two three", 8) == ["one two", "three"]
    assert wrapped("one two three", None) == ["one two three"]
    assert packed([], "; ", 10, "", 0) == [""]
    exactly = packed(["one", "two th"], ";", 8, "", 2)
    assert exactly == ["one;", "  two th"], "a fact that just fits on a line of its own is not broken"


def test_measures_are_left_out_from_the_last_on() -> None:
    assert ranked(["key"], "a", "b") == ["key", Column("a", 1), Column("b", 2)]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1263109.430000007, "1,263,109.430000007"), (12, "12"), (-1234567, "-1,234,567"), (1e22, "1e+22"),
        (0.1, "0.1"), (3.0, "3.0"), (Decimal("1234.50"), "1,234.50"), (Decimal("NaN"), "NaN"),
        (float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"),
    ],
)  # fmt: skip
def test_numbers_are_exact_and_readable(value: Any, shown: str) -> None:
    assert number_text(value) == shown


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_no_digit_is_lost(value: float) -> None:
    """What is shown reads back as the same number."""
    assert float(number_text(value).replace(",", "")) == value


def test_only_a_column_of_numbers_stands_to_the_right() -> None:
    """One word in it, and it is text; what is unknown is neither."""
    columns = [Column("name"), Column("mixed"), Column("count")]
    made = table("", columns, [("a", 1, 5), ("b", "many", None), ("c", 300, 7)])
    assert text(made)[1:] == ["name  mixed  count", "a     1          5", "b     many", "c     300        7"]


def test_columns_that_just_fit_stand_side_by_side() -> None:
    made = table("", [Column("one"), Column("two"), Column("six")], [("a" * 6, "b" * 6, "c" * 6)])
    wide = max(map(len, text(made)))
    assert max(map(len, text(made, wide))) == wide
    assert len(text(made, wide)) == len(text(made))
    assert len(text(made, wide - 1)) > len(text(made))


def test_numbers_that_are_none() -> None:
    """As input wants them."""
    told = {float("inf"): "Infinity", float("-inf"): "-Infinity", Decimal("-Infinity"): "-Infinity"}
    assert {one: number_text(one) for one in told} == told
    assert number_text(float("nan")) == number_text(Decimal("NaN")) == "NaN"
    assert (number_text(0.0), number_text(-1_234), number_text(Decimal("1.50"))) == ("0.0", "-1,234", "1.50")


def test_an_item_that_just_fits_is_not_broken() -> None:
    """A text of exactly the width stands on a line of its own and is not broken at its blank."""
    assert packed(["x", "ab cd"], ",", 7, "12345", 2) == ["12345x,", "  ab cd"]


def test_words_in_a_colour_and_facts_stand_to_the_left() -> None:
    """Only what is a number stands to the right, whatever else a cell may be."""
    for cell in (Styled("up", "green"), Lines(("up",)), True):
        made = table("", [Column("a long heading"), Column("next")], [(cell, "x")])
        assert text(made)[-1].startswith(("up", "true")), cell


def test_a_table_in_a_message_of_an_error_shows_no_rows() -> None:
    """They may hold what customers have written."""
    assert "secret" not in repr(table("orders", [Column("name")], [("secret",)]))
