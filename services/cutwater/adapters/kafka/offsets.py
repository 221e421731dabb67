"""End offsets of partitions by one request for all. A consumer needs two requests for each partition."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Asked

from cutwater.adapters.kafka.client import ANSWER_S, TIMEOUT_S, make_consumer, retry_unknown_leader
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.connect import replacement
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.log_evidence import UNKNOWN, LogEnd

WRITTEN, COMMITTED = "read_uncommitted", "read_committed"
_UNANSWERED = (
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,  # nothing was sent, as there was no connection yet
    KafkaError._TRANSPORT,
    KafkaError._DESTROY_BROKER,
)
"""Errors of a leader that seems to have died: the next one may answer."""


class Offsets:
    """Queries offsets over its own connections, which stay open. Any thread may call it; queries run one by one.

    It uses consumers and no admin client: librdkafka 2.16 crashes the process if a leader becomes known just at
    the time-out of `list_offsets`, or beside another such request. Each query raises UnavailableError if the
    brokers do not answer or a partition has no leader; UsageError if a topic is unknown for all of `patience_s`.
    """

    def __init__(self, cluster: Cluster, patience_s: float = TIMEOUT_S) -> None:
        self._patience_s, self._answer_s = patience_s, min(patience_s, ANSWER_S)
        self._make = {
            isolation: partial(make_consumer, cluster, **{"isolation.level": isolation})
            for isolation in (WRITTEN, COMMITTED)
        }
        self._consumers: dict[str, Consumer] = {}
        """By isolation level; created when needed."""
        self._one_asks = threading.Lock()

    def topic_ends(self, topic: str, partitions: int) -> dict[int, int]:
        """Return the next offset of each partition, open transactions included."""
        places = [TopicPartition(topic, number) for number in range(partitions)]
        found = self._patiently(places, WRITTEN)
        return {place.partition: end for place, end in found.items()}

    def written_ends(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the next offset of each place, open transactions included."""
        return self._patiently(places, WRITTEN) if places else {}

    def committed_ends(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end of each place under `read_committed`: an open transaction hides what follows it."""
        return self._patiently(places, COMMITTED) if places else {}

    def topic_bounds(self, topic: str, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return first offset and end of each partition, open transactions included."""
        places = [TopicPartition(topic, number) for number in partitions]
        starts = self._patiently(places, WRITTEN, OFFSET_BEGINNING)
        ends = self._patiently(places, WRITTEN)
        return {place.partition: (starts[place], ends[place]) for place in places}

    def ends_with_epochs(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, LogEnd]:
        """Return the next offset of each place, open transactions included, and its leader epoch."""
        return self._query(places, WRITTEN) if places else {}

    def _patiently(
        self, places: Sequence[TopicPartition], isolation: str, at: int = OFFSET_END
    ) -> dict[TopicPartition, int]:
        return {place: one.end for place, one in self._query(places, isolation, at).items()}

    def _query(
        self, places: Sequence[TopicPartition], isolation: str, at: int = OFFSET_END
    ) -> dict[TopicPartition, LogEnd]:
        named = sorted({place.topic for place in places})
        with self._one_asks:
            if isolation not in self._consumers:
                self._consumers[isolation] = self._make[isolation]()

        def look() -> None:
            for topic in named:
                with self._one_asks:
                    self._consumers[isolation].list_topics(topic, timeout=self._answer_s)

        doing = f"reading the ends of {', '.join(named)}"
        try:
            return retry_unknown_leader(doing, lambda: self._ask(places, isolation, at), look, self._patience_s)
        except UnavailableError:
            with self._one_asks:
                self._consumers[isolation] = replacement(self._consumers[isolation], self._make[isolation])
            raise

    def _ask(self, places: Sequence[TopicPartition], isolation: str, at: int) -> dict[TopicPartition, LogEnd]:
        with self._one_asks:
            consumer = self._consumers[isolation]
            consumer.poll(0)  # serves errors since the last query; no other call does
            answers = self._answers(consumer, [Asked(*place, at) for place in places])
        for one in answers:
            if one.error is not None:
                raise KafkaException(_passing(one.error))
            if one.offset < 0:
                # Seen on connections that break during an answer: neither an error nor an offset. Retry.
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"no offset reported for {one}"))
        return {TopicPartition(one.topic, one.partition): _log_end(one) for one in answers}

    def _answers(self, consumer: Consumer, asked: list[Asked]) -> list[Asked]:
        try:
            return list(consumer.offsets_for_times(asked, self._answer_s))
        except KafkaException as error:
            raise KafkaException(_passing(error.args[0])) from None


def _passing(error: KafkaError) -> KafkaError:
    """Turn the error of a silent leader into that of an unknown leader: the next one may answer."""
    return KafkaError(KafkaError.LEADER_NOT_AVAILABLE, error.str()) if error.code() in _UNANSWERED else error


def _log_end(told: Any) -> LogEnd:
    return LogEnd(told.offset, UNKNOWN if told.leader_epoch is None else told.leader_epoch)
