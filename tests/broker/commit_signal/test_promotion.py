"""A generation is promoted behind another one: by processes on a real broker, whatever is killed and when."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import candidates
from cutwater.adapters.topics.generation_jobs import working_for
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import FencedError, LostRecordsError, UsageError
from cutwater.core.pacing.maintenance_windows import MaintenanceWindows
from cutwater.core.pacing.schedules import WorkBounds
from cutwater.core.protocol import topics
from cutwater.core.protocol.chain import find_chain_faults
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.log_evidence import Evidence
from cutwater.core.protocol.records import Barrier, Claim, Committed, Hold, Promotion, Schedule, Start, Withdrawal
from cutwater.core.protocol.stream_audit import check
from cutwater.operations.generations.claims import Claims
from cutwater.operations.generations.requests import GenerationRequest, RequestedBounds
from support.events import counting
from support.harness import GENERATION, Flow, flow, wait_until

MODULE = "cutwater.commit_signal"
WIDER = 3


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    with flow(broker.cluster, counting.job_text(unique("promoted")), tmp_path, counting.SCHEMA) as made:
        yield made


class Driver:
    """Writes what a driver of one generation would write."""

    def __init__(self, job: Flow, generation: Generation = GENERATION, partitions: int = 2) -> None:
        self._name, self._topic = job.job.name, job.job.topic
        self._generation, self._partitions = generation, partitions
        self._writer = TransactionalWriter(job.cluster, topics.driver_id(self._name, generation))
        self._writer.initialise()
        self._tell(Start(self._name, generation, 1, 1))

    def epoch(self, number: int, events: int, watermark_ms: int = 0, evidence: Evidence = ()) -> None:
        """One epoch that ends with so many events read of each partition of the source."""
        changelog = topics.changelog(self._name, self._generation)
        self._tell(
            Barrier(
                job=self._name,
                generation=self._generation,
                attempt=1,
                epoch=number,
                source_cut=Cut.of_topic(self._topic, [events, events]),
                changelog_cut=Cut.of_topic(changelog, [number + 1] * self._partitions),
                watermark_ms=watermark_ms,
                horizon_ms=0,
                rows=2,
                digest=5,
                events=20,
                rejected=0,
                late=0,
                skew_ms=0,
                schema_fingerprint="ab",
                definition="cd",
                epoch_started_ms=1,
                written_ms=2,
                partition_rows=(2, *[0] * (self._partitions - 1)),
                partition_digests=(5, *[0] * (self._partitions - 1)),
                evidence=evidence,
            ),
            Committed(self._name, self._generation, 1, number, 3),
        )

    def _tell(self, *signals: protocol_records.Record) -> None:
        self._writer.write(topics.barriers(self._name), [protocol_records.encode(one) for one in signals])


class Region:
    """Claims of a job, and the commit-signals of its generations."""

    def __init__(self, job: Flow) -> None:
        self.job = job
        self.claims = Claims(job.cluster, job.job, "local", now_ms)

    def start(self, token: str | None = None, partitions: int | None = WIDER, rewinds: bool = False) -> Claim:
        return self.claims.start(token, partitions, rewinds, "a test", UNREPLICATED)

    def signal(self, generation: Generation, **env: str) -> subprocess.Popen[bytes]:
        return self.job.start(MODULE, CUTWATER_GENERATION=str(generation), **env)

    def tokens(self) -> list[str]:
        return [str(one.token) for one, _ in self.job.milestones()]

    def await_token(self, token: str) -> None:
        wait_until(lambda: token in self.tokens(), f"{token} on the commit stream of {self.job.folder}", 60)

    def await_candidate(self, generation: Generation, epoch: int) -> None:
        def reached() -> bool:
            newest = candidates(self.job.cluster, self.job.job.name).require(generation).newest
            return newest is not None and newest.epoch >= epoch

        wait_until(reached, f"epoch {epoch} of candidate {generation}", 60)

    def check(self) -> None:
        found = self.job.milestones()
        assert not list(find_chain_faults(found))
        assert not check(found)


@pytest.fixture
def region(job: Flow) -> Region:
    return Region(job)


def begun(region: Region, epochs: int = 3) -> Driver:
    """The first generation with its signaller, at milestone `epochs`."""
    driver = Driver(region.job)
    region.signal(GENERATION)
    for number in range(epochs):
        driver.epoch(number, 10 * (number + 1))
    region.await_token(f"{GENERATION}:{epochs}")
    return driver


def test_a_candidate_is_promoted_where_it_has_caught_up(region: Region) -> None:
    """Behind the newest milestone, and not before; the old signaller leaves as fenced, its driver is ended."""
    old = begun(region)
    claim = region.start(f"{GENERATION}:2")
    generation = claim.generation
    assert generation.number == 2
    new = Driver(region.job, generation, WIDER)
    region.signal(generation)
    new.epoch(0, 20)
    region.await_candidate(generation, 0)
    region.claims.promote(generation)
    old.epoch(3, 40)
    region.await_token(f"{GENERATION}:4")  # it is behind, so the old one goes on
    new.epoch(1, 45)
    region.await_token(f"{generation}:5")
    new.epoch(2, 50)
    region.await_token(f"{generation}:6")
    region.check()
    with pytest.raises(FencedError):
        wait_until(lambda: old.epoch(4, 60), "the old driver is fenced", 30)
    assert region.tokens() == [f"{GENERATION}:{n}" for n in range(1, 5)] + [f"{generation}:5", f"{generation}:6"]
    job, settings = working_for(region.job.job, settings_of(region.job))
    assert (settings.generation, job.shards.partitions) == (generation, WIDER)


def caught_up(region: Region) -> tuple[Driver, Driver, Generation, subprocess.Popen[bytes]]:
    """The first generation at work, a candidate that may be promoted at once, and the candidate's signaller."""
    old, generation = begun(region), region.start().generation
    new = Driver(region.job, generation, WIDER)
    signaller = region.signal(generation)
    new.epoch(0, 30)
    region.await_candidate(generation, 0)
    return old, new, generation, signaller


def killed_while_promoted(region: Region, point: str) -> tuple[Driver, Driver, Generation]:
    """The same, and the signaller was killed at a crash point of the promotion."""
    old, new, generation, signaller = caught_up(region)
    os.kill(signaller.pid, 9)
    signaller.wait(30)
    region.claims.promote(generation)
    mark = region.job.folder / "crash.mark"
    killed = region.signal(generation, CUTWATER_CRASH_POINT=point, CUTWATER_CRASH_MARK=str(mark))
    assert killed.wait(60) == -9
    assert mark.exists()
    return old, new, generation


@pytest.mark.slow
def test_a_promotion_that_is_held_waits_and_goes_on_by_itself(region: Region) -> None:
    """The promoted generation commits meanwhile, and the candidate catches up. Nobody has to end the hold."""
    old, new, generation, _ = caught_up(region)
    region.claims.hold(generation, 20_000, "alice", "a look first")
    with pytest.raises(UsageError, match=r"held until .* by alice: a look first"):
        region.claims.promote(generation)
    ask(region, Promotion(region.job.job.name, generation, now_ms()))  # by a client that knows no holds
    for number in (3, 4):
        old.epoch(number, 40 + number)
        new.epoch(number - 2, 40 + number)
        region.await_token(f"{GENERATION}:{number + 1}")
    region.await_token(f"{generation}:6")
    held = candidates(region.job.cluster, region.job.job.name).require(generation).hold
    assert held is not None
    assert region.job.milestones()[-1][0].committed_ms >= held.until_ms, "not before its end"
    region.check()


@pytest.mark.slow
def test_a_hold_ends_where_a_person_says_so(region: Region) -> None:
    """By a release, and by a promotion that is forced, each in time: the hold would last for hours."""
    _, _, generation, _ = caught_up(region)
    region.claims.hold(generation, 7_200_000, "watch", "dead letters")
    assert region.claims.release(generation, "alice", "looked")
    assert not region.claims.release(generation, "alice", "again")
    region.claims.hold(generation, 7_200_000, "watch", "dead letters")
    region.claims.promote(generation, despite_hold_by="alice")
    region.await_token(f"{generation}:4")
    region.check()
    with pytest.raises(UsageError, match="too late to hold"):
        region.claims.hold(generation, 1_000, "alice", "")


@pytest.mark.slow
def test_commits_go_on_if_a_held_candidate_dies_while_it_takes_over(region: Region) -> None:
    """The fenced signaller takes the stream back; the candidate waits until a person ends the hold."""
    old, new, generation = killed_while_promoted(region, "stream-taken")
    region.claims.hold(generation, 7_200_000, "alice", "a look first")
    region.signal(generation)
    for number in (3, 4):
        old.epoch(number, 40 + number)
        new.epoch(number - 2, 40 + number)
        region.await_token(f"{GENERATION}:{number + 1}")
    region.claims.release(generation, "alice", "looked")
    region.await_token(f"{generation}:6")
    region.check()


@pytest.mark.slow
def test_no_hold_delays_a_rollback(region: Region) -> None:
    begun(region)
    generation = region.start(f"{GENERATION}:1", rewinds=True).generation
    with pytest.raises(UsageError, match="no hold delays"):
        region.claims.hold(generation, 1_000, "alice", "")
    ask(region, Hold(region.job.job.name, generation, now_ms() + 7_200_000, "alice", "", now_ms()))
    new = Driver(region.job, generation, WIDER)
    region.signal(generation)
    new.epoch(0, 30)
    region.claims.promote(generation)
    region.await_token(f"{generation}:4")
    region.check()


def later(hours: int = 3) -> WorkBounds:
    """A window of an hour, which opens in some hours."""
    hour = (now_ms() // 3_600_000 + hours) % 24
    return WorkBounds(MaintenanceWindows.parse([f"{hour:02}:00-{hour + 1:02}:00"]))


@pytest.mark.slow
def test_a_promotion_waits_for_its_window_and_goes_on_when_that_is_changed(region: Region) -> None:
    """The promoted generation commits meanwhile. Behind the promotion nothing is left to schedule."""
    old, new, generation, _ = caught_up(region)
    region.claims.schedule(generation, RequestedBounds(later(), "alice"))
    assert region.claims.to_schedule(generation) == later()
    region.claims.promote(generation)
    for number in (3, 4):
        old.epoch(number, 40 + number)
        new.epoch(number - 2, 40 + number)
        region.await_token(f"{GENERATION}:{number + 1}")
        region.await_candidate(generation, number - 2)
    region.claims.schedule(generation, RequestedBounds(WorkBounds(), "alice"))
    region.await_token(f"{generation}:6")
    region.check()
    with pytest.raises(UsageError, match="is promoted already"):
        region.claims.schedule(generation, RequestedBounds(later(), "alice"))


@pytest.mark.slow
def test_a_claim_carries_its_schedule_and_a_rollback_has_none(region: Region) -> None:
    """No process sees the claim without it. Of a rollback it is refused, and one of another program is ignored."""
    begun(region)
    words = GenerationRequest(None, WIDER, False, "", bounds=RequestedBounds(later(), "alice"))
    claim = region.claims.ask(words, UNREPLICATED, lambda _planned: None).claim
    assert region.claims.to_schedule(claim.generation) == later()
    region.claims.abort(claim.generation, "")
    generation = region.start(f"{GENERATION}:1", rewinds=True).generation
    with pytest.raises(UsageError, match="no schedule delays"):
        region.claims.schedule(generation, RequestedBounds(later(), "alice"))
    ask(region, later().record(region.job.job.name, generation, "", now_ms()))
    new = Driver(region.job, generation, WIDER)
    region.signal(generation)
    new.epoch(0, 30)
    region.claims.promote(generation)
    region.await_token(f"{generation}:4")
    region.check()


def ask(region: Region, record: Promotion | Hold | Schedule) -> None:
    """Write what the client would refuse."""
    writer = TransactionalWriter(region.job.cluster, topics.claims_id(region.job.job.name))
    writer.initialise()
    writer.write(topics.candidates(region.job.job.name), [protocol_records.encode(record)])


def settings_of(job: Flow) -> Any:
    return load_settings({"CUTWATER_BOOTSTRAP_SERVERS": job.cluster.bootstrap})


def hand_over(region: Region) -> tuple[Any, Driver]:
    """Promote a second generation; return the first one's signaller, and the second one's driver."""
    old, signaller = Driver(region.job), region.signal(GENERATION)
    old.epoch(0, 10)
    region.await_token(f"{GENERATION}:1")
    generation = region.start().generation
    new = Driver(region.job, generation, WIDER)
    region.signal(generation)
    region.claims.promote(generation)
    new.epoch(0, 10)
    region.await_token(f"{generation}:2")
    return signaller, new


@pytest.mark.slow
def test_the_old_signaller_leaves_and_does_not_come_back(region: Region) -> None:
    """Exit code 6, though nothing comes that it could write, and at every further start."""
    signaller, _ = hand_over(region)
    assert signaller.wait(60) == FencedError.exit_code
    assert region.signal(GENERATION).wait(60) == FencedError.exit_code
    region.check()


@pytest.mark.slow
def test_the_old_signaller_leaves_while_the_new_generation_never_rests(region: Region) -> None:
    """It has nothing to write, and the barriers that it follows are never silent."""
    signaller, new = hand_over(region)
    epochs = itertools.count(1)

    def left() -> bool:
        number = next(epochs)
        new.epoch(number, 30 + number)
        return signaller.poll() is not None

    wait_until(left, f"the old signaller of {region.job.folder} leaves", 40, pause_s=0.01)
    assert signaller.returncode == FencedError.exit_code


@pytest.mark.slow
@pytest.mark.parametrize("point", ["stream-taken", "transaction-open", "promoted"])
def test_a_promotion_that_is_killed_is_done_or_not(region: Region, point: str) -> None:
    """kill -9 before, in and after the one record: a restart ends with one generation, and never both."""
    _, new, generation = killed_while_promoted(region, point)
    region.signal(generation)
    region.await_token(f"{generation}:4")
    new.epoch(1, 50)
    region.await_token(f"{generation}:5")
    region.check()


@pytest.mark.slow
def test_a_candidate_that_was_given_up_is_never_promoted(region: Region) -> None:
    """Its signaller leaves, the old one goes on, also where the stream had been taken already."""
    old = begun(region)
    generation = region.start().generation
    new = Driver(region.job, generation, WIDER)
    signaller = region.signal(generation)
    new.epoch(0, 10)  # behind: it cannot be promoted yet
    region.await_candidate(generation, 0)
    region.claims.promote(generation)
    region.claims.abort(generation, "another plan")
    assert signaller.wait(60) == FencedError.exit_code
    old.epoch(3, 40)
    region.await_token(f"{GENERATION}:4")
    with pytest.raises(UsageError, match="another plan"):
        region.claims.promote(generation)
    assert region.start().generation.number == 3
    region.check()


@pytest.mark.slow
def test_who_gave_a_candidate_up_and_died_is_asked_again(region: Region) -> None:
    """Between the withdrawal and the fencing of its driver, which would go on for nobody."""
    begun(region)
    generation, name, cluster = region.start().generation, region.job.job.name, region.job.cluster
    driver = TransactionalWriter(cluster, topics.driver_id(name, generation))
    driver.initialise()
    died = TransactionalWriter(cluster, topics.claims_id(name))
    died.initialise()
    died.write(
        topics.candidates(name),
        [protocol_records.encode(Withdrawal(name, generation, "died behind it", now_ms()))],
    )
    region.claims.abort(generation, "asked again")
    with pytest.raises(FencedError):
        driver.write(topics.barriers(name), [b"of a driver that nobody wants"])


@pytest.mark.slow
def test_a_candidate_whose_changelog_has_lost_its_end_is_not_promoted(region: Region) -> None:
    """Its signaller compares the evidence before it fences the promoted generation's, which goes on."""
    old = begun(region)
    generation = region.start().generation
    changelog = topics.changelog(region.job.job.name, generation)
    places = [TopicPartition(changelog, number) for number in range(WIDER)]
    evidence = LogCheck(region.job.cluster).read_state(places).evidence
    new = Driver(region.job, generation, WIDER)
    signaller = region.signal(generation)
    new.epoch(0, 30, evidence=evidence)  # the cut is behind a record, and the changelog holds none
    region.await_candidate(generation, 0)
    region.claims.promote(generation)
    assert signaller.wait(60) == LostRecordsError.exit_code
    old.epoch(3, 40)
    region.await_token(f"{GENERATION}:4")
    assert all(one.startswith(f"{GENERATION}:") for one in region.tokens())
    region.check()


@pytest.mark.slow
def test_a_rollback_is_promoted_at_once_and_says_so(region: Region) -> None:
    """Its source cut is below the newest milestone's; the record names the sequence that it goes back to."""
    begun(region)
    generation = region.start(f"{GENERATION}:1", rewinds=True).generation
    new = Driver(region.job, generation, WIDER)
    region.signal(generation)
    region.claims.promote(generation)
    new.epoch(0, 10)
    region.await_token(f"{generation}:4")
    newest = region.job.milestones()[-1][0]
    assert newest.rewinds_to == 1
    region.check()


@pytest.mark.slow
def test_what_cannot_be_started_or_promoted_is_refused(region: Region) -> None:
    """Each with what to do."""
    begun(region)
    with pytest.raises(UsageError, match="no milestone"):
        region.start(f"{GENERATION}:9")
    with pytest.raises(UsageError, match="shards"):
        region.start(None, 2_000)
    with pytest.raises(UsageError, match="never claimed"):
        region.claims.promote(Generation(7, "local", "00000007"))
    two, three = region.start().generation, region.start().generation
    assert (two.number, three.number) == (2, 3)
    new = Driver(region.job, three, WIDER)
    region.signal(three)
    new.epoch(0, 30)
    region.claims.promote(three)
    with pytest.raises(UsageError, match=r"is being promoted|was promoted meanwhile"):
        region.claims.promote(two)
    region.await_token(f"{three}:4")
    with pytest.raises(UsageError, match="comes too late"):
        region.claims.promote(two)
    with pytest.raises(UsageError, match="too late to give it up"):
        region.claims.abort(three, "no")
    with pytest.raises(UsageError, match="rollback"):
        region.start(f"{GENERATION}:2")
