"""What a generation's job may differ in, and how its parent's rows become seeds: plain values, and a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.sketches import HllSketches
from cutwater.core.errors import UsageError
from cutwater.core.events.key_columns import KeyColumn
from cutwater.core.events.rejection import MAX_EVENT_BYTES
from cutwater.core.generations.job_change import JobChange, compare_jobs, complete_from_ms
from cutwater.core.generations.measure_change import Fate
from cutwater.core.generations.seed_change import SeedRow, same_row
from cutwater.core.job.columns import ComputedColumn, Transform
from cutwater.core.job.derived_values import derived_measure
from cutwater.core.job.job import Job, Output
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import DOUBLE, LONG, FieldType, Measure, row_merge
from cutwater.core.job.shards import ShardMap
from cutwater.core.job.windows import WindowSpec
from support.protocol_samples import milestone

INT = FieldType("int")
PARENT = milestone(5)


def measure(name: str, kind: str = "count", field: str | None = None, of: FieldType = INT) -> Measure:
    return build(name, kind, field, of if field else None, HllSketches())


N, TOTAL, MOST = measure("n"), measure("total", "sum", "v"), measure("most", "max", "v")


def job(*measures: Measure, **changes: Any) -> Job:
    made = Job(
        name="flights",
        topic="flights.events",
        event_schema={},
        key_field="k1",
        time_field="at",
        time_micros=False,
        window=WindowSpec(60, 60),
        lateness_ms=0,
        retention_ms=1_000,
        shards=ShardMap(),
        measures=measures or (N, TOTAL),
        max_ahead_ms=500,
        max_event_bytes=MAX_EVENT_BYTES,
        max_events_per_epoch=1,
        shuffle_partitions=1,
    )
    return replace(made, **changes)


def keyed(*names: str, nullable: bool = False) -> dict[str, Any]:
    return {"key_field": "", "key_columns": tuple(KeyColumn(one, "string", nullable) for one in names)}


def fates(found: JobChange) -> dict[str, Fate]:
    return {one.name: one.fate for one in found.measures}


def test_the_same_job_is_carried_over_whole() -> None:
    found = compare_jobs(job(), job())
    assert fates(found) == {"n": Fate.CARRIED, "total": Fate.CARRIED}
    assert (found.parts, found.obstacles, found.has_new, found.changes_rows) == ((), [], False, False)
    assert found.seeds.is_none


def test_measures_are_carried_renamed_added_removed_and_replaced() -> None:
    """Each by its definition, whatever its place in the job file."""
    before = job(N, TOTAL, MOST, measure("least", "min", "v"))
    sums = replace(measure("sums", "sum", "v"), renamed_from="total")
    after = job(MOST, sums, measure("least", "min", "w"), measure("fresh"), N)
    found = compare_jobs(before, after)
    assert fates(found) == {
        "most": Fate.CARRIED,
        "sums": Fate.RENAMED,
        "least": Fate.REPLACED,
        "fresh": Fate.ADDED,
        "n": Fate.CARRIED,
    }
    assert found.obstacles == []
    assert found.seeds.columns == (
        ("most", "most"),
        ("sums", "total"),
        ("least", None),
        ("fresh", None),
        ("n", "n"),
    )
    assert fates(compare_jobs(after, before))["total"] is Fate.ADDED, (
        "the other way nothing says that it is the same"
    )
    assert fates(compare_jobs(before, job(N)))["most"] is Fate.REMOVED


def test_a_rename_that_has_happened_has_no_effect_any_more() -> None:
    """The job file keeps `renamed_from`; the next generation's parent has the new name already."""
    after = job(N, replace(measure("sums", "sum", "v"), renamed_from="total"))
    assert fates(compare_jobs(after, after)) == {"n": Fate.CARRIED, "sums": Fate.CARRIED}


def test_two_measures_that_swap_their_names_swap_their_values() -> None:
    one, two = measure("one", "sum", "v"), measure("two", "max", "v")
    swapped = (
        replace(measure("one", "max", "v"), renamed_from="two"),
        replace(measure("two", "sum", "v"), renamed_from="one"),
    )
    found = compare_jobs(job(one, two), job(*swapped))
    assert fates(found) == {"one": Fate.RENAMED, "two": Fate.RENAMED}
    assert found.seeds.columns == (("one", "two"), ("two", "one"))
    taken = compare_jobs(job(one), job(replace(measure("other", "sum", "v"), renamed_from="one"), measure("one")))
    assert fates(taken) == {"other": Fate.RENAMED, "one": Fate.ADDED}


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (replace(measure("sums", "sum", "v"), renamed_from="nothing"), "is no measure of the parent, which has n"),
        (replace(measure("sums", "max", "v"), renamed_from="total"), "was a sum and is a max"),
        (replace(measure("sums", "sum", "w"), renamed_from="total"), "computed from something else (v before)"),
        (replace(measure("peak", "max", "v", DOUBLE), renamed_from="most"), "has another type"),
    ],
)
def test_a_rename_of_something_else_is_not_possible(wanted: Measure, says: str) -> None:
    found = compare_jobs(job(N, TOTAL, MOST), job(N, wanted))
    assert any(says in one for one in found.obstacles), found.obstacles
    with pytest.raises(UsageError, match="cannot differ so"):
        found.require_possible()


def test_a_type_with_the_name_of_its_measure_is_the_same_under_another_name() -> None:
    """The records of `first` and `top` have names made of the measure's."""
    for kind in ("first", "last", "distinct", "variance", "avg"):
        before, after = measure("one", kind, "v"), measure("two", kind, "v")
        found = compare_jobs(job(before), job(replace(after, renamed_from="one")))
        assert fates(found) == {"two": Fate.RENAMED}, kind


def test_derived_values_have_no_state() -> None:
    after = job(N, TOTAL, derived_measure("mean", "total / n", {"n": N, "total": TOTAL}))
    found = compare_jobs(job(), after)
    assert fates(found)["mean"] is Fate.DERIVED
    assert not found.changes_rows
    assert compare_jobs(after, job()).obstacles == []


FIXED = {
    "name": "others",
    "topic": "other.events",
    "time_field": "t",
    "shards": ShardMap(512),
    "upstream": "before",
    "output": Output("final"),
    "transform": Transform("m:f", (), (), "", ()),
}


@pytest.mark.parametrize("field", FIXED)
def test_what_no_generation_may_differ_in(field: str) -> None:
    found = compare_jobs(job(), job(**{field: FIXED[field]}))
    assert found.obstacles, field
    assert all("start a new job" in one for one in found.obstacles)


SETTINGS = {"lateness_ms": 7, "retention_ms": 7, "amend_for_ms": 7, "event_schema": {"fields": []}}


@pytest.mark.parametrize("field", ["lateness_ms", "retention_ms", "amend_for_ms"])
def test_settings_leave_the_rows_as_they_are(field: str) -> None:
    found = compare_jobs(job(), job(**{field: SETTINGS[field]}))
    assert len(found.parts) == 1
    assert (found.obstacles, found.has_new, found.changes_rows) == ([], False, False)


def test_what_decides_which_events_count_is_complete_from_window_x_on() -> None:
    """Also of carried measures. An event that a filter left out is in no row: its time has a looser bound."""
    column = ComputedColumn("w", "v + 1", INT)
    for changes in ({"where": "v > 0"}, {"columns": (column,)}):
        found = compare_jobs(job(), job(**changes))
        assert found.has_new
        assert found.obstacles == []
        assert complete_from_ms(found, job(), job(), PARENT, 125) == 180
    filtered = job(where="v > 0")
    found = compare_jobs(filtered, job())
    bound = PARENT.written_ms + 500 + 1
    assert complete_from_ms(found, filtered, job(), PARENT, 125) == -(-bound // 60) * 60
    added = job(N, TOTAL, MOST, where="v > 0")
    found = compare_jobs(filtered, added)
    assert complete_from_ms(found, filtered, added, PARENT, 120) == 120, "neither counts what the filter left out"


def test_nothing_new_is_complete_from_the_beginning() -> None:
    found = compare_jobs(job(), job(N))
    assert complete_from_ms(found, job(), job(N), PARENT, 125) == 0


def test_windows_of_the_same_or_larger_panes_are_possible_and_no_others() -> None:
    sliding = job(window=WindowSpec(60, 20))
    assert compare_jobs(sliding, job(window=WindowSpec(100, 20))).obstacles == []
    assert not compare_jobs(sliding, job(window=WindowSpec(100, 20))).seeds.merges
    assert compare_jobs(sliding, job()).seeds.merges
    assert compare_jobs(sliding, job()).obstacles == []
    assert "cannot be divided" in compare_jobs(job(), sliding).obstacles[0]
    assert "cannot be divided" in compare_jobs(job(), job(window=WindowSpec(90, 90))).obstacles[0]


def test_keys_that_the_parents_rows_tell_are_possible_and_no_others() -> None:
    before = job(**keyed("k1", "k2"))
    assert compare_jobs(before, job(**keyed("k2"))).seeds.key == (1,)
    assert compare_jobs(before, job(**keyed("k2", "k1"))).seeds.key == (1, 0)
    assert compare_jobs(before, job(**keyed())).seeds.key == ()
    assert compare_jobs(before, job()).seeds.key == (0,)
    assert compare_jobs(job(), job(**keyed("k1"))).seeds.key == (0,)
    assert "'k3' is no part" in compare_jobs(before, job(**keyed("k1", "k3"))).obstacles[0]
    nullable = job(**keyed("k1", "k2", nullable=True))
    assert "may be null" in compare_jobs(nullable, job()).obstacles[0]
    assert "may be null" in compare_jobs(nullable, job(**keyed("k1"))).obstacles[0]
    assert compare_jobs(nullable, job(**keyed("k1", nullable=True))).obstacles == []
    numbers = {"key_field": "", "key_columns": (KeyColumn("k1", "long"),)}
    assert "was a string and is a long" in compare_jobs(before, job(**numbers)).obstacles[0]


def test_rows_that_cannot_be_merged_by_the_query_refuse_a_coarser_key() -> None:
    """Their SQL over seeds is right for one seed a row."""
    top = build("labels", "top", "k1", FieldType("string"), HllSketches(), items=3)
    spread = measure("spread", "variance", "v", DOUBLE)
    for one in (top, spread):
        before = job(N, one, **keyed("k1", "k2"))
        assert f"a {one.kind} cannot be merged" in compare_jobs(before, job(N, one, **keyed("k1"))).obstacles[0]
        assert compare_jobs(before, job(N, **keyed("k1"))).obstacles == []
    exact = measure("spread", "variance", "v", LONG)
    assert compare_jobs(job(exact, **keyed("k1", "k2")), job(exact, **keyed("k1"))).obstacles == []


class Event(NamedTuple):
    at: int
    k1: str
    k2: str
    v: int


EVENTS = st.lists(
    st.builds(
        Event,
        st.integers(0, 600),
        st.sampled_from(["a", 'q"', "\x1f", "größe"]),
        st.sampled_from(["x", ""]),
        st.integers(-5, 5),
    ),
    max_size=25,
)
KEYS: list[dict[str, Any]] = [{}, keyed("k1", "k2"), keyed("k2", "k1"), keyed("k2"), keyed()]
Rows = dict[SeedRow, dict[str, Any]]


def rows(events: Sequence[Event], of: Job) -> Rows:
    """The state over these events: panes of the job, with its measures."""
    found: Rows = {}
    pane, merge = of.row_windows.size_ms, row_merge(of.measures)
    for one in events:
        key = of.key_of(one._asdict())
        place = SeedRow(key, one.at // pane * pane, one.at // pane * pane + pane)
        value = {"n": 1, "total": one.v, "most": one.v}
        own = {partial.column: value[partial.column] for each in of.measures for partial in each.partials}
        found[place] = merge(found[place], own) if place in found else own
    return found


@given(
    below=EVENTS,
    above=EVENTS,
    keys=st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)),
    panes=st.sampled_from([(20, 20), (20, 60), (20, 100), (60, 60)]),
    horizon_ms=st.integers(0, 400),
    added=st.booleans(),
)
def test_seeds_and_later_events_together_are_all_the_events(
    below: list[Event],
    above: list[Event],
    keys: tuple[dict[str, Any], dict[str, Any]],
    panes: tuple[int, int],
    horizon_ms: int,
    added: bool,
) -> None:
    """Above the new horizon every carried measure is exact, and from window X on every measure."""
    before = job(N, TOTAL, window=WindowSpec(panes[0], panes[0]), **keys[0])
    after = job(*([MOST] if added else []), TOTAL, N, window=WindowSpec(panes[1], panes[1]), **keys[1])
    change = compare_jobs(before, after)
    if change.obstacles:
        assert change.seeds.key is None, "an impossible key has no places"
        return
    parents = {place: row for place, row in rows(below, before).items() if place.end_ms > horizon_ms}
    newest = max((place.end_ms for place in parents), default=0)
    x = complete_from_ms(change, before, after, PARENT, newest)
    floor_ms = change.seeds.horizon_ms(horizon_ms)
    assert floor_ms >= horizon_ms
    merge = row_merge(after.measures)

    def changed(row: dict[str, Any]) -> dict[str, Any]:
        return {new: None if old is None else row[old] for new, old in change.seeds.columns}

    state: Rows = {}
    for place, row in parents.items():
        new = change.seeds.place(place)
        if new.end_ms > floor_ms:
            state[new] = merge(state[new], changed(row)) if new in state else changed(row)
    for place, row in rows(above, after).items():
        if place.end_ms > floor_ms:
            state[place] = merge(state[place], row) if place in state else row
    expected = {p: row for p, row in rows([*below, *above], after).items() if p.end_ms > floor_ms}
    assert state.keys() == expected.keys()
    for place, row in expected.items():
        new_too = row.keys() if place.start_ms >= x else {"n", "total"}
        assert {name: state[place][name] for name in new_too} == {name: row[name] for name in new_too}, place
    assert not added or x >= newest, "no window from X on holds any event below the cut"


def test_a_row_is_the_same_if_only_what_is_new_has_no_value() -> None:
    """A new count is 0 of no events, as Spark writes it. A value of a new measure is news, also 0 of a sum."""
    buckets = build("sizes", "histogram", "v", INT, HllSketches(), bounds=(5.0,))
    after = job(replace(measure("sums", "sum", "v"), renamed_from="total"), measure("fresh"), MOST, buckets)
    same = same_row(compare_jobs(job(), after).seeds, after.measures)
    was = {"n": 3, "total": 7}
    row = {"sums": 7, "fresh": 0, "most": None, "sizes_0": 0, "sizes_1": None}
    assert same(was, row)
    for name, other in {"sums": 8, "fresh": 1, "most": 0, "sizes_1": 2}.items():
        assert not same(was, {**row, name: other}), name
    assert same({"n": 9, "total": float("nan")}, {**row, "sums": float("nan")})
