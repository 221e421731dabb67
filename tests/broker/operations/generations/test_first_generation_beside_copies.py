"""A first generation beside copies of another region's job: refused, unless it had begun before."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.config.settings import Settings, environment
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.writers.transactional_writer import Batch, TransactionalWriter
from cutwater.adapters.runtime.clock import now_ms
from cutwater.core.errors import UsageError
from cutwater.core.mirror.copy_progress import OriginPartition, initial_position
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Start
from cutwater.mirror.resync.resync import resync
from cutwater.operations.generations.first_generation import require_may_begin
from cutwater_spark.seed.parent import parent_milestone
from support.regions.mirroring import ORIGIN
from support.views.changelogs import Writing, make_job, until

FIRST, CLAIMED = Generation(1, "eu"), Generation(2, "eu", "5f0c21aa")


class Standby:
    """A region to which one milestone of another one's job was copied."""

    def __init__(self, cluster: Any, job: str) -> None:
        self.cluster, self.job = cluster, job
        require_may_begin(cluster, job, FIRST)  # there is no topic at all
        ensure_topics(cluster, mirror_records.mirror_topics(job, "us"))
        require_may_begin(cluster, job, FIRST)  # nothing is copied yet
        place = OriginPartition(topics.milestones(job), 0, "id", 1)
        self.copied(replace(initial_position(job, "us", place, 0, 0, 0), next=1, records=1))

    def copied(self, one: mirror_records.Mirrored) -> None:
        record = {"key": one.key, "value": protocol_records.encode(one)}
        self._writer(mirror_records.slot_id(self.job, "us", 0)).write_all(
            [Batch(mirror_records.positions(self.job), 0, [record])]
        )

    def write(self, topic: str, record: protocol_records.Record) -> None:
        ensure_topics(self.cluster, topics.generation_topics(self.job, FIRST, 1))
        self._writer(f"{self.job}.test").write(topic, [protocol_records.encode(record)])

    def _writer(self, name: str) -> TransactionalWriter:
        made = TransactionalWriter(self.cluster, name)
        made.initialise()
        return made

    def require_refused(self, why: str) -> None:
        with pytest.raises(UsageError, match=why):
            require_may_begin(self.cluster, self.job, FIRST)
        require_may_begin(self.cluster, self.job, CLAIMED)


def test_no_first_generation_where_a_job_is_only_copied(broker: Any, tmp_path: Path) -> None:
    """Whatever topics are there; once the copied stream is given up it may begin, and once begun it may go on."""
    job = make_job(tmp_path)[0].name
    here = Standby(broker.cluster, job)
    here.require_refused("copied here from us")
    # What a driver of another generation has said tells nothing of the first one.
    here.write(topics.barriers(job), Start(job, CLAIMED, 1, 1))
    here.require_refused("copied here from us")
    here.write(topics.candidates(job), Claim(job, CLAIMED, b"", 2, 0, "", 0, origin="us"))
    here.require_refused(f"CUTWATER_GENERATION={CLAIMED}")
    here.write(topics.barriers(job), Start(job, FIRST, 1, 1))
    require_may_begin(here.cluster, job, FIRST)


@pytest.mark.slow
def test_the_copied_stream_given_up(broker: Any, tmp_path: Path) -> None:
    """With nothing left of the other region it may begin; copied rows alone tell that its job is at work."""
    here = Standby(broker.cluster, make_job(tmp_path)[0].name)
    rows = OriginPartition(topics.changelog(here.job, Generation(1, "us")), 0, "id", 1)
    here.copied(replace(initial_position(here.job, "us", rows, 0, 0, 0), next=5, records=5))
    resync(here.cluster, here.job, "us", topics.milestones(here.job), now_ms)
    here.require_refused("copied here from us")
    resync(here.cluster, here.job, "us", rows.topic, now_ms)
    require_may_begin(here.cluster, here.job, FIRST)


@pytest.mark.slow
def test_a_region_that_is_to_aggregate_beside_the_other_says_so(broker: Any, tmp_path: Path) -> None:
    """By that region's name; not while a claim goes on with the other's job. Begun, it needs the word no more."""
    here = Standby(broker.cluster, make_job(tmp_path)[0].name)
    here.require_refused("CUTWATER_BEGIN_BESIDE=us")
    require_may_begin(here.cluster, here.job, FIRST, {"us"})
    with pytest.raises(UsageError, match="copied here from us"):
        require_may_begin(here.cluster, here.job, FIRST, {"ap"})
    here.write(topics.candidates(here.job), Claim(here.job, CLAIMED, b"", 2, 0, "", 0, origin="us"))
    with pytest.raises(UsageError, match=f"CUTWATER_GENERATION={CLAIMED}"):
        require_may_begin(here.cluster, here.job, FIRST, {"us"})
    here.write(topics.barriers(here.job), Start(here.job, FIRST, 1, 1))
    require_may_begin(here.cluster, here.job, FIRST)


@pytest.mark.slow
def test_signaller_and_driver_heed_that_word(broker: Any, tmp_path: Path) -> None:
    """By the setting; without it the signaller ends with exit code 2."""
    job, path = make_job(tmp_path)
    here = Standby(broker.cluster, job.name)
    here.write(topics.barriers(job.name), Start(job.name, CLAIMED, 1, 1))
    log = tmp_path / "log"

    def signaller(**more: str) -> subprocess.Popen[bytes]:
        env = {**os.environ, **environment(broker.cluster), "CUTWATER_REGION": "eu", **more}
        with log.open("ab") as out:
            command = [sys.executable, "-m", "cutwater.commit_signal", str(path)]
            return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    assert signaller().wait(60) == UsageError.exit_code
    assert "CUTWATER_BEGIN_BESIDE=us" in log.read_text()
    running = signaller(CUTWATER_BEGIN_BESIDE="us")
    try:
        until(lambda: " ready " in log.read_text() or running.poll() is not None, "the signaller")
        assert running.poll() is None, log.read_text()
    finally:
        running.kill()
        running.wait(20)
    settings = Settings(bootstrap_servers=broker.cluster.bootstrap, region="eu")
    with pytest.raises(UsageError, match="CUTWATER_BEGIN_BESIDE=us"):
        parent_milestone(job, settings)
    assert parent_milestone(job, settings.model_copy(update={"begin_beside": "us"})) is None


def test_a_region_with_milestones_of_its_own_goes_on(broker: Any, tmp_path: Path) -> None:
    """It aggregates events of its own, beside the region that is copied into it."""
    job, _ = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    writing.epoch([])
    Standby(broker.cluster, job.name)
    require_may_begin(broker.cluster, job.name, Generation(1, ORIGIN))
    for topic in (topics.changelog(job.name, writing.generation), job.topic):
        with pytest.raises(UsageError, match="are no copies"):
            resync(broker.cluster, job.name, ORIGIN, topic, now_ms)
    writing.close()
