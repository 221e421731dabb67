"""`generation start` and `rollback` die between two steps and are asked again; dry runs; what is told then."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client import bounds, make_consumer
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import candidacies
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Promotion
from cutwater.operations.generations.claims import Claims
from cutwater.operations.generations.start_check import DEFINITION
from cutwater_spark.seed.parent import parent_milestone
from support.cli.commandline import Cli
from support.cli.jsonshapes import parsed
from support.views.candidate_player import Candidate
from support.views.changelogs import Sold, Writing, make_job
from support.views.generation_player import Next

FIRST = "g1-local-00000000"
BAD = 2


class Asked:
    """A job with two milestones, and verbs that are asked of it as processes."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        job, file = make_job(folder)
        self.writing, self.cluster, self.name = Writing(cluster, job), cluster, job.name
        self.writing.epoch([Sold("a", 1, 5)])
        self.writing.epoch([Sold("b", 1, 5)])
        self.claims = Claims(cluster, job, "local", now_ms)
        self.file = file
        self._folder, self._cli = folder, Cli(folder)
        self._on = (str(file), "--bootstrap-servers", cluster.bootstrap)

    def keep_definition(self) -> None:
        """As the first generation's driver does, beside its checkpoint."""
        kept = self._folder / "data" / "checkpoints" / self.name / FIRST / DEFINITION
        kept.parent.mkdir(parents=True)
        kept.write_text(self.writing.job.definition)

    def run(self, *verb: str, **env: str) -> Any:
        return self._cli.run(*verb, *self._on, **env)

    def of(self, verb: str, generation: Generation, *more: str) -> Any:
        """A verb that is asked of one generation."""
        return self._cli.run("generation", verb, str(generation), *self._on, *more)

    def json(self, *verb: str) -> Any:
        done = self.run(*verb, "--json")
        assert done.returncode == 0, done.stderr
        return parsed([*verb], done.stdout)

    def dies_at(self, point: str, *verb: str) -> None:
        mark = self._folder / f"died-at-{point}"
        done = self.run(*verb, CUTWATER_CRASH_POINT=point, CUTWATER_CRASH_MARK=str(mark))
        assert mark.exists(), f"{verb} did not come to {point}: {done.stdout}{done.stderr}"
        assert done.returncode == -signal.SIGKILL

    def claimed(self) -> set[Generation]:
        return {one.generation for one in self._said() if isinstance(one, Claim)}

    def promoting(self) -> list[Generation]:
        return [one.generation for one in self._said() if isinstance(one, Promotion)]

    def _said(self) -> list[Any]:
        return list(candidacies(self.cluster, self.name))

    def ends(self) -> list[int]:
        """Of the claims and of the milestones."""
        consumer = make_consumer(self.cluster)
        try:
            both = (topics.candidates(self.name), topics.milestones(self.name))
            return [bounds(consumer, topic, 0)[1] for topic in both]
        finally:
            consumer.close()


@pytest.fixture
def job(broker: Any, tmp_path: Path) -> Asked:
    return Asked(broker.cluster, tmp_path)


START = ("generation", "start", "--partitions", "6")
BACK = ("rollback", "--to", f"{FIRST}:1", "--wait", "0")


@pytest.mark.slow
def test_a_start_that_died_at_every_step_is_one_claim(job: Asked) -> None:
    """Though a newer milestone came meanwhile; other words are another claim, and so is --another."""
    job.dies_at("changelog-made", *START)
    assert job.claimed() == set()
    job.dies_at("claim-written", *START)
    job.writing.epoch([Sold("c", 1, 5)])
    [generation] = job.claimed()
    told = job.json(*START)
    assert (told["generation"], told["again"], told["parent"]) == (str(generation), True, f"{FIRST}:2")
    said = job.run(*START)
    assert f"is continuing with the claim {generation}" in said.stdout
    assert job.claimed() == {generation}
    assert job.json("generation", "start", "--partitions", "4")["again"] is False
    assert job.json(*START, "--another")["again"] is False
    assert len(job.claimed()) == 3


@pytest.mark.slow
def test_a_rollback_that_died_at_every_step_is_asked_to_be_promoted(job: Asked) -> None:
    """One claim and one request, each life going on where the one before it died; once promoted it is done."""
    for point in ("changelog-made", "claim-written"):
        job.dies_at(point, *BACK)
    assert job.promoting() == []
    job.dies_at("promotion-asked", *BACK)
    [generation] = job.claimed()
    assert job.run(*BACK).returncode == 0
    assert job.claimed() == {generation}
    assert job.promoting() == [generation]
    after = Next(job.writing, 1, 3, rewinds=True)
    after.generation = generation
    after.promoted([])
    told = job.json(*BACK)
    assert (told["generation"], told["promoted"]) == (str(generation), True)
    assert "nothing to do" in job.run(*BACK).stdout
    assert job.claimed() == {generation}
    assert job.json(*BACK, "--another", "--dry-run")["generation"] != str(generation)


@pytest.mark.slow
def test_a_rollback_that_died_before_it_asked_for_the_promotion_asks_for_it(job: Asked) -> None:
    """Nobody would ever have promoted that claim."""
    job.dies_at("claim-written", *BACK)
    assert job.promoting() == []
    assert job.run(*BACK).returncode == 0
    assert job.promoting() == list(job.claimed())


@pytest.mark.slow
def test_dry_runs_write_nothing_and_refuse_what_would_be_refused(job: Asked) -> None:
    """Neither claims nor milestones; exit 2 for what the verb itself would refuse."""
    one, two, given_up = (job.claims.start(None, None, False, "a test", UNREPLICATED).generation for _ in range(3))
    job.claims.abort(given_up, "another plan")
    job.claims.promote(one)
    ends = job.ends()
    assert "is being promoted" in refused(job.run(*BACK, "--dry-run"))
    assert "is requested already" in job.of("promote", one, "--dry-run").stderr
    assert "is being promoted" in refused(job.of("promote", two, "--dry-run"))
    assert "another plan" in refused(job.of("promote", given_up, "--dry-run"))
    assert "was never claimed" in refused(job.of("abort", Generation(9, "local", "aaaaaaaa"), "--dry-run"))
    assert "would be given up" in job.of("abort", one, "--dry-run").stderr
    assert "is given up already" in job.of("abort", given_up, "--dry-run").stderr
    assert job.ends() == ends
    job.claims.abort(one, "by hand")
    ends = job.ends()
    assert "would be requested" in job.of("promote", two, "--dry-run").stderr
    assert job.json(*BACK, "--dry-run")["claimed"] is False
    assert job.json("generation", "start", "--dry-run")["again"] is True
    assert job.ends() == ends


def refused(done: Any) -> str:
    assert done.returncode == BAD, done.stdout
    return str(done.stderr)


@pytest.mark.slow
def test_a_promoted_one_cannot_be_given_up_by_a_dry_run_either(job: Asked) -> None:
    """It says so with exit 2, and that its promotion is done."""
    generation = job.claims.start(None, 3, False, "a test", UNREPLICATED).generation
    job.claims.promote(generation)
    after = Next(job.writing, 2, 3)
    after.generation = generation
    after.promoted([])
    ends = job.ends()
    assert "is promoted" in refused(job.of("abort", generation, "--dry-run"))
    assert "is promoted already" in job.of("promote", generation, "--dry-run").stderr
    assert job.ends() == ends


@pytest.mark.slow
def test_how_long_a_candidate_will_take_is_told(job: Asked) -> None:
    """In the list, and while its promotion is waited for, once two of its milestones are there."""
    writing = job.writing
    begin_ms = now_ms()

    def read(events: int, second: int) -> dict[str, Any]:
        return {"source_cut": Cut.of_topic("sales", [events]), "committed_ms": begin_ms + second * 1000}

    writing.epoch([], **read(1_000, 0))
    candidate = Candidate(writing)
    writing.epoch([], **read(3_000, 20))
    candidate.epoch([Sold("a", 1, 5)], **read(1_000, 20))
    [_, told] = job.json("generation", "list")
    assert (told["behind"], told["seconds_left"]) == (
        f"it is 2,000 events behind milestone {writing.last and writing.last.token}",
        None,
    )
    candidate.epoch([Sold("a", 1, 6)], **read(2_000, 25))
    [_, told] = job.json("generation", "list")
    assert (told["events_left"], told["events_per_s"], told["seconds_left"]) == (1_000, 200.0, 10.0)
    assert told["behind"].endswith("it reads 200 events/s and 100 arrive: about 10 s left")
    late = job.of("promote", candidate.generation, "--wait", "1")
    assert late.returncode == UnavailableError.exit_code
    assert "about 10 s left" in late.stderr


@pytest.mark.slow
def test_a_rollback_says_what_it_undoes_and_what_it_waits_for(job: Asked) -> None:
    """And the list begins with the first generation, which nobody claimed."""
    job.writing.epoch([Sold("c", 1, 5)], source_cut=Cut.of_topic(job.writing.job.topic, [7]))
    undone = job.json(*BACK, "--dry-run")["undone"]
    assert undone == {"milestones": 2, "events": 7, "newest": f"{FIRST}:3"}
    done = job.run(*BACK[:-1], "4")
    assert done.returncode == UnavailableError.exit_code
    assert f"is undone: 2 milestones after it up to {FIRST}:3; the 7 events in them are read again" in done.stdout
    assert f"starts Spark and takes over the state of {FIRST}:1" in done.stderr
    [first, claimed] = job.json("generation", "list")
    assert (first["generation"], first["state"], first["from"]) == (FIRST, "promoted", None)
    assert claimed["from"] == f"{FIRST}:1"


@pytest.mark.variations
@pytest.mark.variations
@pytest.mark.parametrize(
    ("before", "after", "why", "kept"),
    [
        ("pieces: {measure: sum,", "pieces: {measure: max,", "the job file's measures say", False),
        ("size: 1h", "size: 2h", "window_size_ms was 3600000 and is 7200000", True),
        ("size: 1h", "size: 2h", "the key, the event time, the window", False),
    ],
)
def test_a_claim_that_can_never_work_is_refused_before_it_is_written(
    job: Asked, before: str, after: str, why: str, kept: bool
) -> None:
    """It stood in the driver's log alone, while `start` said 'is claimed' and `promote` that it may work later."""
    if kept:
        job.keep_definition()
    job.file.write_text(job.file.read_text().replace(before, after))
    for verb in (START, (*START, "--dry-run"), BACK):
        done = job.run(*verb)
        assert (done.returncode, done.stdout) == (BAD, ""), done.stderr
        assert why in done.stderr
        assert "put the job file back" in done.stderr.lower()
    assert job.claimed() == set()


def test_a_driver_refuses_another_job_file_wherever_the_parents_checkpoint_is(job: Asked) -> None:
    """The one that was claimed with, changed since: nothing but the milestone tells it."""
    mine = job.writing.job
    made = Generation.parse(job.json(*START)["generation"])
    settings = Settings(
        bootstrap_servers=job.cluster.bootstrap, generation=made, checkpoint=str(job.file.parent / "elsewhere")
    )
    parent = parent_milestone(mine, settings)
    assert parent is not None
    assert parent.definition == mine.fingerprint
    with pytest.raises(UsageError, match="the key, the event time, the window"):
        parent_milestone(replace(mine, key_field="other"), settings)


def test_a_claim_is_refused_where_the_events_behind_the_milestone_are_gone(job: Asked) -> None:
    """Its driver would end at once, and at each start."""
    source = job.writing.job.topic
    ensure_topics(job.cluster, [topics.events(source, 1)])
    job.writing.epoch([Sold("c", 1, 5)], source_cut=Cut.of_topic(source, [7]))
    done = job.run(*START)
    assert done.returncode == BAD
    assert "events after the milestone are gone. Start the generation from" in done.stderr
    assert job.claimed() == set()
