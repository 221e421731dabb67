"""The formula of `cutwater plan`, against arithmetic by hand and against its own limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.checks.acls import Acl
from cutwater.core.checks.capacity import (
    CUT_BYTES,
    HEADERS_BYTES,
    PROTOCOL_BYTES,
    RECORD_BYTES,
    Load,
    Sizes,
    doubts,
    estimate,
    row_bytes_of,
    sizes_of,
    touched,
)
from cutwater.core.checks.event_sample import RowSizes
from cutwater.core.checks.plan import merge_acls, size
from cutwater.core.job.measures import FieldType
from cutwater.core.job.measures import value as value_measure
from cutwater.core.job.windows import WindowSpec

HOUR = 3_600_000
FLIGHTS = load_job(Path(__file__).parents[4] / "deploy/jobs/flights.yaml")
JOB = replace(
    FLIGHTS,
    measures=FLIGHTS.measures[:1],
    window=WindowSpec(HOUR, HOUR),
    lateness_ms=2 * HOUR,
    retention_ms=10 * HOUR,
)


@given(st.integers(1, 10**9), st.floats(0, 1e9))
def test_no_more_keys_are_touched_than_there_are_keys_or_events(keys: int, events: float) -> None:
    """The number of keys that an epoch touches is bounded by both, and is zero without events."""
    found = touched(keys, events)
    assert 0 <= found <= min(keys, events) + 1e-6


def test_keys_touched_are_the_known_numbers() -> None:
    """One event touches one key; two of two keys touch 1.5 on average; very many touch all."""
    assert touched(10, 1) == pytest.approx(1)
    assert touched(2, 2) == pytest.approx(1.5)
    assert touched(100, 1e6) == pytest.approx(100)
    assert touched(1, 5) == 1
    assert (touched(0, 5), touched(5, 0)) == (0, 0)


def test_the_protocols_records_by_hand() -> None:
    """A barrier, a hint and a milestone an epoch, two of them with the cuts of all partitions."""
    load = Load(events_per_s=100, keys=1, event_bytes=80, epoch_s=0.5)
    found = estimate(JOB, load)
    partitions = load.source_partitions + JOB.shards.partitions
    assert found.protocol_write_bytes_per_s == pytest.approx(2 * (3 * PROTOCOL_BYTES + 2 * CUT_BYTES * partitions))
    assert found.protocol_disk_bytes_per_day == pytest.approx(found.protocol_write_bytes_per_s * 86_400)


def test_disk_on_the_cluster_grows_by_the_day_and_is_copied() -> None:
    """The state stands there once; closed rows and the protocol's records come with each day."""
    load = Load(events_per_s=100, keys=1, event_bytes=80, epoch_s=0.5)
    found = replace(
        estimate(JOB, load),
        changelog_disk_bytes=1_000.0,
        output_disk_bytes=200.0,
        closed_rows_bytes_per_day=30.0,
        protocol_disk_bytes_per_day=7.0,
    )
    assert found.disk_bytes(0, 1) == 1_200
    assert found.disk_bytes(10, 3) == 3 * (1_200 + 370)


def test_rates_by_hand() -> None:
    """With one key: one row an epoch; bytes are rows times bytes of a row; the source is read once."""
    load = Load(events_per_s=100, keys=1, event_bytes=80, epoch_s=0.5)
    found = estimate(JOB, load, Sizes(row=150, written=150, output=0), collect_share=0)
    assert found.rows_per_s == pytest.approx(2)
    assert found.changelog_write_bytes_per_s == pytest.approx(300)
    assert found.source_read_bytes_per_s == pytest.approx(100 * 100)
    # Ten hours of retention, two of lateness, and the window that is open.
    assert found.live_rows == pytest.approx(13)
    tombstones = 24 * 7 * 95
    assert found.changelog_disk_bytes == pytest.approx(300 * 86_400 + 13 * 150 * 2 + tombstones)
    written = found.changelog_write_bytes_per_s + found.protocol_write_bytes_per_s
    assert found.network_bytes_per_s(3) == pytest.approx(3 * written + 10_000 + 300)
    assert found.disk_bytes(0, 3) == pytest.approx(3 * found.changelog_disk_bytes)


def test_windows_behind_the_horizon_are_no_growth_where_they_are_cleared() -> None:
    """The more garbage may stand, the more disk; only where it is never cleared does the changelog grow."""
    load = Load(events_per_s=100, keys=1)
    often, half, never = (estimate(JOB, load, collect_share=share) for share in (0, 0.5, 1))
    assert often.changelog_disk_bytes < half.changelog_disk_bytes
    assert often.closed_rows_bytes_per_day == half.closed_rows_bytes_per_day == 0
    assert never.closed_rows_bytes_per_day == pytest.approx(24 * never.row_bytes)


def test_an_output_counts_with_what_its_mode_writes() -> None:
    """`none` writes nothing, `final` each row once, `updates` each change; its disk is its retention."""
    load = Load(events_per_s=100, keys=1)
    none, final, updates = (
        estimate(replace(JOB, output=replace(JOB.output, mode=mode)), load)
        for mode in ("none", "final", "updates")
    )
    assert none.output_disk_bytes == none.output_write_bytes_per_s == none.output_row_bytes == 0
    assert final.output_write_bytes_per_s == pytest.approx(final.output_row_bytes / 3_600)
    assert updates.output_write_bytes_per_s == pytest.approx(2 * updates.output_row_bytes)
    assert updates.output_disk_bytes == pytest.approx(updates.output_write_bytes_per_s * 7 * 86_400)


def test_a_bound_on_the_state_is_said_and_counted() -> None:
    """The disk of the view is bounded by it; where the state comes to more, a person is told."""
    load = Load(events_per_s=100, keys=1_000)
    free = estimate(JOB, load)
    for share, told in ((0.5, 1), (1.5, 0)):
        bounded = replace(JOB, max_bytes=int(free.view_bytes * share))
        found = estimate(bounded, load)
        assert len(doubts(bounded, found)) == told
        assert (found.local_disk_bytes < free.local_disk_bytes) == bool(told)
    assert doubts(JOB, free) == []


def test_sliding_windows_multiply_the_output_alone() -> None:
    """An event in six windows makes one row in the state, and six in the output."""
    load = Load(events_per_s=100, keys=1)
    sliding = replace(JOB, window=WindowSpec(HOUR, HOUR // 6))
    one, six = estimate(JOB, load), estimate(sliding, load)
    assert six.rows_per_s == pytest.approx(one.rows_per_s)
    assert six.output_write_bytes_per_s == pytest.approx(6 * one.output_write_bytes_per_s)
    assert six.live_rows == pytest.approx(one.live_rows * 6, rel=0.1)


@given(st.floats(1, 1e6), st.integers(1, 10**6), st.floats(1.1, 10))
def test_more_events_or_keys_never_add_less(events: float, keys: int, more: float) -> None:
    """Every figure grows with the load: no plan looks better for a larger job."""
    small = estimate(JOB, Load(events_per_s=events, keys=keys))
    for load in (
        Load(events_per_s=events * more, keys=keys),
        Load(events_per_s=events, keys=round(keys * more) + 1),
    ):
        large = estimate(JOB, load)
        for name, value in vars(small).items():
            assert vars(large)[name] >= value * 0.999999, name


def test_an_output_of_sliding_windows_has_each_once_where_it_has_only_final_ones() -> None:
    """The keys of an hour, every ten minutes."""
    load = Load(events_per_s=100, keys=10**6)
    sliding = replace(JOB, window=WindowSpec(HOUR, HOUR // 6), output=replace(JOB.output, mode="final"))
    found = estimate(sliding, load)
    rows_per_s = touched(10**6, 100 * 3_600) / 600
    assert found.output_write_bytes_per_s == pytest.approx(rows_per_s * found.output_row_bytes)


@pytest.mark.parametrize("form", ["avro", "json"])
def test_a_record_of_the_output_holds_its_key_twice(form: str) -> None:
    """As the key of the record, and as a field."""
    job = replace(JOB, output=replace(JOB.output, format=form))
    short, long = (sizes_of(job, RowSizes(key=count)).output for count in (20.0, 50.0))
    assert long - short == pytest.approx(2 * 30)


def test_a_row_is_written_as_large_as_it_stays_where_nothing_else_is_known() -> None:
    state, written = RowSizes(key=50.0), RowSizes(key=20.0)
    assert sizes_of(JOB, state).written == sizes_of(JOB, state).row == row_bytes_of(JOB, state)
    assert sizes_of(JOB, state, written).written == row_bytes_of(JOB, written)


def test_a_sketch_makes_a_row_larger_by_its_registers() -> None:
    """`distinct` counts with its whole sketch, other measures with a few bytes each."""
    assert row_bytes_of(JOB) < 200
    assert row_bytes_of(FLIGHTS) > 4_136
    assert row_bytes_of(FLIGHTS, RowSizes(key=3, sketches={"carriers": 40})) < 300


def test_rights_of_one_user_are_merged_by_resource() -> None:
    """Services that run as one user need each resource named once, with all operations."""
    listed = [
        Acl("driver", "topic", "t", ("Read", "Write")),
        Acl("signal", "topic", "t", ("Read",)),
        Acl("signal", "topic", "t", ("Read",), prefixed=True),
    ]
    assert [(one.name, one.operations, one.prefixed) for one in merge_acls(listed)] == [
        ("t", ("Read", "Write"), False),
        ("t", ("Read",), True),
    ]


def test_sizes_for_people() -> None:
    """Three digits and a unit."""
    assert [size(one) for one in (12, 1_500, 2.5e9, 7e15)] == ["12 B", "1.5 KB", "2.5 GB", "7,000 TB"]
    assert [size(one) for one in (999, 1_000, 1_000_000)] == ["999 B", "1 KB", "1 MB"]


def test_a_row_is_the_sum_of_its_parts() -> None:
    """A longer key makes a record longer by what it has more, and the table's largest unit goes on."""
    assert row_bytes_of(JOB, RowSizes(key=50.0)) - row_bytes_of(JOB, RowSizes(key=20.0)) == pytest.approx(30)
    assert row_bytes_of(JOB, RowSizes(key=0.0)) > RECORD_BYTES + HEADERS_BYTES
    assert (size(999), size(1_000), size(1e16)) == ("999 B", "1 KB", "10,000 TB")


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("boolean", 2),
        ("int", 4),
        ("float", 5),
        ("long", 6),
        ("double", 9),
        ("timestamp-millis", 9),
        ("decimal", 9),
        ("string", 3 + 2),
    ],
)
def test_a_value_takes_the_bytes_of_its_type(name: str, count: int) -> None:
    """A row with it is larger by that; of a text by its mean length in the sample, and its own length."""
    column = replace(value_measure("last", FieldType(name)), field="city")
    known = RowSizes(texts={"city": 3.0})
    one, more = (row_bytes_of(replace(JOB, measures=(column,) * times), known) for times in (1, 2))
    assert more - one == count


def test_a_load_that_nobody_knows_is_assumed_as_the_options_say() -> None:
    """1,000 events a second, each of 200 bytes and what Kafka adds to them."""
    assert estimate(JOB, Load()).source_read_bytes_per_s == pytest.approx(1_000 * (200 + RECORD_BYTES))
