"""Which snapshots stand for a parent's changelog: plain values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.state.snapshot_manifest import Manifest
from cutwater.core.state.snapshot_set import SHOWN_MAX, covering, evicted, refusal, unfit
from support.protocol_samples import OTHER, milestone

PARENT = milestone(5, horizon_ms=7_200_000)
MANIFEST = Manifest(
    job=PARENT.job,
    generation=PARENT.generation,
    partitions=None,
    sequence=PARENT.sequence,
    record=b"",
    offset=3,
    segment_ms=1,
    schema=PARENT.schema_fingerprint,
    files=(),
    created_ms=1,
)


def test_a_snapshot_of_the_very_milestone_fits() -> None:
    """What was evicted at or below the horizon would be gone by now."""
    assert unfit(PARENT, MANIFEST, PARENT) == ""
    assert unfit(PARENT, replace(MANIFEST, lower_ms=PARENT.horizon_ms), PARENT) == ""


@pytest.mark.parametrize(
    ("changes", "told", "why"),
    [
        ({"job": "another"}, PARENT, "it is of another"),
        ({"generation": OTHER}, PARENT, f"{OTHER}:{PARENT.sequence}"),
        ({"sequence": PARENT.sequence - 1}, PARENT, f":{PARENT.sequence - 1}"),
        ({}, replace(PARENT, digest=PARENT.digest + 1), "another milestone: of a stream that was replaced"),
        ({}, b"no milestone", "another milestone"),
        ({"schema": "ffff"}, PARENT, "of schema ffff"),
        ({"lower_ms": PARENT.horizon_ms + 1}, PARENT, "were evicted from the view"),
    ],
)
def test_any_other_does_not(changes: dict[str, Any], told: object, why: str) -> None:
    """Each with its reason."""
    assert why in unfit(PARENT, replace(MANIFEST, **changes), told)


def test_what_was_evicted_is_told_of_an_opened_view_too() -> None:
    """A manifest of an earlier version does not say it."""
    assert evicted(PARENT, None) == ""
    assert "T02:00:00.001Z were evicted" in evicted(PARENT, PARENT.horizon_ms + 1)


def test_parts_of_several_owners_make_a_whole() -> None:
    """The largest first, each partition once; all of it if one has all; what is missing is named."""
    two, one = frozenset({0, 2}), frozenset({1})
    every, none = frozenset(range(3)), frozenset[int]()
    assert covering({"p0-2": two, "p1": one}, 3) == ((("p0-2", two), ("p1", one)), none)
    assert covering({"p0-2": two, "all.in-eu": None, "p1": one}, 3) == ((("all.in-eu", every),), none)
    assert covering({"p0-2": two, "p1-2": frozenset({1, 2})}, 3) == ((("p0-2", two), ("p1-2", one)), none)
    assert covering({"p0-2": two}, 3) == ((("p0-2", two),), one)
    assert covering({"p0-2": two, "p2": frozenset({2})}, 3) == ((("p0-2", two),), one), "one that gives nothing"
    assert covering({}, 3) == ((), every)


@given(st.dictionaries(st.text("abc", min_size=1), st.frozensets(st.integers(0, 5))), st.integers(1, 6))
def test_a_partition_is_never_taken_twice(held: dict[str, frozenset[int]], partitions: int) -> None:
    """And none is missing that a snapshot holds."""
    found, missing = covering(held, partitions)
    taken = [number for one in found for number in one.partitions]
    there = frozenset().union(*held.values()) if held else frozenset()
    assert sorted(taken) == sorted(there & frozenset(range(partitions)))
    assert missing == frozenset(range(partitions)) - there
    assert all(one.partitions <= held[one.name] for one in found)


def test_a_refusal_says_what_is_missing_and_what_to_do() -> None:
    """Of many snapshots the first few."""
    assert "the log is cut; and no snapshot store is configured. Take a" in refusal(
        PARENT, "the log is cut", "", {}
    )
    assert "s3://b holds no snapshot of it" in refusal(PARENT, "cut", "s3://b", {})
    many = [f"p{number}" for number in range(SHOWN_MAX + 2)]
    said = refusal(PARENT, "cut", "s3://b", {}, many)
    assert "no snapshot in s3://b can replace it (p0: it holds a part only; p1" in said
    assert "; 2 more)" in said
    assert "'cutwater snapshots create'" in said
    assert "empty place" not in said, "the others' parts may be taken beside them"


def test_beside_a_damaged_one_none_can_be_taken() -> None:
    """An existing snapshot is never overwritten: the advice names another place."""
    said = refusal(PARENT, "cut", "s3://b", {"all": "x is damaged"}, ["p0"])
    assert "(all: x is damaged; p0: it holds a part only)" in said
    assert "start that view with CUTWATER_SNAPSHOTS set to an empty place" in said
