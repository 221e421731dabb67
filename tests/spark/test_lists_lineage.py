"""A candidate that lists the same events otherwise: before its promotion and after, a list is that of its line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import candidacies
from cutwater.adapters.topics.commit_stream import source_end
from cutwater.adapters.topics.rejected_events import dead_letters, late_pairs
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.driver.rejected_events import Letter
from cutwater.core.events import rejection
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.operations.generations.claims import Claims
from cutwater.operations.replay_dead_letters import Replayer
from support.events import readings
from support.harness import GENERATION, Flow, flow, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("shared_spark")]

MAX_BYTES = 40
"""Of the candidate's job file: a reading takes some 23."""
JUNK = b"x" * 50
LONG = readings.encode("k" * 40, readings.START_MS + 5_000_000)


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    text = readings.job_text(unique("lines"))
    with flow(broker.cluster, text, tmp_path, json.dumps(readings.SCHEMA)) as made:
        yield made


def epochs_of(job: Flow, generation: Generation) -> list[Milestone]:
    """Its milestones by epoch, those of the candidate too."""
    told = [one for one in candidacies(job.cluster, job.job.name) if isinstance(one, Milestone)]
    told += [one for one, _ in job.milestones()]
    found = {one.epoch: one for one in told if one.generation == generation}
    assert sorted(found) == list(range(len(found)))
    return [found[epoch] for epoch in sorted(found)]


def caught_up(job: Flow, generation: Generation) -> list[Milestone]:
    end = source_end(job.cluster, job.source)

    def covered() -> list[Milestone]:
        found = epochs_of(job, generation)
        return found if found and found[-1].source_cut.covers(end) else []

    found: list[Milestone] = wait_until(covered, f"{generation} at {end}; logs in {job.folder}", 600)
    return found


def letters(job: Flow, generation: Generation | None = None) -> dict[tuple[int, int], Letter]:
    found = dead_letters(job.cluster, job.job.name, generation)
    assert found.problems == []
    made = {(one.event.partition, one.event.offset): one for one in found.entries}
    assert len(made) == len(found.entries)
    return made


def watermarks(job: Flow, generation: Generation | None = None) -> dict[Any, int]:
    """Of each late pair the watermark that had closed its window."""
    found = late_pairs(job.cluster, job.job.name, generation)
    assert found.problems == []
    return {next(iter(readings.told([one]))): one.watermark_ms for one in found.entries}


def told(job: Flow, generation: Generation | None = None) -> Counter[Any]:
    return readings.told(late_pairs(job.cluster, job.job.name, generation).entries)


def served(job: Flow, at: Milestone) -> Counter[Any]:
    size = job.job.window.size_ms
    return Counter({(key, start, start + size): row["ticks"] for (key, start), row in job.state(at).items()})


def unusable(job: Flow, parent: Milestone) -> set[tuple[int, int]]:
    """The places of the events that the line cannot use: behind the parent milestone no large ones either."""
    ends = {place.partition: offset for place, offset in parent.source_cut}
    return {
        (partition, offset)
        for (partition, offset), value in readings.source(job).items()
        if not readings.usable(value) or (offset >= ends[partition] and len(value or b"") > MAX_BYTES)
    }


def test_each_generation_lists_for_itself_and_the_promoted_ones_line_counts(job: Flow) -> None:
    """For another reason, by another watermark, an event that one of both can use: none hides another's entry."""
    made = readings.drifting(1_500, 31)
    job.signal()
    job.driver()
    job.produce(made[:600])
    readings.produce_raw(job, [JUNK])
    parent = job.wait_committed()
    claims = Claims(job.cluster, job.job, "local", now_ms)
    second = claims.start(str(parent.token), None, False, "a test", UNREPLICATED).generation
    for first in range(600, 1_500, 300):
        job.produce(made[first : first + 300])
        readings.produce_raw(job, [JUNK, LONG, None])
        job.wait_committed()
    job.job_file.write_text(f"{job.job_file.read_text()}max_event_bytes: {MAX_BYTES}\n")
    job.start("cutwater.commit_signal", CUTWATER_GENERATION=str(second))
    job.driver(CUTWATER_GENERATION=str(second))
    caught_up(job, second)
    assert_each_its_own(job, second)
    replayer = Replayer(job.cluster, job.job.name, job.source, now_ms)
    gone = replayer.replay([one for one in letters(job).values() if one.value_bytes])
    replayer.close()
    assert len(gone) == 4
    claims.promote(second)
    wait_until(lambda: job.milestones()[-1][0].generation == second, f"{second} is promoted; {job.folder}", 600)
    epochs = caught_up(job, second)
    shown = letters(job)
    assert shown.keys() == unusable(job, parent)
    assert {one.event: one.replayed for one in shown.values() if one.replayed} == gone
    assert_rows_and_late_pairs(job, parent, epochs)


def assert_each_its_own(job: Flow, second: Generation) -> None:
    """The reasons of the promoted generation and the candidate, of each event that the candidate's line lists."""
    first, candidates = letters(job), letters(job, second)
    reasons = Counter((first[at].reason if at in first else None, one.reason) for at, one in candidates.items())
    assert reasons == {
        (rejection.UNDECODABLE, rejection.UNDECODABLE): 1,  # of the parent's part of the line
        (rejection.UNDECODABLE, rejection.TOO_LARGE): 3,
        (rejection.NO_VALUE, rejection.NO_VALUE): 3,
        (None, rejection.TOO_LARGE): 3,
    }
    assert {one.by.generation for one in first.values()} == {GENERATION}
    assert Counter(one.by.generation for one in candidates.values()) == {GENERATION: 1, second: 9}


def assert_rows_and_late_pairs(job: Flow, parent: Milestone, epochs: list[Milestone]) -> None:
    """Rows and late pairs of the promoted one's line are the source; the other's list is as it was."""
    firsts = epochs_of(job, GENERATION)
    old, counted = readings.oracle(job, [one for one in firsts if one.epoch <= parent.epoch], True)
    new, more = readings.oracle(job, epochs, True, parent, MAX_BYTES)
    other, _ = readings.oracle(job, firsts, True)
    assert (told(job), told(job, GENERATION)) == (old + new, other)
    assert served(job, epochs[-1]) == counted + more
    closed, closed_too = watermarks(job), watermarks(job, GENERATION)
    both = new.keys() & other.keys()
    assert len(both) > 20, "the test must make pairs that are late for both"
    assert any(closed[pair] != closed_too[pair] for pair in both), "by another watermark"
