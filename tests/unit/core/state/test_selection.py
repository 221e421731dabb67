"""A part of the state by keys, prefixes and time: what is kept, and how it is written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.state.bulk_load import Slice, Task
from cutwater.core.state.selection import NAME_CHARS_MAX, NAMES_MAX, Selection, names_of, since_of

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
selections = st.builds(
    Selection.of,
    st.lists(names, max_size=4),
    st.lists(names.filter(bool), max_size=3),
    st.none() | st.integers(-9, 9),
)


@given(selections, names, st.integers(-10, 10))
def test_what_is_kept(selection: Selection | None, key: str, end_ms: int) -> None:
    """Key by key as the words say it, and the same of bytes as of text."""
    if selection is None:
        return
    named = not (selection.keys or selection.prefixes)
    named |= key in selection.keys or any(key.startswith(one) for one in selection.prefixes)
    newer = selection.since_ms is None or end_ms > selection.since_ms
    assert selection.keeps_key(key) == named
    assert selection.keeps(key, end_ms) == (named and newer)
    assert newer == (end_ms > selection.raised(-10, 0) or selection.since_ms is None)
    keeps = selection.of_bytes()
    assert named == (keeps is None or keeps(key.encode()))


@given(selections, names, st.lists(names, max_size=6))
def test_a_prefix_of_which_nothing_is_kept(selection: Selection | None, prefix: str, more: list[str]) -> None:
    """It says no only where no key that begins so is kept; and yes only where there is one, or may be."""
    if selection is None:
        return
    keys = [*more, *(prefix + one for one in more), *selection.keys]
    begins = {key for key in keys if key.startswith(prefix)}
    assert selection.any_begins(prefix) >= any(map(selection.keeps_key, begins))
    kept = [*begins, prefix, *(one for one in selection.prefixes if one.startswith(prefix))]
    assert selection.any_begins(prefix) == any(map(selection.keeps_key, kept))
    assert selection.any_begins(prefix, lambda _key: False) <= selection.any_begins(prefix)


@given(selections)
def test_it_survives_being_written(selection: Selection | None) -> None:
    """In a store, in an export and in a worker's task."""
    if selection is not None:
        assert Selection.of_object(json.loads(json.dumps(selection.as_object()))) == selection
        assert len(str(selection)) < 500
    task = Task(
        "t",
        [Slice(1, 2, 3)],
        "/f",
        1,
        2,
        3,
        "g1-local-00000000/1/2",
        "c301",
        "c302",
        4,
        5,
        6.5,
        selection=selection,
    )
    assert Task.of(task.text()) == task


def test_nothing_left_out_is_no_selection() -> None:
    assert Selection.of() is None
    assert Selection.of_object(None) is None


@given(st.lists(names, min_size=1))
def test_names_as_json_are_taken_as_they_are(every: list[str]) -> None:
    assert names_of(json.dumps(every)) == every


def test_names_with_commas_between_them() -> None:
    assert names_of(" a, b/c ,ü") == ["a", "b/c", "ü"]
    assert names_of("") == []


@pytest.mark.parametrize("text", [",", " ", "[]", "[1]", '{"a": 1}', '["a"', "[" * 100_000])
def test_a_text_without_names_is_refused(text: str) -> None:
    """It would ask for everything."""
    if text == '{"a": 1}':
        assert names_of(text) == ['{"a": 1}'], "a name is any text"
        return
    with pytest.raises(UsageError, match="is no list of names"):
        names_of(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("", None), ("0", 0), ("-5", -5), ("1970-01-01T00:00:01Z", 1000), ("1970-01-01T01:00:00+01:00", 0)],
)
def test_moments(text: str, ms: int | None) -> None:
    assert since_of(text) == ms


@pytest.mark.parametrize("text", ["yesterday", " ", "1e9", "١٢", "9" * 5_000, "10000-01-01", str(1 << 63)])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no time"):
        since_of(text)


@pytest.mark.parametrize(
    ("keys", "prefixes", "says"),
    [
        ([str(number) for number in range(NAMES_MAX + 1)], [], "1000 are allowed"),
        (["a" * (NAME_CHARS_MAX + 1)], [], "a key of 1001 characters"),
        ([], [""], "an empty prefix"),
        (["\ud800"], [], "surrogate"),
    ],
)
def test_what_cannot_be(keys: list[str], prefixes: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Selection.of(keys, prefixes)


def test_as_many_names_as_are_allowed() -> None:
    every = [str(number) for number in range(NAMES_MAX)]
    assert Selection.of(every[1:], every[:1]) is not None


def test_a_selection_in_words() -> None:
    """What it names, and from when on."""
    assert str(Selection.of(["b", "a"], ["x"])) == "the keys a, b and the keys that begin with x"
    assert str(Selection.of([], [], 0)) == "all keys, in windows that end after 1970-01-01T00:00:00Z"
