"""The table of contents of an incident's file: bounded, and it names what is missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.monitoring.incident import (
    MB,
    PART_BYTES_MAX,
    PARTS_MAX,
    PROBLEM_MAX,
    SECONDS_MAX,
    Contents,
    distinct_names,
    newest_lines,
)


@given(st.lists(st.integers(0, 3 * PART_BYTES_MAX), max_size=60), st.integers(1, 64 * MB))
def test_the_parts_never_outgrow_the_file(sizes: list[int], bytes_max: int) -> None:
    """Each part gets the room that is left, and none is begun without any."""
    contents = Contents(bytes_max=bytes_max)
    for number, size in enumerate(sizes):
        if contents.refusal(0.0):
            contents = contents.lack(str(number), contents.refusal(0.0))
        else:
            assert contents.bytes_left > 0
            contents = contents.add(
                str(number), min(size, contents.bytes_left), max(0, size - contents.bytes_left)
            )
    assert sum(one.bytes for one in contents.parts) <= bytes_max
    assert all(one.bytes <= PART_BYTES_MAX for one in contents.parts)
    assert [one.name for one in contents.parts] == [str(number) for number in range(len(sizes))]


def test_no_part_is_begun_late_or_beyond_the_number() -> None:
    assert "over" in Contents().refusal(SECONDS_MAX + 1)
    many = Contents()
    for number in range(PARTS_MAX):
        assert many.refusal(0.0) == ""
        many = many.add(str(number), 0)
    assert str(PARTS_MAX) in many.refusal(0.0)


def test_a_missing_part_has_its_reason_in_one_line() -> None:
    (one,) = Contents().lack("status.json", "no broker\n  answers " + "x" * 5_000).parts
    assert one.problem.startswith("no broker answers x")
    assert len(one.problem) == PROBLEM_MAX
    assert not Contents().lack("a", "").complete
    assert Contents().lack("a", "").parts[0].problem


@given(st.text(max_size=300), st.integers(0, 400))
def test_the_newest_lines_are_kept(text: str, bytes_max: int) -> None:
    kept = newest_lines(text, bytes_max)
    assert text.endswith(kept.text)
    assert len(kept.text.encode()) <= bytes_max
    if len(text.encode()) <= bytes_max:
        assert kept == (text, 0)


def test_a_line_is_not_cut() -> None:
    assert newest_lines("first\nsecond\nthird\n", 13) == ("third\n", 13)


def test_names_of_files_differ() -> None:
    assert distinct_names(["logs/a.log", "logs/a.log", "logs/a.log.1"]) == [
        "logs/a.log",
        "logs/a-2.log",
        "logs/a.log.1",
    ]
