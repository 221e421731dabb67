"""Where partitions end: one request for all of them. A consumer's way takes two for each, one after another."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Asked
from confluent_kafka.admin import AdminClient, OffsetSpec

from cutwater.adapters.cluster import Cluster
from cutwater.adapters.kafka import TIMEOUT_S, failure, patiently
from cutwater.adapters.reaching import another, made
from cutwater.core.cuts import TopicPartition
from cutwater.core.errors import UnavailableError


class Ends:
    """Asks for ends, over connections of its own that stay. Any thread may ask; they are answered one by one.

    Each question raises UnavailableError when the brokers do not answer, or nobody leads a partition; UsageError
    where a topic is not known for all of `patience_s`.
    """

    def __init__(self, cluster: Cluster, patience_s: float = TIMEOUT_S) -> None:
        self._patience_s = patience_s
        self._make = partial(made, cluster, AdminClient, {})
        self._admin: AdminClient = self._make()
        # In librdkafka 2.16 two questions at once can end the process: what a client learns of the leaders of one
        # question's partitions answers the other, and frees what that one's thread still sets up.
        self._one_asks = threading.Lock()

    def of(self, topic: str, partitions: int) -> dict[int, int]:
        """The next offset of each partition: what has been written, in open transactions too."""
        places = [TopicPartition(topic, number) for number in range(partitions)]
        found = self._patiently(places, IsolationLevel.READ_UNCOMMITTED)
        return {place.partition: end for place, end in found.items()}

    def written(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offset of each: what has been written, in open transactions too."""
        return self._patiently(places, IsolationLevel.READ_UNCOMMITTED) if places else {}

    def committed(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The end of each as `read_committed` sees it: an open transaction hides what follows it."""
        return self._patiently(places, IsolationLevel.READ_COMMITTED) if places else {}

    def kept(self, topic: str, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """First offset and end of each partition, open transactions included."""
        places = [TopicPartition(topic, number) for number in partitions]
        starts = self._patiently(places, IsolationLevel.READ_UNCOMMITTED, OffsetSpec.earliest())
        ends = self._patiently(places, IsolationLevel.READ_UNCOMMITTED)
        return {place.partition: (starts[place], ends[place]) for place in places}

    def _patiently(
        self, places: Sequence[TopicPartition], isolation: IsolationLevel, of: OffsetSpec | None = None
    ) -> dict[TopicPartition, int]:
        named = sorted({place.topic for place in places})

        def look() -> None:
            for topic in named:
                with self._one_asks:
                    self._admin.list_topics(topic, timeout=self._patience_s)

        doing = f"reading the ends of {', '.join(named)}"
        spec = of or OffsetSpec.latest()
        try:
            return patiently(doing, lambda: self._ask(places, isolation, spec), look, self._patience_s)
        except UnavailableError:
            with self._one_asks:
                self._admin = another(self._admin, self._make)
            raise

    def _ask(
        self, places: Sequence[TopicPartition], isolation: IsolationLevel, of: OffsetSpec
    ) -> dict[TopicPartition, int]:
        with self._one_asks:
            self._admin.poll(0)  # what it has said since the last question; nobody else asks it for that
            asked = self._admin.list_offsets(
                {Asked(*place): of for place in places},
                isolation_level=isolation,
                request_timeout=self._patience_s,
            )
            answers = {at: self._offset(at.topic, future) for at, future in asked.items()}
        if unknown := [at for at, end in answers.items() if end < 0]:
            # Seen on connections that break in the middle of an answer: no error, and no offset. Ask again.
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"no offset is told of {unknown[0]}"))
        return {TopicPartition(at.topic, at.partition): end for at, end in answers.items()}

    def _offset(self, topic: str, future: Future[Any]) -> int:
        if (error := failure(future, f"reading the ends of {topic}", 2 * self._patience_s)) is not None:
            raise error
        return int(future.result(self._patience_s).offset)
