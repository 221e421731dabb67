"""Drivers of generations that begin with a parent's state, and what survives them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.topics.candidates import candidates, parent_of, promoted
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.core.errors import UsageError
from cutwater.core.generations.start_state import StartState, is_claimed, require_at_work
from cutwater.core.job.job import WINDOW_KEY_SCHEMA
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Milestone
from cutwater.operations.generations.parent_changelog import changelog_problem
from cutwater_spark.seed.prepare import floor_of
from simulation.clients import partition_of
from simulation.disk import Disk
from simulation.job import HOUR_MS, JOB, SLIDING, key_bytes, partition_of_key, value_bytes
from simulation.log import Log
from simulation.processes import Process
from simulation.spark import Driver, Event, Habits

Window = tuple[str, int]
_keys = Codec(WINDOW_KEY_SCHEMA)
_values = {False: Codec(JOB.state_schema), True: Codec(SLIDING.state_schema)}


class Seed(NamedTuple):
    """What a generation takes over."""

    rows: dict[Any, Any]
    """(total, writer) by window; where definitions differ, values by pane."""
    watermark_ms: int


class HeirDisk(Disk):
    """The checkpoint of a generation, with the seed that it began with."""

    def __init__(self) -> None:
        super().__init__()
        self.seed: Seed | None = None


class HeirDriver(Driver):
    """Works for any generation while it is promoted, or may be; one that was claimed begins with a seed."""

    def __init__(
        self,
        process: Process,
        log: Log,
        disk: Disk,
        events: list[list[Event]],
        habits: Habits,
        clock: object,
        generation: Generation,
    ) -> None:
        self.generation, self.changelog = generation, topics.changelog(JOB.name, generation)
        self.partitions = len(log.topics.get(self.changelog, ()))
        self._disk = disk
        super().__init__(process, log, disk, events, habits, clock)

    def _run(self) -> None:
        cluster: Any = self._cluster
        known = candidates(cluster, JOB.name).by_id.get(self.generation)
        require_at_work(self.generation, promoted(cluster, JOB.name), known)
        if isinstance(self._disk, HeirDisk) and known is not None:
            self.parent = parent = parent_of(known.claim)
            seed = self._disk.seed or self._seed(known.claim, parent)
            self._disk.seed = self._disk.seed or seed
            self.origin = self._start_state(parent, self._disk.seed)
        super()._run()

    def _start_state(self, parent: Milestone, seed: Seed) -> StartState:
        return StartState.of(parent).raised(seed.watermark_ms)

    def _seed(self, claim: Claim, parent: Milestone) -> Seed:
        """What a Spark batch reads: the newest row of each key below the cut, above the horizon."""
        cluster: Any = self._cluster
        now_ms: Any = self._now_ms
        rows: dict[bytes, bytes] = {}
        for place, cut in parent.changelog_cut:
            self._process.pause()
            if (partition := partition_of(self._log, place)) is None:
                raise UsageError(f"{place.topic} is gone")
            for one in partition.records:
                if one.offset < cut:
                    rows.pop(one.key or b"", None)
                    if one.value is not None:
                        rows[one.key or b""] = one.value
        LogCheck(cluster).require(parent.evidence, parent.source_cut, f"milestone {parent.token}")
        # Asked last: hours may have passed. Nobody has snapshots here.
        if why := changelog_problem(cluster, JOB.name, parent, self.generation.region, now_ms):
            raise UsageError(why)
        return Seed(self._seed_rows(parent, rows), floor_of(cluster, claim, parent))

    def _seed_rows(self, parent: Milestone, kept: dict[bytes, bytes]) -> dict[Any, Any]:
        rows = {window_of(key): _row_of(value, self._sliding) for key, value in kept.items()}
        return {one: row for one, row in rows.items() if one[1] + HOUR_MS > parent.horizon_ms}

    def _aggregate(self, epoch: int, writer: int) -> list[list[tuple[bytes, bytes]]]:
        """Epoch 0 writes the whole seed; the attempt is not in the rows, as its epochs repeat exactly."""
        if not is_claimed(self.generation):
            return super()._aggregate(epoch, writer)
        assert isinstance(self._disk, HeirDisk)
        assert self._disk.seed is not None
        state = dict(self._disk.seed.rows)
        changed = dict.fromkeys(() if epoch else state)
        for one in range(epoch + 1):
            for key, at_ms, amount in self._was_read[one, self._checkpoint.plan(one).source_cut]:
                window = (key, at_ms - at_ms % HOUR_MS)
                state[window] = state.get(window, (0, 0))[0] + amount, 0
                if one == epoch:
                    changed[window] = None
        rows: list[list[tuple[bytes, bytes]]] = [[] for _ in range(self.partitions)]
        for window in changed:
            number = partition_of_key(window[0], self.partitions)
            rows[number].append((key_bytes(*window), value_bytes(*state[window], self._sliding)))
        return rows


@lru_cache(maxsize=2_000)
def window_of(key: bytes) -> Window:
    decoded = _keys.decode(key)
    return decoded["key"], protocol_records.millis(decoded["window_start"])


@lru_cache(maxsize=2_000)
def _row_of(value: bytes, sliding: bool) -> tuple[int, int]:
    decoded = _values[sliding].decode(value)
    return decoded["total"], decoded["writer"]
