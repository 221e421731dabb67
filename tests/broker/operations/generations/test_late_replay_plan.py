"""From which milestone late events can count, by the list and the commit stream on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.record_deletion import delete_below
from cutwater.adapters.runtime.clock import now_ms
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Attached, Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.operations.generations.claims import Claims
from cutwater.operations.generations.late_replay import LateFilter, LateReplayPlan, plan_late_replay
from cutwater.operations.generations.requests import GenerationRequest
from cutwater_spark.seed.parent import parent_milestone
from support.events import counting
from support.protocol_samples import GENERATION
from support.rejected_events import Region

ALL = LateFilter(None, None, None)


class Listed:
    """Five milestones of a first generation, whose third and fifth epoch have listed events."""

    def __init__(self, region: Region, folder: Path) -> None:
        file = folder / "job.yaml"
        file.write_text(counting.job_text(region.name) + "late: {amend_for: 1s}\n")
        (folder / "event.avsc").write_text(counting.SCHEMA)
        self.region, self.job = region, load_job(file)
        for epoch, late in enumerate(({}, {}, {5: 70_000, 6: 70_000}, {}, {9: 80_000})):
            region.epoch(GENERATION, epoch, {}, late)

    def token(self, epoch: int) -> str:
        return str(self.region.stream[epoch].token)

    def plan(self, wanted: LateFilter = ALL, token: str | None = None, job: Job | None = None) -> LateReplayPlan:
        return plan_late_replay(self.region.cluster, job or self.job, wanted, token)

    def why_not(self, *wanted: Any, **more: Any) -> str:
        with pytest.raises(UsageError) as refused:
            self.plan(*wanted, **more)
        return str(refused.value)


@pytest.fixture
def listed(broker: Any, unique: Callable[[str], str], tmp_path: Path) -> Listed:
    return Listed(Region(broker.cluster, unique("replayed")), tmp_path)


def test_the_newest_milestone_before_the_events_is_the_parent(listed: Listed) -> None:
    """By key, epoch or since a milestone; events that nobody asked for count if they come behind the parent."""
    stream = listed.region.stream
    plan = listed.plan()
    assert (plan.parent, plan.selected, plan.counted, plan.left_out) == (stream[1], 3, 3, [])
    assert plan.opened.source_cut == stream[-1].source_cut
    assert plan.opened.events == Cut.of({TopicPartition(listed.region.source, 1): 10})
    assert plan.problems == []
    for wanted in (LateFilter(None, 4, None), LateFilter("k", None, listed.token(2))):
        later = listed.plan(wanted)
        assert (later.parent, later.selected, later.counted) == (stream[3], 1, 1)
    named = listed.plan(LateFilter(None, 4, None), listed.token(0))
    assert (named.parent, named.selected, named.counted) == (stream[0], 1, 3)


def test_what_cannot_count_is_refused_with_the_reason(listed: Listed) -> None:
    """Nothing that was asked for; a parent that has read it; no such milestone; no floor; no list."""
    region = listed.region
    assert "'cutwater late list' shows what is" in listed.why_not(LateFilter("j", None, None))
    assert "is not before late event" in listed.why_not(token=listed.token(2))
    assert "has no milestone g1-local-00000000:77" in listed.why_not(token="g1-local-00000000:77")
    assert "has no late.amend_for" in listed.why_not(job=replace(listed.job, amend_for_ms=None))
    assert "keeps no list" in listed.why_not(job=replace(listed.job, attached=Attached("key", "window")))
    last = region.stream[-1]
    region.write(replace(last, epoch=last.epoch + 1, late=0, horizon_ms=60_000))
    assert "none of the 3 late events can count: 3 stay late: their windows have left" in listed.why_not()


@pytest.mark.slow
def test_a_pruned_stream_and_another_generation_are_too_late(listed: Listed) -> None:
    """What is left of the stream begins behind the first events; the next generation has none of them."""
    region = listed.region
    delete_below(region.cluster, topics.milestones(region.name), {0: 6})  # a marker follows each milestone
    plan = listed.plan()
    assert (plan.parent, plan.selected, plan.counted) == (region.stream[3], 1, 1)
    assert plan.left_out == ["entries listed before milestone 4 are left out: the commit stream now begins there"]
    second = region.claim(2, region.stream[-1])
    region.write(region.epoch(second, 0, {}, {}))
    assert "Only a rollback goes back further" in listed.why_not()


def test_the_bounds_are_claimed_with_the_generation_whose_driver_needs_a_floor(listed: Listed) -> None:
    """Once, by the same claim when it is asked again; an ordinary start is another one."""
    region, plan = listed.region, listed.plan()
    opens = plan.opened._replace(events=plan.opened.source_cut)  # the sample's milestones are of another source
    words = GenerationRequest(str(plan.parent.token), None, False, "why", False, opens)
    claims = Claims(region.cluster, listed.job, "local", now_ms)
    made = claims.ask(words, UNREPLICATED, lambda _planned: None).claim.generation
    opened = claims.known().require(made).reopening
    assert opened is not None
    assert (opened.floor_ms, opened.source_cut) == plan.opened[:2]
    again = claims.ask(words, UNREPLICATED, lambda _planned: None)
    assert (again.claim.generation, again.again) == (made, True)
    assert claims.known().require(made).reopening == opened
    assert not claims.planned(words._replace(opened=None)).again
    settings = Settings(bootstrap_servers=region.cluster.bootstrap, generation=made)
    with pytest.raises(UsageError, match=f"{made} counts late events"):
        parent_milestone(replace(listed.job, amend_for_ms=None), settings)
