"""Reports barriers that cannot be read, because brokers do not answer or an open transaction hides the end.

The texts are those of a view's status; `core.util.liveness` decides if brokers are unreachable.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Consumer, KafkaError

from cutwater.adapters.kafka.client import topic_error
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.hanging_transaction import HangingTransaction
from cutwater.commit_signal.metrics import Metrics
from cutwater.core.util.liveness import BrokerLiveness

ASK_S = 1.0


class Brokers:
    """Reports to log and metrics when the brokers go away and when they are back: one line each."""

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
        self._contact = BrokerLiveness(clock_s())
        self._trouble = ""
        self._hanging = HangingTransaction(cluster, topic, "a driver", clock_s=clock_s)
        self._hidden = False

    def on_error(self, error: KafkaError) -> None:
        """Keep the reason of a client's `error_cb`, for the case that the brokers are unreachable."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # follows the error that has the reason
            self._trouble = error.str()

    def heard(self) -> None:
        self._hanging.reset()
        self._record_answer()
        self._show_hidden()

    def _record_answer(self) -> None:
        self._trouble = ""
        gone_s = self._contact.record_answer(self._clock_s())
        if gone_s is not None:
            self._metrics.waiting(False)
            self._log.info("following", reason="the brokers are back", waited_s=round(gone_s, 1))

    def check(self, consumer: Consumer) -> bool:
        """No record has arrived: query the topic if that is due. Return True if the brokers have just answered.
        Takes a few seconds at most."""
        if not self._contact.due(self._clock_s()):
            return False
        error = topic_error(consumer, self._topic, ASK_S)
        if error is None:
            self._record_answer()
            self._hanging.check()
            self._show_hidden()
        elif self._contact.record_timeout(self._clock_s()):
            self._report_unreachable(self._trouble or error.str())
        return error is None

    def _show_hidden(self) -> None:
        """Log a line when an open transaction starts to hide the topic's end, and one when it has ended."""
        # By whether there is one: its text counts the offsets behind it, which grow.
        if bool(self._hanging.text) == self._hidden:
            return
        self._hidden = bool(self._hanging.text)
        self._metrics.waiting(self._hidden)
        if self._hidden:
            self._log.warning("waiting", reason=self._hanging.text)
        else:
            self._log.info("following", reason="the transaction that hid the barriers has ended")

    def _report_unreachable(self, reason: str) -> None:
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
