"""The first connection to a cluster through confluent-kafka, and the setting that is wrong if it is refused.

librdkafka retries forever even with a wrong password, and reports the reason only to its error callback.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.checks.connection_errors import SETTING_OF, Refusal, explain_error, is_more_specific
from cutwater.core.errors import UnavailableError, UsageError

_FIRST_LOOK_S, _LOOK_S_MAX = 0.5, 4.0
_PAUSE_S = 0.1

# It would log twenty lines a second, all with the reason that the one error names.
_silent = logging.getLogger("cutwater.adapters.kafka.connect")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class Refusals:
    """Refusals of one client. Pass `heard` to it as `error_cb`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._refusal: Refusal | None = None
        self._text = ""

    def on_error(self, error: KafkaError) -> None:
        """Keep the most useful refusal. The client calls it from the thread that polls."""
        found = explain_error(error.name(), error.str(), self._cluster.security.protocol)
        if is_more_specific(self._refusal, found):
            self._refusal, self._text = found, error.str()

    def raise_final(self) -> None:
        if self._refusal and self._refusal.final:
            raise UsageError(f"Kafka at {self._cluster.bootstrap}: {self}")

    def __bool__(self) -> bool:
        return self._refusal is not None

    def __str__(self) -> str:
        """Return the advice and the client's own words; empty without a refusal."""
        return (
            f"{self._cluster.security.rename_settings(self._refusal.advice)} ({self._text})"
            if self._refusal
            else ""
        )


def ask(cluster: Cluster, timeout_s: float, topic: str | None = None) -> ClusterMetadata:
    """Return the cluster's metadata, of one topic or of all.

    Raises UsageError once a setting is known to be wrong; UnavailableError after `timeout_s`.
    """
    refusals = Refusals(cluster)
    admin = create_client(cluster, AdminClient, {"error_cb": refusals.on_error}, logger=_silent)
    deadline, look_s = time.monotonic() + timeout_s, _FIRST_LOOK_S
    while True:
        left_s = deadline - time.monotonic()
        try:
            return admin.list_topics(topic, timeout=max(min(look_s, left_s), _PAUSE_S))
        except KafkaException as error:
            admin.poll(_PAUSE_S)
            refusals.raise_final()
            if time.monotonic() >= deadline:
                advice = cluster.security.rename_settings("start it, or set CUTWATER_BOOTSTRAP_SERVERS")
                raise UnavailableError(
                    f"no Kafka broker answers at {cluster.bootstrap} within {timeout_s:.0f} s "
                    f"({error.args[0].str()}): {refusals or advice}"
                ) from None
        look_s = min(2 * look_s, _LOOK_S_MAX)


def replacement(one: Any, make: Callable[[], Any]) -> Any:
    """Return a new client; the same one if its settings are invalid now, as while files are replaced."""
    try:
        return make()
    except UsageError:
        return one


def create_client(cluster: Cluster, kind: Any, settings: dict[str, Any], **options: Any) -> Any:
    """Create a client of confluent-kafka; raises UsageError for invalid settings."""
    try:
        return cluster.client(kind, settings, **options)
    except KafkaException as error:
        text, said = error.args[0].str(), {**cluster.librdkafka(), **settings}
        named = [f"{SETTING_OF[name]} ({said.get(name)})" for name in SETTING_OF if name in text]
        what = cluster.security.rename_settings(" or ".join(named) or "the settings CUTWATER_KAFKA_*")
        raise UsageError(f"the Kafka client rejects {what}: {text}") from None
