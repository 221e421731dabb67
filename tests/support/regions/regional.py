"""Two regions with a broker each: a job's protocol in both, written by hand where Spark would write it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import crc64
from cutwater.adapters.config.settings import environment
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics import commit_stream
from cutwater.adapters.topics.candidates import candidates
from cutwater.adapters.topics.mirror_topics import has_mirror, last_arrival
from cutwater.core.errors import FencedError
from cutwater.core.protocol import topics
from cutwater.core.protocol.chain import find_chain_faults
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import from_origin
from cutwater.core.protocol.records import Barrier, Claim, Committed, Milestone, Start
from cutwater.core.protocol.stream_audit import check
from support.cli.jsonshapes import parsed
from support.events import counting
from support.events.counting import events
from support.harness import Flow, flow, wait_until

FIRST = Generation(1, "us")
FAILOVER_POINTS = ("mirror-fenced", "topics-made", "changelog-made", "claim-written", "promotion-asked")
RELEASE_POINTS = ("writers-fenced", "release-written")
"""Where whoever asks for it may die, in the order in which he comes there."""


class Driver:
    """Writes what a driver of one generation would write, but no rows."""

    def __init__(self, side: Side, generation: Generation, partitions: int = 2) -> None:
        self._side, self._generation, self._partitions, self._next = side, generation, partitions, 0
        self._writer = TransactionalWriter(side.cluster, topics.driver_id(side.job.name, generation))
        self._writer.initialise()
        self._tell(Start(side.job.name, generation, 1, 1))

    def epoch(self, source_cut: Cut, origin_cut: Cut = Cut(), **changes: Any) -> None:  # noqa: B008 - immutable
        job, number = self._side.job.name, self._next
        self._next += 1
        told: dict[str, Any] = {
            "job": job,
            "generation": self._generation,
            "attempt": 1,
            "epoch": number,
            "source_cut": source_cut,
            "origin_cut": origin_cut,
            "changelog_cut": Cut.of_topic(topics.changelog(job, self._generation), [0] * self._partitions),
            "watermark_ms": 0,
            "horizon_ms": 0,
            "rows": 0,
            "digest": 0,
            "events": 20,
            "rejected": 0,
            "late": 0,
            "skew_ms": 0,
            "schema_fingerprint": crc64(self._side.job.state_schema).hex(),
            "definition": self._side.job.fingerprint,
            "epoch_started_ms": 1,
            "written_ms": now_ms(),
            "partition_rows": (0,) * self._partitions,
            "partition_digests": (0,) * self._partitions,
        }
        self._tell(Barrier(**told | changes), Committed(job, self._generation, 1, number, 3))

    def _tell(self, *signals: protocol_records.Record) -> None:
        self._writer.write(topics.barriers(self._side.job.name), [protocol_records.encode(one) for one in signals])


class Side:
    """One region: its cluster, and the processes of the job there."""

    def __init__(self, region: str, flow: Flow) -> None:
        self.region, self.flow, self.job, self.cluster = region, flow, flow.job, flow.cluster
        self._made = 0
        ensure_topics(
            flow.cluster,
            topics.generation_topics(self.job.name, Generation(1, region), self.job.shards.partitions),
        )

    def env(self, other: Side | None = None) -> dict[str, str]:
        own = {"CUTWATER_REGION": self.region, **environment(self.cluster)}
        if other is None:
            return own
        theirs = {
            name.replace("CUTWATER_", "CUTWATER_ORIGIN_"): value
            for name, value in environment(other.cluster).items()
        }
        return {**own, **theirs, "CUTWATER_ORIGIN_REGION": other.region}

    def signal(self, generation: Generation) -> subprocess.Popen[bytes]:
        return self.flow.start("cutwater.commit_signal", **self.env(), CUTWATER_GENERATION=str(generation))

    @contextmanager
    def mirroring(self, other: Side) -> Iterator[subprocess.Popen[bytes]]:
        """A mirror of the other region as a process; ended when the block is left, if it still lives."""
        process = self.flow.start("cutwater.mirror", **self.env(other))
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)

    def await_arrival(self, other: Side, token: str) -> None:
        log = self.flow.log("cutwater.mirror")

        def arrived() -> bool:
            assert " stopped " not in log.read_text(), log.read_text()[-2_000:]
            if not has_mirror(self.cluster, self.job.name):
                return False
            last = last_arrival(self.cluster, self.job.name, other.region)
            return last is not None and str(last.token) == token

        wait_until(arrived, f"the arrival of {token}", 90)

    def run(self, other: Side | None, verb: str, *more: str, code: int = 0) -> Any:
        """A verb of the command line in this region; what it prints, from JSON."""
        done = self._call(other, [verb, str(self.flow.job_file), *more, "--json"], {})
        assert done.returncode == code, done.stderr
        return parsed([verb, *more], done.stdout) if code == 0 else done.stderr

    def dies_at(self, point: str, other: Side | None, verb: str, *more: str) -> None:
        """The same with kill -9 at a crash point, which it must come to."""
        mark = self.flow.folder / f"{verb}-died-at-{point}"
        crash = {"CUTWATER_CRASH_POINT": point, "CUTWATER_CRASH_MARK": str(mark)}
        done = self._call(other, [verb, str(self.flow.job_file), *more], crash)
        assert mark.exists(), f"{verb} did not come to {point}: {done.stdout}{done.stderr}"
        assert done.returncode == -signal.SIGKILL

    def _call(
        self, other: Side | None, words: list[str], more: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cutwater.cli.main", *words]
        env = {**os.environ, **self.env(other), "CUTWATER_FAILOVER_MIN_AGE_S": "30", **more}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=180, check=False)

    def tokens(self) -> list[str]:
        return [str(one.token) for one, _ in commit_stream.milestones(self.cluster, self.job.name)]

    def await_token(self, token: str) -> None:
        wait_until(
            lambda: token in self.tokens(), lambda: f"{token} on the stream of {self.region}: {self.tokens()}", 90
        )

    def produce(self, count: int) -> Cut:
        """Events into the region's own source; its end behind them."""
        self._made += 1
        self.flow.produce(events(count, seed=self._made))
        return self.end(self.job.topic)

    def end(self, topic: str) -> Cut:
        return commit_stream.source_end(self.cluster, topic)


def fenced(process: subprocess.Popen[bytes]) -> bool:
    """It leaves by itself, with the exit code of who was replaced."""
    return process.wait(60) == FencedError.exit_code


class Regions:
    """A job that began in `us`, and what has become of it."""

    def __init__(self, us: Side, eu: Side) -> None:
        self.us, self.eu = us, eu
        self.source = us.job.topic
        self.copy = from_origin(us.job.topic, "us")
        self.forked_at: Milestone

    def begin(self, epochs: int) -> Driver:
        """The first generation with its signaller, at milestone `epochs`."""
        driver = Driver(self.us, FIRST)
        self.us.signal(FIRST)
        for _ in range(epochs):
            driver.epoch(self.us.produce(40))
        self.us.await_token(f"{FIRST}:{epochs}")
        self.forked_at = newest(self.us)
        return driver

    def read_there(self) -> dict[int, int]:
        """How far `us` had read its source at the fork."""
        return local(self.forked_at.source_cut, self.source)


@contextmanager
def two_regions(us: Cluster, eu: Cluster, folder: Path, name: str) -> Iterator[Regions]:
    """No process of either is left afterwards."""
    text = counting.job_text(name)
    with ExitStack() as stack:
        first = stack.enter_context(flow(us, text, folder / "us", counting.SCHEMA))
        second = stack.enter_context(flow(eu, text, folder / "eu", counting.SCHEMA))
        yield Regions(Side("us", first), Side("eu", second))


def newest(side: Side) -> Milestone:
    return commit_stream.milestones(side.cluster, side.job.name)[-1][0]


def require_whole(side: Side) -> None:
    found = commit_stream.milestones(side.cluster, side.job.name)
    assert not list(find_chain_faults(found))
    assert not check(found)


def local(cut: Cut, topic: str) -> dict[int, int]:
    return {place.partition: offset for place, offset in cut if place.topic == topic}


def claim_of(side: Side, generation: Generation) -> Claim:
    return candidates(side.cluster, side.job.name).require(generation).claim
