"""What commit-signal says if the barriers cannot be read: the brokers are away, or a transaction hides the end.

In the words of a view's status; `core.util.liveness` decides whether brokers are away.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Consumer, KafkaError

from cutwater.adapters.kafka.client import unanswered
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.hanging_transaction import HangingTransaction
from cutwater.commit_signal.metrics import Metrics
from cutwater.core.util.liveness import Contact

ASK_S = 1.0


class Brokers:
    """Tells log and metrics when they go away and when they are back: a line each, however long that takes."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        log: Any,
        metrics: Metrics,
        now_ms: Callable[[], int],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bootstrap = cluster.bootstrap
        self._topic = topic
        self._log = log
        self._metrics = metrics
        self._now_ms = now_ms
        self._clock_s = clock_s
        self._contact = Contact(clock_s())
        self._trouble = ""
        self._hanging = HangingTransaction(cluster, topic, "a driver", clock_s=clock_s)
        self._hidden = ""

    def troubled(self, error: KafkaError) -> None:
        """What a client tells its `error_cb`: the reason, where they turn out to be away."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # which follows the reason, and has none
            self._trouble = error.str()

    def heard(self) -> None:
        """A record has come."""
        self._hanging.came()
        self._answered()
        self._show_hidden()

    def _answered(self) -> None:
        self._trouble = ""
        gone_s = self._contact.heard(self._clock_s())
        if gone_s is not None:
            self._metrics.waiting(False)
            self._log.info("following", reason="the brokers are back", waited_s=round(gone_s, 1))

    def look(self, consumer: Consumer) -> bool:
        """Nothing has come: ask for the topic, where it is time for that. True if they have just answered.

        Takes seconds at most.
        """
        if not self._contact.due(self._clock_s()):
            return False
        error = unanswered(consumer, self._topic, ASK_S)
        if error is None:
            self._answered()
            self._hanging.look()
            self._show_hidden()
        elif self._contact.unanswered(self._clock_s()):
            self._tell(self._trouble or error.str())
        return error is None

    def _show_hidden(self) -> None:
        """A line if something hides the end of the topic, and one if that is over."""
        if self._hanging.text == self._hidden:
            return
        self._hidden = self._hanging.text
        self._metrics.waiting(bool(self._hidden))
        if self._hidden:
            self._log.warning("waiting", reason=self._hidden)
        else:
            self._log.info("following", reason="what hid the barriers has ended")

    def _tell(self, reason: str) -> None:
        quiet_ms = 1000 * (self._clock_s() - self._contact.heard_s)
        since = datetime.fromtimestamp((self._now_ms() - quiet_ms) / 1000, UTC)
        self._metrics.waiting(True)
        self._log.warning(
            "waiting",
            reason=f"the brokers do not answer: {reason}",
            brokers=self._bootstrap,
            topic=self._topic,
            since=since.isoformat(timespec="seconds"),
        )
