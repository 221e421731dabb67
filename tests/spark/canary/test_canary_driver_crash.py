"""A canary's driver dies by kill -9 at every stage of the canary, beside a driver that goes on, and it goes on."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import candidates, promoted
from cutwater.core.canary.gate import Gate
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.generations.candidates import Candidate
from cutwater.core.protocol.chain import find_chain_faults
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Barrier, Milestone, Start
from cutwater.operations.generations.claims import Claims, GenerationRequest
from support.crashes import Armed, Crashes
from support.events import counting
from support.harness import GENERATION, Flow, flow, wait_until
from support.lineage import signals_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("shared_spark")]
DRIVER, SIGNAL, COMPARING = "cutwater_spark.driver", "cutwater.commit_signal", "cutwater.canary"
PIECE, BEHIND, PAIRS = 60, 6, 40
"""Events of a piece; pieces that the candidate is behind when it starts; pairs that its gate asks for."""
SEEDED = ("start-unwritten", "start-written", "seed-written", "seed-kept")
"""Claimed, and then while the parent's state is taken over."""
CATCHING_UP = (("rows-written", 3), ("barrier-written", 2))
"""At which epoch of its attempt. The first one has an event of each partition, and no partner."""


class Canary:
    """A job that goes on, and the processes of its canary."""

    def __init__(self, job: Flow) -> None:
        self.job, self.crashes = job, Crashes(job)
        self.made: list[dict[str, Any]] = []
        self.deaths = 0
        self._env: dict[str, str] = {}

    def more(self) -> None:
        """A piece of events, in an epoch of the promoted generation at least."""
        part = counting.events(PIECE, seed=len(self.made))
        self.made += part
        self.job.produce(part)

    def claim(self) -> None:
        claims = Claims(self.job.cluster, self.job.job, "local", now_ms)
        words = GenerationRequest(None, None, False, "a test", canary=Gate(PAIRS, 0, 0.0, 0))
        self.generation = claims.ask(words, UNREPLICATED, lambda _planned: None).claim.generation
        self._env = {"CUTWATER_GENERATION": str(self.generation)}

    def start(self, module: str) -> subprocess.Popen[bytes]:
        return self.job.start(module, **self._env)

    def attempts(self) -> int:
        """How many of its drivers have said that they start."""
        return len(signals_of(self.job, self.generation, Start))

    def start_driver(self) -> subprocess.Popen[bytes]:
        """Start its driver, and wait until it has fenced the one before."""
        before, driver = self.attempts(), self.start(DRIVER)
        wait_until(lambda: self.attempts() > before, f"its driver begins; logs in {self.job.folder}", 120)
        return driver

    def arm(self, module: str, point: str, times: int = 1) -> Armed:
        return self.crashes.arm(module, point, times, **self._env)

    def dies(self, point: str, times: int = 1) -> None:
        """Start its driver, and wait until it is dead at that point."""
        self.arm(DRIVER, point, times).wait()
        self.deaths += 1

    def kill(self, driver: subprocess.Popen[bytes]) -> None:
        """kill -9 of its driver, which runs."""
        assert driver.poll() is None, self.job.log(DRIVER).read_text()[-3_000:]
        driver.kill()
        assert driver.wait(30) == -signal.SIGKILL
        self.deaths += 1

    @property
    def known(self) -> Candidate:
        return candidates(self.job.cluster, self.job.job.name).by_id[self.generation]

    @property
    def compared(self) -> int:
        found = self.known.comparison
        return found.compared if found else 0

    def read(self) -> Cut:
        """The source cut of its newest barrier; empty before the first."""
        own = [one for one in self.job.barriers() if isinstance(one, Barrier)]
        cuts = [one.source_cut for one in own if one.generation == self.generation]
        return cuts[-1] if cuts else Cut()

    def live(self) -> Milestone:
        """The newest milestone of the commit stream."""
        last = promoted(self.job.cluster, self.job.job.name)
        assert last is not None
        return last

    def counted(self) -> dict[tuple[str, int], dict[str, Any]]:
        """Every event's window by DuckDB."""
        events = duckdb.from_df(pd.DataFrame(self.made))
        found = events.query(
            "e", 'select key, "at" - "at" % 60000, count(*), sum(value)::bigint from e group by all'
        )
        rows = found.fetchall()
        return {(key, start): {"ticks": ticks, "total": total} for key, start, ticks, total in rows}


@pytest.fixture
def canary(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Canary]:
    text = counting.job_text(unique("canary-crash"), per_epoch=10_000)
    with flow(broker.cluster, text, tmp_path, counting.SCHEMA) as job:
        yield Canary(job)


@pytest.mark.timeout(900)
def test_its_driver_dies_at_every_stage(canary: Canary) -> None:
    """Nine deaths in one canary. Each pair counts once, no row ever differs, and every event is counted once."""
    job = canary.job
    job.signal()
    old = job.driver()
    canary.more()
    job.wait_committed()
    canary.claim()
    for _ in range(BEHIND):
        canary.more()
        job.wait_committed()
    for point in SEEDED:
        canary.dies(point)
        assert (canary.read(), canary.known.newest) == (Cut(), None)
    fenced = canary.arm(SIGNAL, "stream-taken")
    for point, times in CATCHING_UP:
        canary.dies(point, times)
        assert canary.read().records
        assert not canary.read().covers(canary.live().source_cut), "it has caught up already"
    comparing = die_at_the_first_pair(canary)
    die_behind_the_decision(canary, fenced)
    assert comparing.wait(60) == 0, job.log(COMPARING).read_text()[-3_000:]
    promotion = canary.arm(SIGNAL, "promoted")
    driver = canary.start_driver()
    promotion.wait()
    assert canary.live().generation == canary.generation
    canary.kill(driver)
    canary.more()
    canary.start(SIGNAL)
    canary.start(DRIVER)
    assert_exact(canary, job.wait_committed())
    assert old.wait(60) != 0  # it ends by itself: another generation is promoted


def die_at_the_first_pair(canary: Canary) -> subprocess.Popen[bytes]:
    """Return the comparing process, which lives on."""
    assert canary.known.comparison is None
    driver, comparing = canary.start_driver(), canary.start(COMPARING)
    wait_until(lambda: canary.compared, f"the first pair; logs in {canary.job.folder}")
    canary.kill(driver)
    assert 1 <= canary.compared < PAIRS
    assert not canary.known.promoting
    return comparing


def die_behind_the_decision(canary: Canary, fenced: Armed) -> None:
    """The gate has decided, the old generation's signaller is fenced, and the canary's has died there."""
    driver = canary.start_driver()

    def decided() -> bool:
        if not canary.known.promoting:
            canary.more()
            wait_until(lambda: canary.read().records >= len(canary.made) or canary.known.promoting, "the piece")
        return fenced.mark.exists()

    wait_until(decided, f"the decision; logs in {canary.job.folder}", pause_s=0.3)
    fenced.wait()
    found = canary.known.comparison
    assert found is not None
    assert (found.verdict, canary.live().generation) == ("promote", GENERATION)
    canary.kill(driver)


def assert_exact(canary: Canary, newest: Milestone) -> None:
    """Of the canary's rows, of its comparison, and of the chain."""
    job, found = canary.job, canary.known.comparison
    assert newest.generation == canary.generation
    assert canary.deaths == len(SEEDED) + len(CATCHING_UP) + 3
    assert newest.attempt == canary.deaths  # one has died before it said that it starts
    assert newest.late == newest.rejected == 0
    assert job.state(newest) == canary.counted()
    assert found is not None
    assert (found.compared, found.differing, found.late, found.first) == (PAIRS, 0, 0, ())
    assert found.unpaired <= canary.deaths + 1  # the first epoch of an attempt cannot end at a cut
    assert list(find_chain_faults(job.milestones())) == []
