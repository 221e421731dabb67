"""Regions, recovery, rejected events, keys and windows: each a plain document made of records."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.console import hot_keys, recovery_page, region_table, rejected_page
from cutwater.core.console.key_windows import chart, milliseconds_of, window_differences
from cutwater.core.driver.rejected_events import Choice, EventPosition, LatePair, Letter, Listed
from cutwater.core.mirror.replica_lag import SafeTime
from cutwater.core.protocol.mirror_records import Mirrored, Steering
from cutwater.core.state.point_in_time_restore import RestorableSnapshot
from support.cli.verb_records import LETTERS
from support.console.sample_job import JOB_FILE, ConstructedReader
from support.protocol_samples import GENERATION, JOB, OTHER, milestone
from support.regions.mirror_samples import golden_mirror_record

MIRRORED: Any = golden_mirror_record("mirrored")


def test_a_region_has_its_topics_with_the_slowest_partition() -> None:
    safe = SafeTime("us", None, None, None, None, None, None, None, 0, 0.0, None)
    behind = replace(MIRRORED, partition=3, source_ms=MIRRORED.source_ms - 500, records=0)
    found = region_table.regions(
        "eu", [(safe, Steering(JOB, "us", True, 1))], {"us": [MIRRORED, behind]}, {"us": {"flights.events": 7}}
    )
    (one,) = found["replicas"]
    assert (one["paused"], one["resyncs"]) == (True, [{"topic": "flights.events", "at_ms": 7}])
    (topic,) = one["topics"]
    assert (topic["partitions"], topic["slowest_partition"], topic["slowest_ms"]) == (2, 3, None)
    assert topic["records"] == MIRRORED.records
    assert region_table.regions("eu", [], {}, {}) == {"region": "eu", "replicas": []}


@given(st.lists(st.booleans(), max_size=60))
def test_ranges_cover_exactly_the_restorable_milestones(kept: list[bool]) -> None:
    every = [replace(milestone(at), sequence=at + 1) for at in range(len(kept))]
    chosen = [one for one, is_kept in zip(every, kept, strict=True) if is_kept]
    found = recovery_page.ranges(chosen)
    assert sum(one["milestones"] for one in found) == len(chosen)
    covered = [
        number
        for one in found
        for number in range(int(one["first"].rpartition(":")[2]), int(one["last"].rpartition(":")[2]) + 1)
    ]
    assert covered == [one.sequence for one in chosen]


def test_ranges_end_with_a_generation() -> None:
    first, second = replace(milestone(0), sequence=1), replace(milestone(1), sequence=2, generation=OTHER)
    assert len(recovery_page.ranges([first, second])) == 2


def test_the_trail_is_newest_first_and_bounded() -> None:
    every = list(ConstructedReader().trail())
    assert [one["service"] for one in recovery_page.trail(every)] == ["driver", "rehydrator"]
    assert len(recovery_page.trail(every, 1)) == 1
    assert recovery_page.trail(every, 0) == []


def test_a_snapshot_in_two_places_is_shown_once() -> None:
    one = RestorableSnapshot(replace(milestone(0), sequence=1), 3, 40)
    later = RestorableSnapshot(replace(milestone(1), sequence=2), 3, 40)
    found = recovery_page.snapshots([one, later, one])
    assert [each["token"] for each in found] == [f"{GENERATION}:2", f"{GENERATION}:1"]


@given(st.lists(st.sampled_from([("undecodable", None), ("invalid", "a"), ("invalid", "b")]), max_size=120))
def test_counts_by_reason_add_up(reasons: list[tuple[str, str | None]]) -> None:
    letters = [
        replace(LETTERS[0], reason=reason, field=field, event=EventPosition("t", 0, at))
        for at, (reason, field) in enumerate(reasons)
    ]
    found = rejected_page.dead_letters_page(Choice(letters, []), show_payloads=True)
    assert sum(one["count"] for one in found["reasons"]) == found["total"] == len(reasons)
    assert len(found["samples"]) == min(rejected_page.SAMPLES_MAX, len(reasons))
    json.dumps(found, allow_nan=False)


def test_payloads_that_must_not_be_shown_are_not() -> None:
    """Neither the event's bytes nor the names of a map in the path of a flaw."""
    letter = Letter(
        EventPosition("t", 0, 1),
        Listed(GENERATION, 1, 2),
        "invalid",
        b"K",
        9,
        1,
        None,
        (0, 0),
        "m['secret']",
        "r",
        b"s3",
    )
    hidden = json.dumps(rejected_page.dead_letters_page(Choice([letter], []), show_payloads=False))
    assert "secret" not in hidden
    assert "s3" not in hidden
    assert "secret" in json.dumps(rejected_page.dead_letters_page(Choice([letter], []), show_payloads=True))


@given(st.lists(st.integers(0, 10**9), max_size=80))
def test_late_events_are_counted_by_delay(delays: list[int]) -> None:
    by = Listed(GENERATION, 1, 2)
    pairs = [LatePair(EventPosition("t", 0, at), by, "K", 0, 100, 50, 100 + ms) for at, ms in enumerate(delays)]
    found = rejected_page.late_page(Choice(pairs, ["one is missing"]))
    assert sum(one["count"] for one in found["delays"]) == found["total"] == len(delays)
    assert found["problems"] == ["one is missing"]


def test_a_long_text_of_an_event_is_cut() -> None:
    letter = replace(LETTERS[0], key=b"k" * 5_000)
    found = rejected_page.dead_letters_page(Choice([letter], []), show_payloads=True)
    assert len(found["samples"][0]["key"]) == rejected_page.TEXT_MAX + 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9) | st.none()), max_size=40))
def test_the_ranking_adds_the_windows_of_a_key(rows: list[tuple[str, int | None]]) -> None:
    given_rows = [
        {"key": key, "window_start": f"2026-01-01T00:{at:02}:00Z", "n": value}
        for at, (key, value) in enumerate(rows)
    ]
    found = hot_keys.ranked(given_rows, "n")
    assert {one["key"]: one["value"] for one in found} == {
        key: sum(value for of, value in rows if of == key and value is not None)
        for key in {key for key, value in rows if value is not None}
    }
    assert [one["value"] for one in found] == sorted((one["value"] for one in found), reverse=True)


def test_the_measure_of_the_ranking_counts_all_events() -> None:
    job = load_job(JOB_FILE)
    assert hot_keys.ranking_measure(job) == "movements"
    assert hot_keys.ranking_measure(replace(job, measures=job.measures[1:])) == "delayed"
    assert hot_keys.ranking_measure(replace(job, measures=job.measures[2:])) is None


def test_a_census_has_bytes_by_shard() -> None:
    census = {"bytes": 10, "shards": [{"shard": 1, "bytes": 7}, {"shard": 9, "bytes": 3}], "largest_keys": []}
    assert hot_keys.bytes_by_shard(census, 4) == [0, 7, 0, 0]
    assert hot_keys.largest(None) is None
    shown = hot_keys.largest(census | {"largest_keys": [{"key": "a", "bytes": 5}]})
    assert shown is not None
    assert shown["keys"] == [{"key": "a", "bytes": 5, "per_mille": 500}]


def row(start: str, **measures: Any) -> dict[str, Any]:
    return {"key": "a", "window_start": start, "window_end": "2026-01-02T00:00:00Z", **measures}


def test_a_chart_has_the_measures_that_are_numbers() -> None:
    rows = [row("2026-01-01T00:00:00Z", n=1, text="x", is_on=True, of=None), row("2026-01-01T01:00:00Z", n=None)]
    found = chart(rows)
    assert found["series"] == {"n": [1, None]}
    assert found["others"] == ["text", "is_on", "of"]
    assert found["starts_ms"] == [milliseconds_of("2026-01-01T00:00:00Z"), milliseconds_of("2026-01-01T01:00:00Z")]
    assert chart([])["series"] == {}
    infinite = chart([row("2026-01-01T00:00:00Z", n="Infinity"), row("2026-01-01T01:00:00Z", n=2.5)])
    assert infinite["series"] == {"n": [None, 2.5]}
    assert chart([row("2026-01-01T00:00:00Z", carrier="UA", n=1)], ["carrier"])["others"] == []


ROWS = st.dictionaries(st.integers(0, 5), st.integers(0, 2))


@given(ROWS, ROWS)
def test_differences_are_exactly_what_differs(before: dict[int, int], after: dict[int, int]) -> None:
    old = [row(f"2026-01-01T0{at}:00:00Z", n=value) for at, value in before.items()]
    new = [row(f"2026-01-01T0{at}:00:00Z", n=value) for at, value in after.items()]
    found = window_differences(old, new)
    assert len(found) == len({at for at in {*before, *after} if before.get(at) != after.get(at)})
    assert window_differences(old, old) == []
    changed = [one for one in found if one["is"] == "changed"]
    assert all(values[0] != values[1] for one in changed for values in one["values"].values())


def test_times_beyond_the_calendar_are_numbers() -> None:
    assert milliseconds_of(10**16) == 10**16
    assert isinstance(MIRRORED, Mirrored)


def test_reads_stand_beside_events_and_bytes() -> None:
    """A key that is first somewhere is shown, with what is known of it."""
    reads = {"keys": [{"key": "a", "reads": 9}, {"key": "b", "reads": 1}]}
    ranking = [{"key": "c", "value": 50}, {"key": "a", "value": 40}]
    census = {"keys": [{"key": "b", "bytes": 7}]}
    found = hot_keys.beside_reads(reads, ranking, census)
    assert found == [
        {"key": "a", "reads": 9, "events": 40, "bytes": None},
        {"key": "b", "reads": 1, "events": None, "bytes": 7},
        {"key": "c", "reads": None, "events": 50, "bytes": None},
    ]
    assert hot_keys.beside_reads(reads, (), None, many=1) == [
        {"key": "a", "reads": 9, "events": None, "bytes": None}
    ]
