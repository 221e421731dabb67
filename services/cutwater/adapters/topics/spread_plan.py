"""The topic `<job>.spread`: the spreading plan, and which producers work with which version."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.checks.replication import Replication
from cutwater.core.errors import ProtocolError
from cutwater.core.protocol import topics
from cutwater.core.skew.spread_plan import FORGOTTEN_MS, Adoption, Spread

PLAN_KEY = b"plan"
PRODUCER_PREFIX = b"producer/"


def producer_key(producer: str) -> bytes:
    return PRODUCER_PREFIX + producer.encode()


class SpreadState(NamedTuple):
    """What the topic holds."""

    plan: Spread | None = None
    """The newest version; None before the first."""
    adoptions: tuple[Adoption, ...] = ()
    """By producer, the newest of each."""


NO_PLAN = SpreadState()


def fold_record(state: SpreadState, key: bytes | None, value: bytes | None) -> SpreadState:
    """Return the state after one more record. Raises ProtocolError for a record that does not belong there."""
    if key is not None and key.startswith(PRODUCER_PREFIX):
        name = key.removeprefix(PRODUCER_PREFIX).decode()
        others = tuple(one for one in state.adoptions if one.producer != name)
        return state._replace(adoptions=(*others, _adoption(value)) if value is not None else others)
    record = protocol_records.decode(value or b"")
    if not isinstance(record, Spread):
        raise ProtocolError(f"a {type(record).__name__} does not belong on the topic of the spreading plan")
    # A writer that was fenced too late cannot go back: versions only grow.
    return state if state.plan and state.plan.version >= record.version else state._replace(plan=record)


def _adoption(value: bytes) -> Adoption:
    record = protocol_records.decode(value)
    if not isinstance(record, Adoption):
        raise ProtocolError(f"a {type(record).__name__} is no word of a producer about the spreading plan")
    return record


def read_spread(cluster: Cluster, job: str) -> SpreadState:
    """Return what the topic holds. Raises UsageError if it does not exist, UnavailableError without a broker."""
    topic = topics.spread(job)
    partition_count(cluster, topic)
    consumer, state = make_consumer(cluster), NO_PLAN
    try:
        low, high = bounds(consumer, topic, 0)
        for message in read_range(consumer, topic, 0, low) if low < high else ():
            state = fold_record(state, message.key(), message.value())
    finally:
        consumer.close()
    return state


class SpreadPlans:
    """Writes versions of the plan, one process at a time; the topic is made if a job of an earlier version has
    none."""

    def __init__(self, cluster: Cluster, job: str, copies: Replication) -> None:
        self._cluster = cluster
        self._job = job
        self._copies = copies

    def change(self, make: Callable[[SpreadState], Spread], now_ms: int) -> Spread:
        """Write the version that `make` returns for the newest state, and return it.

        Producers that were silent for a day are removed with it. Raises FencedError if another process changes the
        plan meanwhile: nothing is written then. Raises as `make` does.
        """
        # Producers and commands only read the plan.
        from cutwater.adapters.kafka.writers.transactional_writer import Batch, TransactionalWriter

        topic = topics.spread(self._job)
        admin.ensure_topics(self._cluster, [topics.spread_topic(self._job)], self._copies)
        writer = TransactionalWriter(self._cluster, topics.spread_id(self._job))
        writer.initialise()  # before the read: an older process writes nothing after it
        state = read_spread(self._cluster, self._job)
        made = make(state)
        records = [{"key": PLAN_KEY, "value": protocol_records.encode(made)}]
        gone = [one.producer for one in state.adoptions if now_ms - one.at_ms > FORGOTTEN_MS]
        writer.write_all([Batch(topic, 0, [*records, *map(_removed, gone)])])
        return made


def _removed(producer: str) -> dict[str, bytes]:
    return {"key": producer_key(producer)}
