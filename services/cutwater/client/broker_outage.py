"""A time limit for unreachable brokers: librdkafka retries for ever and reports it only to a callback."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError

from cutwater.adapters.kafka.client import topic_error
from cutwater.core.errors import UnavailableError

OUTAGE_S = 20.0
_PROBE_S = 1.0


class Outage:
    """Receives a consumer's error callback. Raises if a topic's brokers are unreachable for `OUTAGE_S`."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._trouble = ""
        self._since = 0.0

    def on_error(self, error: KafkaError) -> None:
        # One broker of many may be away: `check` finds out if that matters.
        if not self._trouble:
            self._trouble, self._since = error.str(), time.monotonic()

    def check(self, consumer: Consumer) -> None:
        """Raise UnavailableError if no broker has answered for `OUTAGE_S` since the first error."""
        if not self._trouble:
            return
        if topic_error(consumer, self._topic, _PROBE_S) is None:
            self._trouble = ""
        elif time.monotonic() - self._since > OUTAGE_S:
            raise UnavailableError(
                f"{self._topic}: no broker has answered for {OUTAGE_S:.0f} s ({self._trouble}). Continue after "
                "the last token once they run again"
            )
