"""Brokers that are away: librdkafka tries for ever and says so in a callback only. Here it has a bound."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError

from cutwater.adapters.kafka.client import unanswered
from cutwater.core.errors import UnavailableError

OUTAGE_S = 20.0
_PROBE_S = 1.0


class Outage:
    """Takes a consumer's error callback, and raises once the brokers of a topic were away for too long."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._trouble = ""
        self._since = 0.0

    def heard(self, error: KafkaError) -> None:
        """One broker of many may be away: whether it matters is found out by `check`."""
        if not self._trouble:
            self._trouble, self._since = error.str(), time.monotonic()

    def check(self, consumer: Consumer) -> None:
        """Raises UnavailableError when nobody has answered since the trouble began, and that is long ago."""
        if not self._trouble:
            return
        if unanswered(consumer, self._topic, _PROBE_S) is None:
            self._trouble = ""
        elif time.monotonic() - self._since > OUTAGE_S:
            raise UnavailableError(
                f"{self._topic}: no broker has answered for {OUTAGE_S:.0f} s ({self._trouble}): go on "
                "behind the last token once they run again"
            )
