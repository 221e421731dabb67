"""Drivers of generations that compute different things, each with its own job file over a model of Spark."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec, crc64
from cutwater.adapters.topics.candidates import candidates
from cutwater.core.generations.seed_change import SeedRow
from cutwater.core.generations.start_state import StartState, is_claimed
from cutwater.core.job.job import WINDOW_KEY_SCHEMA
from cutwater.core.protocol.records import Milestone
from cutwater_spark.seed.parent import Seeding, seeding_of, start_state
from simulation.changing.definitions import Definition, Pane, State, Values
from simulation.heirs import HeirDisk, HeirDriver, Seed
from simulation.job import partition_of_key
from simulation.spark import Event

_keys = Codec(WINDOW_KEY_SCHEMA)
_CODECS: dict[str, Codec] = {}


class ChangingDriver(HeirDriver):
    """Of a generation with a definition of its own, which its seed is made for."""

    def __init__(self, *args: Any, definition: Definition) -> None:
        self.definition = definition
        super().__init__(*args)

    def _fingerprint(self) -> str:
        return crc64(self.job.state_schema).hex()

    def _start_state(self, parent: Milestone, seed: Seed) -> StartState:
        return start_state(self._cluster, self.job, self.generation, parent, seed.watermark_ms)  # type: ignore[arg-type]

    def _seed_rows(self, parent: Milestone, kept: dict[bytes, bytes]) -> dict[Any, Any]:
        """As the SQL of Spark does it: a place for each row, and what falls on one place is merged. A place that
        lacks a row is left out."""
        cluster: Any = self._cluster
        candidate = candidates(cluster, self.job.name).require(self.generation)
        seeding = seeding_of(cluster, self.job, candidate, parent)
        values = _codec(seeding.before.state_schema)
        found: State = {}
        for key, value in kept.items():
            self._place(found, seeding, pane_of(key), values.decode(value))
        above_ms = seeding.change.horizon_ms(parent.horizon_ms)
        return {pane: of for pane, of in found.items() if pane[2] > above_ms}

    def _place(self, found: State, seeding: Seeding, pane: Pane, values: Values) -> None:
        place = tuple(seeding.change.place(SeedRow(*pane)))
        taken = {new: values[old] if old else None for new, old in seeding.change.columns}
        found[place] = self.definition.merged(found.get(place), taken)

    def _aggregate(self, epoch: int, _writer: int) -> list[list[tuple[bytes, bytes]]]:
        state: State = {}
        if is_claimed(self.generation):
            assert isinstance(self._disk, HeirDisk)
            assert self._disk.seed is not None
            state |= self._disk.seed.rows  # type: ignore[arg-type]
        changed = [] if epoch else list(state)
        for one in range(epoch + 1):
            events: list[Event] = self._was_read[one, self._checkpoint.plan(one).source_cut]
            counted = self.definition.add(state, events)
            if one == epoch:
                changed = list(dict.fromkeys([*changed, *counted]))
        values = _codec(self.job.state_schema)
        rows: list[list[tuple[bytes, bytes]]] = [[] for _ in range(self.partitions)]
        for pane in changed:
            found = key_of(pane), values.encode(state[pane])
            rows[partition_of_key(pane[0], self.partitions)].append(found)
        return rows


def _codec(schema: dict[str, Any]) -> Codec:
    text = json.dumps(schema)
    if text not in _CODECS:
        _CODECS[text] = Codec(schema)
    return _CODECS[text]


@lru_cache(maxsize=200)
def key_of(pane: Pane) -> bytes:
    key, start_ms, end_ms = pane
    return _keys.encode({"key": key, "window_start": start_ms, "window_end": end_ms})


@lru_cache(maxsize=2_000)
def pane_of(key: bytes) -> Pane:
    found = _keys.decode(key)
    return found["key"], *(protocol_records.millis(found[name]) for name in ("window_start", "window_end"))
