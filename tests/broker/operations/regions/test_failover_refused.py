"""What `failover` and `switchover` refuse before anything is fenced or released, and what they tell on the way."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.admin import delete_topics
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics import commit_stream
from cutwater.adapters.topics.candidates import candidates
from cutwater.cli.regions.failover_report import TakeoverReport
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.mirror.copy_progress import OriginPartition, initial_position
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import from_origin
from cutwater.core.protocol.records import Claim, Promotion
from cutwater.operations.regions.failover import OriginCopies
from support.cli.jsonshapes import parsed
from support.harness import wait_until
from support.protocol_samples import milestone
from support.regions.regional import FIRST, Driver, Regions, Side, claim_of

OLD = {"CUTWATER_FAILOVER_MIN_AGE_S": "0"}


@contextmanager
def arrived(regions: Regions) -> Iterator[Driver]:
    """A job in `us`, at a milestone that has arrived in `eu`."""
    driver = regions.begin(2)
    with regions.eu.mirroring(regions.us):
        regions.eu.await_arrival(regions.us, f"{FIRST}:2")
        yield driver


def rests(side: Side) -> bool:
    """Was the job given up there?"""
    return commit_stream.release(side.cluster, topics.milestones(side.job.name)) is not None


def told_at_exit_4(here: Side, there: Side) -> Any:
    """What a failover tells programs that nobody starts a driver for."""
    done = here._call(there, ["failover", str(here.flow.job_file), "--force", "--wait", "1", "--json"], {})
    assert done.returncode == UnavailableError.exit_code, done.stderr
    return parsed(["failover"], done.stdout)


@pytest.mark.slow
def test_what_is_lost_is_told_although_nobody_promotes(regions: Regions) -> None:
    """To people before the wait, to programs with the exit code."""
    us, eu = regions.us, regions.eu
    with arrived(regions) as driver:
        done = eu._call(us, ["failover", str(eu.flow.job_file), "--force", "--wait", "1"], {})
    assert done.returncode == UnavailableError.exit_code
    said = " ".join(done.stdout.split())
    assert f"continues from {FIRST}:2" in said
    assert "lost at least, as of " in said
    assert "not promoted yet" in done.stderr
    told = told_at_exit_4(eu, us)
    assert (told["parent"], told["first"], told["loss"]["milestones"]) == (f"{FIRST}:2", None, 0)
    assert "promoting it" in told["steps"]
    # It lives, and goes on: the claim is in the way of a switchover, and nothing is released for it.
    driver.epoch(us.produce(20))
    us.await_token(f"{FIRST}:3")
    assert "generation abort" in eu.run(us, "switchover", "--wait", "0", code=UsageError.exit_code)
    assert not rests(us)


def forked(regions: Regions) -> tuple[Generation, subprocess.Popen[bytes]]:
    """Both regions go on from the second milestone; what does here, and its signaller."""
    us, eu = regions.us, regions.eu
    with arrived(regions) as driver:
        second = Generation.parse(eu.run(us, "failover", "--force", "--wait", "0")["generation"])
    claim, signal = claim_of(eu, second), eu.signal(second)
    Driver(eu, second).epoch(claim.source_cut, claim.origin_cut)
    eu.await_token(f"{second}:3")
    driver.epoch(us.produce(20))
    us.await_token(f"{FIRST}:3")
    return second, signal


@pytest.mark.slow
def test_a_line_that_was_decided_against_goes_on_with_nothing(regions: Regions) -> None:
    """Neither verb says that it is done, and the region whose line counts is not released; nor is a fork."""
    us, eu = regions.us, regions.eu
    second, signal = forked(regions)
    assert eu.run(us, "failover", "--force")["first"] == f"{second}:3", "it is done"
    for dry in (["--dry-run"], []):
        assert "that is a fork" in " ".join(eu.run(us, "switchover", *dry, code=UsageError.exit_code).split())
    assert not rests(us)
    words = ["forks", "decide", str(eu.flow.job_file), "--keep", str(FIRST), "--reason", "its readers"]
    assert eu._call(us, words, {}).returncode == 0
    for verb in ("failover", "switchover"):
        assert "contradict that line" in " ".join(eu.run(us, verb, code=UsageError.exit_code).split())
    assert not rests(us)
    signal.terminate()
    assert signal.wait(30) == 0
    becomes_a_replica(regions, second)


def becomes_a_replica(regions: Regions, left: Generation) -> None:
    """As docs/FAILOVER.md says: without what the job wrote here itself, the kept line can be gone on with."""
    us, eu = regions.us, regions.eu
    own = ("milestones", "barriers", "candidates", "output", "published", f"changelog.{left}")
    assert len(delete_topics(eu.cluster, [f"{eu.job.name}.{one}" for one in own])) == len(own)
    with eu.mirroring(us):
        eu.await_arrival(us, f"{FIRST}:3")
        told = eu.run(us, "failover", "--force", "--wait", "0")
    assert (told["parent"], told["rewinds_to"]) == (f"{FIRST}:3", 0)


@pytest.mark.slow
def test_a_fork_that_was_released_is_none_that_was_brought(regions: Regions) -> None:
    """A switchover does not say that it is done where it waited for milestones that contradict those here."""
    us, eu = regions.us, regions.eu
    forked(regions)
    us.run(None, "release", "--to", "eu")
    with eu.mirroring(us):
        refused = eu.run(us, "switchover", "--wait", "60", code=UsageError.exit_code)
    assert f"ended at {FIRST}:3: that is a fork" in " ".join(refused.split())


@pytest.mark.slow
def test_two_jobs_of_one_name_are_not_switched_over(regions: Regions) -> None:
    """Each region aggregates events of its own: found before the job is released there."""
    us, eu = regions.us, regions.eu
    own = Generation(1, "eu")
    eu.flow.start("cutwater.commit_signal", **eu.env(), CUTWATER_GENERATION=str(own))
    Driver(eu, own).epoch(eu.produce(20))
    eu.await_token(f"{own}:1")
    with arrived(regions):
        refused = eu.run(us, "switchover", "--wait", "0", code=UsageError.exit_code)
    assert "two jobs of the same name" in " ".join(refused.split())
    assert not rests(us)


def asked_for(side: Side) -> Generation:
    """A generation of the region's own that waits for its promotion."""
    writer = TransactionalWriter(side.cluster, topics.claims_id(side.job.name))
    writer.initialise()
    other = Generation(7, side.region, "77777777")
    parent = protocol_records.encode(replace(milestone(0), job=side.job.name))
    claim = Claim(side.job.name, other, parent, partitions=2, rewinds_to=0, reason="more partitions", at_ms=0)
    asked = (claim, Promotion(side.job.name, other, 0))
    writer.write(topics.candidates(side.job.name), [protocol_records.encode(one) for one in asked])
    return other


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["failover --force", "switchover"])
def test_behind_a_promotion_that_waits_nothing_is_fenced_or_released(regions: Regions, verb: str) -> None:
    """Nobody could promote what is claimed then, and the job would rest in both regions."""
    us, eu = regions.us, regions.eu
    with arrived(regions) as driver:
        other = asked_for(eu)
        for dry in (["--dry-run"], []):
            refused = eu.run(us, *verb.split(), "--wait", "0", *dry, code=UsageError.exit_code)
            assert f"'cutwater generation abort {other}' first" in " ".join(refused.split())
        assert not rests(us)
        driver.epoch(us.produce(20))
        eu.await_arrival(us, f"{FIRST}:3")


@pytest.mark.parametrize("copied", [60, 80])
def test_what_was_copied_since_the_claim_is_not_told_as_lost(copied: int) -> None:
    """Asked again when it is done: the mirror brings what is read here. The claim says what was copied then."""
    parent, place = replace(milestone(0), sequence=3), TopicPartition(from_origin("sales", "us"), 0)
    later = replace(parent, sequence=7, source_cut=Cut.of_topic("sales", [80]))
    position = replace(initial_position("job", "us", OriginPartition("sales", 0, "id", 1), 0, 0, 0), next=copied)
    claim = Claim(
        "job", FIRST, protocol_records.encode(parent), 1, 0, "", 0, origin="us", origin_cut=Cut.of({place: 50})
    )
    found = OriginCopies(cast(Any, None), b"", parent, later, 5, [position], None, "eu")
    told = TakeoverReport(cast(Any, SimpleNamespace(source="sales")), found, claim)
    assert (told.loss.milestones, told.loss.offsets, told.planned) == (4, 80 - copied, False)
    coming = replace(told, awaits_release=True)
    assert (coming.loss.milestones, coming.loss.offsets, coming.planned) == (0, 0, True)


def test_until_when_windows_are_closed_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """What the dead region sends later for them is late: nobody would look for it on that list."""
    hour = 3_600_000
    for floor_ms, closed in ((0, None), (400 * hour, "1970-01-17T16:00:00Z")):
        # Between floor and watermark an event amends its window.
        parent = replace(milestone(0), watermark_ms=500 * hour, floor_ms=floor_ms)
        claim = Claim("job", FIRST, protocol_records.encode(parent), 1, 0, "", 0, origin="us")
        newer = replace(parent, sequence=9, watermark_ms=900 * hour)
        found = OriginCopies(cast(Any, None), b"", parent, newer, 5, [], None, "eu")
        told = TakeoverReport(cast(Any, SimpleNamespace(source="sales")), found, claim)
        told.print_parent()
        said = " ".join(capsys.readouterr().out.split())
        assert told.closed_by == closed
        assert (f"windows that end by {closed} are closed" in said) == (closed is not None)
        assert replace(told, awaits_release=True).closed_by is None, "another milestone is to come"


MEASURE = ("measures:\n", "measures:\n  most: {measure: max, field: value}\n")
OTHERS = (
    (*MEASURE, "the job file's measures say"),
    ("size: 1m", "size: 2m", "the key, the event time, the window"),
    ("key: key", "key: value", "the key, the event time, the window"),
    ("sum, field: value", "sum, field: other", "what a measure is computed from"),
)
"""What a job file may not say here: from, to, and what is told of it."""


def refuses(here: Side, there: Side, verb: str, text: str, others: tuple[tuple[str, str, str], ...]) -> None:
    """With each other job file, the dry run too."""
    for before, after, why in others:
        assert before in text
        here.flow.job_file.write_text(text.replace(before, after))
        for dry in (["--dry-run"], []):
            refused = here.run(there, *verb.split(), "--wait", "0", *dry, code=UsageError.exit_code)
            assert why in " ".join(refused.split())
            assert "put the job file back" in " ".join(refused.lower().split())


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["failover --force", "switchover"])
def test_with_another_job_file_nothing_is_fenced_released_or_claimed(regions: Regions, verb: str) -> None:
    """The generation's driver would refuse it, or mix rows; and the job would rest in both regions."""
    us, eu = regions.us, regions.eu
    text, schema = eu.flow.job_file.read_text(), eu.flow.job_file.parent / "event.avsc"
    more = json.loads(schema.read_text())
    more["fields"].append({"name": "other", "type": "int", "default": 0})
    schema.write_text(json.dumps(more))
    with arrived(regions) as driver:
        refuses(eu, us, verb, text, OTHERS)
        assert not candidates(eu.cluster, eu.job.name).by_id
        assert not rests(us)
        driver.epoch(us.produce(20))
        eu.await_arrival(us, f"{FIRST}:3")  # the mirror is not fenced
        eu.flow.job_file.write_text(text.replace("lateness: 1h", "lateness: 2h"))
        told = eu.run(us, *verb.split(), "--dry-run")
    assert told["parent"] == f"{FIRST}:3", "what is no part of a row may be another"


@pytest.mark.slow
def test_behind_a_release_another_job_file_is_refused_before_a_claim(regions: Regions) -> None:
    """And behind a claim before its promotion is asked for; with the right one it goes on."""
    us, eu = regions.us, regions.eu
    text = eu.flow.job_file.read_text()
    with arrived(regions):
        us.run(None, "release", "--to", "eu")
        refuses(eu, us, "switchover", text, OTHERS[1:2])
        assert not candidates(eu.cluster, eu.job.name).by_id
        eu.flow.job_file.write_text(text)
        eu.dies_at("claim-written", us, "switchover", "--wait", "0")
        refuses(eu, us, "switchover", text, OTHERS[1:2])
        [waits] = candidates(eu.cluster, eu.job.name).by_id.values()
        assert not waits.promoting
        eu.flow.job_file.write_text(text)
        assert eu.run(us, "switchover", "--wait", "0")["generation"] == str(waits.claim.generation)


@pytest.mark.slow
def test_behind_a_mirror_that_rests_nothing_is_released(regions: Regions) -> None:
    us, eu = regions.us, regions.eu
    with arrived(regions):
        assert eu._call(us, ["mirror", "pause", str(eu.flow.job_file)], {}).returncode == 0
        refused = eu.run(us, "switchover", "--wait", "0", code=UnavailableError.exit_code)
        assert "'cutwater mirror resume' first" in " ".join(refused.split())
        assert not rests(us)
        assert eu._call(us, ["mirror", "resume", str(eu.flow.job_file)], {}).returncode == 0
        assert eu.run(us, "switchover", "--wait", "5", code=UnavailableError.exit_code), "nobody promotes it"
        assert rests(us)


@pytest.mark.slow
def test_what_was_released_to_a_third_region_is_not_ours(regions: Regions) -> None:
    """It is no planned change here, however long ago it was."""
    us, eu = regions.us, regions.eu
    with arrived(regions):
        planned = us.run(None, "release", "--to", "ap", "--dry-run")
        assert (planned["token"], planned["released"], rests(us)) == (f"{FIRST}:2", None, False)
        assert "--to us: " in us.run(None, "release", "--to", "us", code=UsageError.exit_code)
        told = us.run(None, "release", "--to", "ap")
        assert (told["token"], bool(told["released"]), rests(us)) == (f"{FIRST}:2", True, True)
        assert "to region ap after" in us.run(None, "release", "--to", "eu", code=UsageError.exit_code)
        eu.await_arrival(us, f"{FIRST}:2")
        words = ["failover", str(eu.flow.job_file), "--dry-run", "--json"]

        def refused() -> bool:
            done = eu._call(us, words, OLD)
            return done.returncode == UsageError.exit_code and "released to region ap" in " ".join(
                done.stderr.split()
            )

        wait_until(refused, "the release to be copied", 60)
        forced = parsed(words, eu._call(us, [*words, "--force"], OLD).stdout)
    assert forced["planned"] is False
