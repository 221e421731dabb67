"""The recovery trail on its topic. Writing it never blocks or fails a service's work."""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cutwater.adapters.avro.codec import protocol_codec
from cutwater.adapters.avro.protocol_records import millis
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.single_record import newest_values, write_record
from cutwater.adapters.runtime.clock import now_ms
from cutwater.core.cadence.decisions import Decision
from cutwater.core.pacing.reader_loads import ReaderLoad, newest_loads
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.recovery_log import (
    CADENCE,
    PRELOAD,
    STOPPED,
    Fact,
    ProcessIdentity,
    Recovery,
    StartRecord,
    Took,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

WRITE_S = 10.0
"""Maximum time until a record is acknowledged."""
LEAVE_S = 5.0
"""Maximum time that a process waits for that before it ends."""
LOADS_MAX = 500
"""The newest records of the trail among which loads of a candidate are looked for."""


class Trail:
    """Writes the records of starts. A record that cannot be written is counted and logged, nothing else."""

    def __init__(self, cluster: Cluster, log: Any, registry: CollectorRegistry | None = None) -> None:
        from prometheus_client import Counter  # readers of the trail need none

        self._cluster = cluster
        self._log = log
        self._unwritten = Counter(
            "starts_unwritten",
            "Starts missing in the recovery trail, as it could not be written.",
            namespace="cutwater",
            registry=registry,
        )
        self.unwritten = 0

    def write(self, one: Recovery) -> None:
        """Write in the background; for a failed start wait up to `LEAVE_S`, since the process ends."""
        thread = threading.Thread(target=self._guarded, args=(one,), name="trail", daemon=True)
        thread.start()
        if one.outcome == STOPPED:
            thread.join(LEAVE_S)

    def _guarded(self, one: Recovery) -> None:
        try:
            write_record(self._cluster, topics.history(one.job), encode(one), WRITE_S)
        except Exception as error:  # any: the service's work does not depend on it
            self.unwritten += 1
            self._unwritten.inc()
            self._log.warning("the recovery trail was not written", error=str(error)[:500])


def account(
    service: str,
    job: str,
    generation: Generation,
    cluster: Cluster,
    log: Any,
    registry: CollectorRegistry | None = None,
) -> StartRecord:
    """Return the account of this process's start. `registry`: the registry to count failed writes in."""
    who = ProcessIdentity(job, generation, service, f"{socket.gethostname()}:{os.getpid()}")
    return StartRecord(who, now_ms, time.monotonic, Trail(cluster, log, registry).write)


def record_decision(
    job: str, generation: Generation, cluster: Cluster, log: Any, decision: Decision, attempt: int = 0
) -> None:
    """Write a decision of the cadence controller, in the background."""
    log.info("cadence", reason=decision.reason, **decision.sets)
    record = account(CADENCE, job, generation, cluster, log)
    record.record_facts(**decision.facts())
    record.record_decision(decision.reason, attempt)
    record.running()


def record_load(
    reader: str, job: str, cluster: Cluster, log: Any, generation: Generation, state: str, epoch: int
) -> None:
    """Write in the background what a reader says of its load of a candidate (`ReaderLoad`)."""
    record = account(PRELOAD, job, generation, cluster, log)
    record.record_facts(reader=reader, state=state, epoch=epoch)
    record.record_decision(f"{reader}: {generation} is {state}, up to epoch {epoch}")
    record.running()


def reader_loads(cluster: Cluster, job: str, generation: Generation) -> list[ReaderLoad]:
    """Return what each reader has last said of its load of a candidate. Raises UsageError without the topic."""
    return newest_loads(history(cluster, job, LOADS_MAX), generation)


def encode(one: Recovery) -> bytes:
    plain = {
        **asdict(one),
        "generation": str(one.generation),
        "found": [fact._asdict() for fact in one.found],
        "steps": [step._asdict() for step in one.steps],
    }
    return protocol_codec("recovery").encode(plain)


def decode(data: bytes) -> Recovery:
    """Decode a record of the trail. Raises UsageError for bytes of another schema."""
    plain = protocol_codec("recovery").decode(data)
    return Recovery(
        **{
            **plain,
            "generation": Generation.parse(plain["generation"]),
            "begun_ms": millis(plain["begun_ms"]),
            "found": tuple(Fact(**one) for one in plain["found"]),
            "steps": tuple(Took(**one) for one in plain["steps"]),
        }
    )


def history(cluster: Cluster, job: str, records: int) -> list[Recovery]:
    """Return the newest `records` records of the trail, in log order."""
    return [decode(value) for value in newest_values(cluster, topics.history(job), records)]
