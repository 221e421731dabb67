"""A changelog whose records or whose topic somebody deleted: every way to read it stops, and names the gap."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka import admin
from cutwater.adapters.topics.alerts import read_alerts
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.core.errors import DivergenceError
from cutwater.core.monitoring.alerts import DIVERGENCE, VIEW
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.state.backlog import Entry, Step
from cutwater.views.changelog.milestone_rows import Updates
from cutwater.views.changelog.range_reader import Ranges
from support.views.changelogs import GENERATION, Following, Writing, encoded, following, make_job, now_ms, until
from support.views.rehydrating import running
from support.views.ways import WAYS, Way, every_way, sales
from support.waits import wait_until


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    # Of a topic that is compacted only, brokers let nobody delete records: so somebody has changed that first.
    one = Writing(broker.cluster, make_job(tmp_path)[0], **{"cleanup.policy": "compact,delete"})
    yield one
    one.close()


def truncate(writing: Writing, partition: int, first: int) -> None:
    """Delete the records of a partition below an offset."""
    client = AdminClient(writing.cluster.librdkafka())
    (asked,) = client.delete_records([Position(writing.topic, partition, first)]).values()
    assert asked.result(20).low_watermark == first


def recreate(writing: Writing) -> None:
    """The changelog, deleted and made anew: empty."""
    owned = topics.generation_topics(writing.job.name, GENERATION, writing.job.shards.partitions)
    admin.delete_topics(writing.cluster, [writing.topic])
    admin.create_topics(writing.cluster, [one for one in owned if one.name == writing.topic])
    # A broker may take records into the deleted log for a moment.
    wait_until(lambda: not any(writing.ends().values()), "the new log is empty")


def stopped(view: Following, way: Way, writing: Writing) -> str:
    """Why: what was at hand is served, the alarm is raised, and nothing is shown that cannot be proved."""
    reason = view.wait_stopped()
    shown = view.view.milestone
    assert (shown.sequence if shown else 0) == way.shows
    if way.shows:
        assert view.rows() == (1, writing.by_sequence[1])
    assert view.seen.divergences == 1
    assert not view.view.ready
    return reason


def told(reason: str, topic: str) -> dict[int, tuple[int, int]]:
    """The gaps that it names: by partition, first and last offset."""
    assert reason.startswith(f"{topic}: ")
    found = re.findall(r"partition (\d+) (?:begins|ends) at \d+: offsets? (\d+)(?: to (\d+))?", reason)
    return {int(at): (int(first), int(last or first)) for at, first, last in found}


@pytest.mark.variations
@every_way
def test_deleted_records_stop_the_view_with_the_exact_gap(writing: Writing, tmp_path: Path, way: Way) -> None:
    """Records of one partition were deleted past what the view had read: those and no others are named."""
    way.begin(writing, tmp_path)
    before = dict(writing.ends())
    writing.epoch(sales(1))
    writing.epoch(sales(2))
    lost = before[1] + 7
    truncate(writing, 1, lost)
    with way.go_on(writing, tmp_path) as view:
        reason = stopped(view, way, writing)
    assert told(reason, writing.topic) == {1: (before[1] if way.shows else 0, lost - 1)}
    assert f"begins at {lost}" in reason


@pytest.mark.variations
@every_way
def test_records_deleted_below_what_is_read_change_nothing(writing: Writing, tmp_path: Path, way: Way) -> None:
    """What a view or its snapshot holds already may go; a view that begins without needs it."""
    way.begin(writing, tmp_path)
    truncate(writing, 1, writing.ends()[1])
    last = writing.epoch(sales(1)).sequence
    with way.go_on(writing, tmp_path) as view:
        if way.shows:
            view.wait_for(last)
            assert view.rows() == (last, writing.by_sequence[last])
        else:
            stopped(view, way, writing)


@pytest.mark.variations
@every_way
def test_a_shorter_topic_made_anew_stops_the_view_with_the_exact_gap(
    writing: Writing, tmp_path: Path, way: Way
) -> None:
    """It ends below the cut: no open transaction hides that, and it will not come however long one waits."""
    way.begin(writing, tmp_path)
    milestone = writing.epoch(sales(1))
    ends = {place.partition: end for place, end in milestone.changelog_cut}
    recreate(writing)
    writing.rows(sales(0)[:6], epoch=0)
    there = writing.ends()
    with way.go_on(writing, tmp_path) as view:
        reason = stopped(view, way, writing)
    assert told(reason, writing.topic) == {at: (there[at], ends[at] - 1) for at in ends}


@pytest.mark.variations
@every_way
def test_another_topic_that_is_as_long_stops_the_view(writing: Writing, tmp_path: Path, way: Way) -> None:
    """No offset is missing, and the rows are not those that the milestone proves."""
    way.begin(writing, tmp_path)
    before = dict(writing.ends()) if way.shows else dict.fromkeys(writing.ends(), 0)
    writing.epoch(sales(1))
    recreate(writing)
    writing.rows(sales(7), epoch=0)
    writing.rows(sales(8), epoch=1)
    with way.go_on(writing, tmp_path) as view:
        reason = stopped(view, way, writing)
    assert "milestone g1-local-00000000:2" in reason
    assert "Rows were lost, changed or added" in reason
    for at, end in writing.ends().items():
        assert f"{writing.topic}/{at}, offsets {before[at]} to {end - 1}: " in reason


@pytest.mark.variations
@every_way
def test_a_row_that_is_lost_is_told_with_its_partition(writing: Writing, tmp_path: Path, way: Way) -> None:
    """The rows of the others are as the milestone says, so they are not named."""
    way.begin(writing, tmp_path)
    before = dict(writing.ends())
    rows = sales(1)
    lost = next(one for one in rows if writing.partition(one.shop) == 2)
    written = [encoded(writing.job, one) for one in rows]
    writing.rows([one for one in rows if one is not lost], epoch=1)
    milestone = writing.milestone(rows, written)
    with way.go_on(writing, tmp_path) as view:
        _names_partition_2(stopped(view, way, writing), writing, before if way.shows else None)
    ranges = Ranges(writing.cluster, writing.topic, stall_s=1.0)
    step = Step(Entry(milestone, protocol_records.encode(milestone), 0))
    with closing(ranges), pytest.raises(DivergenceError) as raised:
        list(Updates(writing.job, ranges, now_ms).rows(step, Cut.of_topic(writing.topic, before.values())))
    _names_partition_2(str(raised.value), writing, before)


def _names_partition_2(reason: str, writing: Writing, before: Mapping[int, int] | None) -> None:
    assert writing.last is not None
    first, end, rows = before[2] if before else 0, writing.ends()[2], writing.last.partition_rows[2]
    assert re.findall(rf"{writing.topic}/(\d+), offsets (\d+) to (\d+): (\d+) rows", reason) == [
        ("2", str(first), str(end - 1), str(rows - 1))
    ]
    assert f"and the milestone says {rows} with digest" in reason


RESTORES = {name: way for name, way in WAYS.items() if way.jump or not way.shows}
"""The ways that take every row below a cut."""


@pytest.mark.variations
@pytest.mark.parametrize("way", RESTORES.values(), ids=RESTORES)
def test_another_topic_stops_a_restore_to_a_milestone_without_rows(
    writing: Writing, tmp_path: Path, way: Way
) -> None:
    """Its generation has filled it, to the same length, and there is no row to prove: the topic's id shows it."""
    way.begin(writing, tmp_path)
    places = [TopicPartition(writing.topic, at) for at in writing.ends()]
    writing.epoch((), evidence=LogCheck(writing.cluster).read_state(places).evidence)
    before = writing.ends()
    recreate(writing)
    writing.rows(sales(7), epoch=0)
    assert writing.ends() == before
    with way.go_on(writing, tmp_path) as view:
        reason = stopped(view, way, writing)
    assert f"{writing.topic} was deleted and recreated (its topic id is " in reason
    lost = [f"offsets 0 to {end - 1} of partition {at}" for at, end in before.items()]
    assert f"{', '.join(lost)} are gone or are other records now" in reason


def test_a_topic_made_anew_under_a_running_view(writing: Writing, tmp_path: Path) -> None:
    """It keeps its connections, and is told by the next milestone at the latest."""
    way = WAYS["a view that follows"]
    milestone = writing.epoch(sales(0))
    with following(writing.cluster, writing.job, tmp_path / "one", stall_s=1.0) as view:
        view.wait_for(milestone.sequence)
        recreate(writing)
        rows = sales(1)[:9]
        written = writing.rows(rows, epoch=1)
        there = writing.ends()
        ends = {place.partition: end + 3 for place, end in milestone.changelog_cut}
        cut = Cut.of_topic(writing.topic, [ends[at] for at in sorted(ends)])
        writing.milestone(rows, written, changelog_cut=cut)
        reason = stopped(view, way, writing)
    assert told(reason, writing.topic) == {at: (there[at], ends[at] - 1) for at in ends}


@pytest.mark.slow
def test_the_service_serves_on_and_raises_the_alarm(writing: Writing, tmp_path: Path) -> None:
    """The last good milestone is answered, /readyz says the gap, metric and alert topic have it."""
    first = writing.epoch(sales(0))
    place = (writing.cluster, tmp_path / f"{writing.job.name}.yaml", tmp_path / "data")
    with running(*place) as one:
        until(lambda: one.answers() and one.shown() == first.sequence, "the first milestone")
    lost = writing.ends()[2]
    writing.epoch(sales(1))
    truncate(writing, 2, lost + 4)
    with running(*place) as one:
        until(lambda: one.answers() and one.get("/readyz").status_code == 503, "the view to stop")
        answer = one.get("/readyz").json()
        assert answer["status"] == "stopped"
        assert f"partition 2 begins at {lost + 4}: offsets {lost} to {lost + 3} were deleted" in answer["reason"]
        assert one.shown() == 1
        assert one.pieces("s7") == [writing.by_sequence[1]["s7", 2 * 3_600_000]]
        assert "cutwater_view_divergences_total 1.0" in one.get("/metrics").text
        until(lambda: (DIVERGENCE, VIEW) in read_alerts(writing.cluster, writing.job.name), "the alert")
        assert (
            f"offsets {lost} to {lost + 3}"
            in read_alerts(writing.cluster, writing.job.name)[DIVERGENCE, VIEW].text
        )
