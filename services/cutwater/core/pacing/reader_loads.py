"""Loads of a candidate's rows by readers, before its promotion: what each reader says of its own on the trail.

A promotion may wait for them, so that readers have little left to read behind it. No invariant depends on that: a
reader that says nothing, or ends in the middle, is not waited for without a bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.recovery_log import PRELOAD, Recovery

LOADING, LOADED, GIVEN_UP = "loading", "loaded", "given up"
STATES = (LOADING, LOADED, GIVEN_UP)
ANNOUNCED_MS = 6_000
"""The time in which every reader says that it loads, once the first one has: each looks every two seconds."""


class ReaderLoad(NamedTuple):
    generation: Generation
    reader: str
    """The service, as in `rehydrator`."""
    process: str
    """Its host and process id."""
    state: str
    """One of `STATES`."""
    epoch: int
    """Of the candidate's milestone up to which its rows are loaded."""
    at_ms: int

    @property
    def name(self) -> str:
        return f"{self.reader} on {self.process}"


def load_of(one: Recovery) -> ReaderLoad | None:
    """Return the load of a record of the trail; None if it is another record, or of a newer version."""
    facts = {fact.name: fact.value for fact in one.found}
    reader, state, epoch = (facts.get(name, "") for name in ("reader", "state", "epoch"))
    if one.service != PRELOAD or state not in STATES or not epoch.isdecimal():
        return None
    return ReaderLoad(one.generation, reader, one.process, state, int(epoch), one.begun_ms)


def newest_loads(records: Iterable[Recovery], generation: Generation) -> list[ReaderLoad]:
    """Return what each reader has last said of a candidate, by name. `records`: in the order of the trail.

    A load that has not ended is dropped if the same service starts later on that host: its process may have died.
    """
    found: dict[str, ReaderLoad] = {}
    for record in records:
        load = load_of(record)
        if load is not None and load.generation == generation and not _is_older(load, found.get(load.name)):
            found[load.name] = load
        host = _host(record.process)
        for one in [one for one in unfinished(found.values()) if one.reader == record.service]:
            if _host(one.process) == host and one.process != record.process:
                del found[one.name]
    return [found[name] for name in sorted(found)]


def _is_older(load: ReaderLoad, known: ReaderLoad | None) -> bool:
    """Return whether a reader said this before `known`. Each record has its own producer, so order is not kept."""
    return known is not None and (load.at_ms, load.state != LOADING) < (known.at_ms, known.state != LOADING)


def _host(process: str) -> str:
    return process.rpartition(":")[0]


def unfinished(loads: Iterable[ReaderLoad]) -> list[ReaderLoad]:
    return [one for one in loads if one.state == LOADING]


def all_announced(loads: Iterable[ReaderLoad], now_ms: int) -> bool:
    """Return whether every reader that loads has said so: the first one did long enough ago."""
    first_ms = min((one.at_ms for one in loads), default=now_ms)
    return now_ms - first_ms >= ANNOUNCED_MS
