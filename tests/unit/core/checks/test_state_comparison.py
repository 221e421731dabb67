"""Comparing places: equal places are equal, and of any damage the place and the key are named."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.checks.state_comparison import (
    CHANGELOG,
    OUTPUT,
    STATE,
    VIEW,
    Answer,
    PlaceRow,
    RowComparison,
    RowDifference,
    RowName,
    Scope,
    Verdict,
    differing_shards,
    exit_code,
    next_steps,
    odd_ones,
    output_can_be_corrected,
    scope_of,
    side_by_side,
    sum_by_shard,
    total,
    view_can_be_rebuilt,
)
from support.protocol_samples import milestone

SHARDS = 4
ROWS = st.dictionaries(
    st.tuples(st.text(max_size=3), st.integers(0, 3)), st.binary(min_size=1, max_size=2), min_size=1, max_size=12
)
EVERYTHING = Scope(-1)


def name_of(key: str, hour: int) -> RowName:
    return RowName(key, hour, hour + 1)


def held(rows: dict[tuple[str, int], bytes], shown: bool = False) -> list[PlaceRow]:
    """Rows as a place gives them; of the output what users see, which here is hex."""
    made = [
        PlaceRow(zlib.crc32(key.encode()) % SHARDS, name_of(key, hour), hexed(value) if shown else value)
        for (key, hour), value in rows.items()
    ]
    return sorted(made)


def hexed(value: bytes) -> bytes:
    return value.hex().encode()


def hash_of(name: RowName, value: bytes) -> int:
    return zlib.crc32(repr((name, value)).encode())


def compare(places: dict[str, list[PlaceRow]], **options: list[str]) -> list[RowDifference]:
    judge = RowComparison(dict.fromkeys(places, EVERYTHING), hexed, **options)
    found = (judge.difference(*row) for row in side_by_side(places))
    return [one for one in found if one is not None]


@given(ROWS)
def test_equal_places_have_no_difference_and_equal_digests(rows: dict[tuple[str, int], bytes]) -> None:
    """Whatever the rows are, and although the output holds another form of them."""
    places = {place: held(rows, shown=place == OUTPUT) for place in (CHANGELOG, VIEW, STATE, OUTPUT)}
    assert compare(places) == []
    assert differing_shards(sum_by_shard(places[CHANGELOG], hash_of), sum_by_shard(places[VIEW], hash_of)) == set()
    assert total(sum_by_shard(places[CHANGELOG], hash_of)).rows == len(rows)


@given(
    ROWS,
    st.data(),
    st.sampled_from([CHANGELOG, VIEW, STATE, OUTPUT]),
    st.sampled_from(["changed", "lost", "added"]),
)
def test_any_damage_names_place_shard_and_key(
    rows: dict[tuple[str, int], bytes], data: st.DataObject, where: str, damage: str
) -> None:
    """One row changed, lost or added in one place: that row and that place, and only its shard differs."""
    at = data.draw(st.sampled_from(sorted(rows)))
    damaged = dict(rows)
    if damage == "changed":
        damaged[at] = rows[at] + b"!"
    elif damage == "lost":
        del damaged[at]
    else:
        at = ("new", 9)
        damaged[at] = b"x"
    places = {
        place: held(damaged if place == where else rows, shown=place == OUTPUT)
        for place in (CHANGELOG, VIEW, STATE, OUTPUT)
    }
    [found] = compare(places)
    assert (found.name, found.suspects) == (name_of(*at), (where,))
    shown = OUTPUT if where == OUTPUT else VIEW
    sound = held(rows, shown=shown == OUTPUT)
    assert differing_shards(
        sum_by_shard(held(damaged, shown=shown == OUTPUT), hash_of), sum_by_shard(sound, hash_of)
    ) == {found.shard}


def test_of_two_places_the_changelog_is_believed() -> None:
    """Without a majority the reference is right: milestones prove it."""
    found = compare({CHANGELOG: held({("a", 1): b"1"}), VIEW: held({("a", 1): b"2"})})
    assert [one.suspects for one in found] == [(VIEW,)]
    assert odd_ones({CHANGELOG: b"1", VIEW: b"2", OUTPUT: b"2"}) == (CHANGELOG,)
    assert odd_ones({CHANGELOG: b"1", VIEW: b"2", OUTPUT: b"2", STATE: b"1"}) == (VIEW, OUTPUT)


def test_a_place_is_asked_for_its_own_windows_only() -> None:
    """Spark's state has open windows, finals have closed ones, and nothing is below the horizon."""
    at = replace(milestone(9), watermark_ms=500, horizon_ms=100, floor_ms=300)
    assert scope_of(VIEW, at) == scope_of(OUTPUT, at) == Scope(100)
    assert scope_of(STATE, at) == Scope(300)
    assert scope_of(OUTPUT, at, "final") == Scope(100, 500)
    scopes = {CHANGELOG: Scope(100), STATE: Scope(500)}
    judge = RowComparison(scopes, hexed)
    assert judge.difference(0, RowName("a", 400, 500), {CHANGELOG: b"1"}) is None
    assert judge.difference(0, RowName("a", 401, 501), {CHANGELOG: b"1"}) is not None
    assert judge.difference(0, RowName("a", 50, 100), {STATE: b"1"}) is None


def test_an_output_whose_retention_took_records_is_not_blamed_for_what_is_gone() -> None:
    """What it still holds is compared."""
    rows = {("a", 1): b"1", ("b", 1): b"2"}
    kept = held({("b", 1): b"3"}, shown=True)
    found = compare({CHANGELOG: held(rows), OUTPUT: kept}, forgetful=[OUTPUT])
    assert [one.name.key for one in found] == ["b"]


def test_damaged_bytes_are_a_difference_and_no_error() -> None:
    """A value that cannot be decoded is shown in hex, with the reason."""

    def shown(value: bytes) -> bytes:
        if value == b"\xff":
            raise ValueError("cut short")
        return hexed(value)

    judge = RowComparison({CHANGELOG: EVERYTHING, VIEW: EVERYTHING, OUTPUT: EVERYTHING}, shown)
    found = judge.difference(0, name_of("a", 1), {CHANGELOG: b"1", VIEW: b"\xff", OUTPUT: hexed(b"1")})
    assert found is not None
    assert found.suspects == (VIEW,)
    assert found.values[VIEW] == "ff (cut short)"


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([Verdict.EQUAL, Verdict.SKIPPED], 0),
        ([Verdict.EQUAL, Verdict.DIFFERENT, Verdict.UNKNOWN], 1),
        ([Verdict.EQUAL, Verdict.UNKNOWN], 4),
    ],
)
def test_the_exit_code_says_the_worst_that_is_known(verdicts: list[Verdict], code: int) -> None:
    """A difference is worse than a place that could not be asked."""
    assert exit_code(Answer("view", one) for one in verdicts) == code


@pytest.mark.parametrize(
    ("changelog", "rows", "corrected"),
    [(Verdict.EQUAL, 3, True), (Verdict.EQUAL, 0, False), (Verdict.DIFFERENT, 3, False)],
)
def test_an_output_is_corrected_from_a_proved_changelog_only(
    changelog: Verdict, rows: int, corrected: bool
) -> None:
    """Without a row that differs only end markers are wrong, which no correction changes."""
    answers = [Answer(CHANGELOG, changelog), Answer(OUTPUT, Verdict.DIFFERENT, differences=rows)]
    assert output_can_be_corrected(answers) is corrected
    told = [one for one in next_steps(answers) if one.startswith("output:")]
    assert [("--repair" in one, "no correction" in one) for one in told] == (
        [(corrected, not corrected)] if changelog is Verdict.EQUAL else []
    )


@pytest.mark.parametrize(
    ("verdicts", "steps"),
    [
        ({CHANGELOG: Verdict.EQUAL, VIEW: Verdict.EQUAL}, ()),
        ({CHANGELOG: Verdict.EQUAL, VIEW: Verdict.DIFFERENT}, ("view",)),
        ({CHANGELOG: Verdict.DIFFERENT, VIEW: Verdict.DIFFERENT}, ("changelog",)),
        (
            {CHANGELOG: Verdict.EQUAL, VIEW: Verdict.UNKNOWN, STATE: Verdict.DIFFERENT, OUTPUT: Verdict.DIFFERENT},
            ("state", "output", "not compared"),
        ),
    ],
)
def test_each_verdict_has_its_next_step(verdicts: dict[str, Verdict], steps: tuple[str, ...]) -> None:
    """A view is built anew from a changelog that proves its rows, and from no other."""
    answers = [Answer(place, verdict) for place, verdict in verdicts.items()]
    assert tuple(one.partition(":")[0] for one in next_steps(answers)) == steps
    assert view_can_be_rebuilt(answers) == (steps == ("view",))


def test_a_scope_holds_what_ends_behind_its_bound_up_to_the_other_one() -> None:
    """The lower bound is outside, the upper one inside; a place's own bound only raises the lower one."""
    ends = (3, 4, 5, 6)

    def inside(scope: Scope) -> list[int]:
        return [hour for hour in ends if scope.holds(0, name_of("k", hour - 1))]

    assert inside(Scope(3, 5)) == [4, 5]
    assert inside(Scope(3)) == [4, 5, 6]
    assert inside(Scope(3).narrowed(None, None, None)) == [4, 5, 6]
    assert inside(Scope(3).narrowed(None, 4, None)) == [5, 6]
    assert inside(Scope(3).narrowed(None, 1, None)) == [4, 5, 6]


def test_a_scope_ends_with_its_last_window() -> None:
    """The upper bound counts, the lower one does not."""
    scope = Scope(1, up_to_ms=3)
    assert [scope.holds(0, name_of("a", hour)) for hour in range(4)] == [False, True, True, False]


def test_a_scope_takes_the_higher_lower_bound() -> None:
    assert Scope(5).narrowed(None, 7, None).above_ms == 7
    assert Scope(5).narrowed(None, 3, None).above_ms == 5
    assert Scope(5).narrowed(frozenset({2}), None, None) == Scope(5, shards=frozenset({2}))
