"""Topic ids. A topic that is deleted and created again keeps its name but gets a new id."""

from __future__ import annotations

import time
from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import AdminClient

from cutwater.adapters.kafka.client import ANSWER_S, TIMEOUT_S, explain, failure
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.connect import create_client, replacement
from cutwater.core.errors import UnavailableError

_ABSENT = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


class Identity(NamedTuple):
    topic_id: str
    partitions: int


class TopicIds:
    """Queries topic ids over connections that stay open."""

    def __init__(self, cluster: Cluster, patience_s: float = TIMEOUT_S) -> None:
        self._patience_s, self._answer_s = patience_s, min(patience_s, ANSWER_S)
        # A connection without answers is dropped soon after the query's time-out, not after a minute.
        settings = {"log_level": 5, "socket.timeout.ms": int(2_000 * patience_s)}
        self._make = partial(create_client, cluster, AdminClient, settings)
        self._admin: AdminClient = self._make()

    def read(self, names: Collection[str]) -> dict[str, Identity]:
        """Return the ids of the existing topics. Raises UnavailableError if the brokers do not answer."""
        if not names:
            return {}
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                return self._ask(names)
            except UnavailableError:
                self._admin = replacement(self._admin, self._make)  # the old one may wait for a dead broker
                if time.monotonic() > deadline:
                    raise

    def _ask(self, names: Collection[str]) -> dict[str, Identity]:
        admin = self._admin  # another thread may replace it meanwhile
        admin.poll(0)
        asked = admin.describe_topics(TopicCollection(sorted(names)), request_timeout=self._answer_s)
        found = {}
        for name, future in asked.items():
            error = failure(future, f"describing topic {name}", 2 * self._answer_s)
            if error is None:
                one = future.result(self._answer_s)
                found[name] = Identity(str(one.topic_id), len(one.partitions))
            elif error.args[0].code() not in _ABSENT:
                raise explain(error, f"describing topic {name}")
        return found
