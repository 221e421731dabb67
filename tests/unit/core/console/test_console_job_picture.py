"""What is known of one job: each record counts once, whatever was read before."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.console.job_picture import JobPicture
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.protocol.cuts import Cut
from support.protocol_samples import GENERATION, JOB, OTHER, milestone

EVERY = [
    replace(milestone(at), sequence=at + 1, committed_ms=1_000 * at, partition_rows=(at, 1), rows=at + 1)
    for at in range(20)
]


def picture() -> JobPicture:
    return JobPicture(JobStatus(JOB, GENERATION, committed=EVERY[-1]), shards=8)


@given(st.lists(st.integers(0, 20), max_size=4).map(sorted))
def test_history_and_live_records_overlap(cuts: list[int]) -> None:
    """The history is read while milestones come: wherever they meet, and however often, each counts once."""
    found = picture()
    for end in [*cuts, 20]:
        found.read_history(EVERY[:end])
    found.end_history()
    for one in EVERY[5:]:
        found.take_milestone(one)
    assert len(found.timeline) == 20
    assert found.reigns.by_id[GENERATION].milestones == 20
    assert sum(map(sum, found.writes.picture()["cells"])) == sum(one.rows for one in EVERY)


def test_only_the_present_generation_is_in_the_heat_map() -> None:
    found = picture()
    found.read_history([replace(one, generation=OTHER) for one in EVERY[:10]])
    found.end_history()
    assert found.writes.picture()["cells"] == []
    assert len(found.timeline) == 10


def test_the_first_milestone_of_a_job_makes_the_map() -> None:
    found = JobPicture(JobStatus(JOB, GENERATION), shards=8)
    assert found.writes.lanes == 0
    found.take_milestone(EVERY[1])
    assert (found.writes.lanes, found.writes.picture()["cells"]) == (2, [[1, 1]])


def test_another_generation_keeps_the_history() -> None:
    found = picture()
    found.read_history(EVERY)
    found.end_history()
    cut = Cut.of_topic("flights.changelog.g2", [1] * 4)
    found.continue_with(JobStatus(JOB, OTHER, committed=replace(EVERY[-1], generation=OTHER, changelog_cut=cut)))
    assert (found.writes.lanes, len(found.timeline), found.status.generation) == (4, 20, OTHER)
    assert found.writes.picture()["cells"] == []


def test_the_view_is_only_compared_with_an_observation_before() -> None:
    """What it applied before the first observation, or while it did not answer, stays unknown."""
    found = picture()
    found.read_history(EVERY)
    found.see_view(5, 5_100)
    found.see_view(7, 6_200)
    found.see_view(0, 6_300)
    assert found.status.view is None
    found.see_view(9, 9_000)
    found.see_view(10, 9_500)
    known = {one["sequence"]: one["steps"]["applied"] for one in found.timeline.newest(20)}
    assert {sequence: ms for sequence, ms in known.items() if ms is not None} == {6: 1_200, 7: 200, 10: 500}


def test_the_same_census_changes_nothing() -> None:
    found = picture()
    found.see_census("2026-01-01T00:00:00Z", 1_000, [1] * 8)
    version = found.version
    found.see_census("2026-01-01T00:00:00Z", 1_000, [9] * 8)
    assert found.version == version
    assert found.state.picture()["cells"] == [[1] * 8]


def test_an_unknown_end_of_the_source_is_unknown() -> None:
    found = picture()
    found.see_end(None, 1_000, 100)
    assert found.status.waiting is None
    found.see_end(Cut.of_topic("flights.events", [5, 5]), 2_000, 100)
    assert found.status.waiting == 10


def test_time_alone_changes_nothing() -> None:
    """An idle job's pages are not drawn again every second."""
    found = picture()
    end = Cut.of_topic("flights.events", [0, 0])
    found.see_end(end, 1_000, 10**6)
    found.see_view(20, 1_000)
    version = found.version
    for now in (2_000, 3_000):
        found.see_end(end, now, 10**6)
        found.see_view(20, now)
    assert found.version == version


def test_each_change_changes_the_version() -> None:
    """A page that has this version is current."""
    found = picture()
    seen = {found.version}
    for change in (
        lambda: found.read_history(EVERY[:3]),
        found.end_history,
        lambda: found.take_milestone(EVERY[3]),
        lambda: found.take_published(4, 9_000),
        lambda: found.see_view(3, 1_000),
        lambda: found.see_end(None, 1_000, 100),
        lambda: found.take(replace(found.status, attempt=9)),
    ):
        change()
        assert found.version not in seen
        seen.add(found.version)
