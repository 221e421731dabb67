"""The Faust application: one agent per topic, which passes each record to the watch. It decides nothing.

It has no table, no leader, no producer and no topic of its own: the state is recovered from the topics, and alerts
are written with a fenced transactional id, which Faust's producer lacks. It reads `read_committed`, so that
aborted barriers stay invisible; Faust sets this only together with its own transactions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import faust
from faust.app.base import BootStrategy
from faust.auth import Credentials, SASLCredentials, SSLCredentials
from faust.transport.drivers import aiokafka as driver

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.operations.job_status import Read

Take = Callable[[Read], Awaitable[None]]
SESSION_S = 10.0
"""After a kill -9 the group waits this long before it assigns the topics to another member."""
BUFFER_MAX = 1_000
"""The maximum of buffered records per topic."""


def make_app(
    cluster: Cluster, group: str, topics: Sequence[str], data_dir: Path, take: Take, assigned: Callable[[], None]
) -> faust.App:
    """Return an app that calls `take` for every record of the topics, in order, from the group's position.

    `assigned`: called each time the group assigns topics to this process. The position of the group comes from the
    previous member: it may be behind or ahead of what this process has read.
    """
    app = _App(
        group,
        broker=[f"kafka://{one.strip()}" for one in cluster.bootstrap.split(",")],
        broker_credentials=credentials(cluster),
        broker_session_timeout=SESSION_S,
        broker_heartbeat_interval=SESSION_S / 4,
        broker_commit_interval=1.0,
        consumer_auto_offset_reset="earliest",
        stream_buffer_maxsize=BUFFER_MAX,
        store="memory://",
        datadir=data_dir,
        topic_disable_leader=True,
        topic_allow_declare=False,
        web_enabled=False,
    )
    app.transport = _Transport(app.conf.broker_consumer, app)
    for name in topics:
        topic = app.topic(name, key_serializer="raw", value_serializer="raw", value_type=bytes, allow_empty=True)
        app.agent(topic, name=name)(_agent(take))

    async def on_assigned(*_: object, **__: object) -> None:
        assigned()

    app.on_partitions_assigned.connect(on_assigned, weak=False)
    return app


def credentials(cluster: Cluster) -> Credentials | None:
    """Return the credentials of an aiokafka client as Faust's types."""
    said = cluster.aiokafka()
    if cluster.security.sasl:
        return SASLCredentials(
            username=said["sasl_plain_username"],
            password=said["sasl_plain_password"],
            mechanism=said["sasl_mechanism"],
            ssl_context=said.get("ssl_context"),
        )
    return SSLCredentials(said["ssl_context"]) if cluster.security.tls else None


def _agent(take: Take) -> Callable[[Any], Awaitable[None]]:
    async def follow(stream: Any) -> None:
        async for event in stream.events():
            message = event.message
            at_ms = int((message.timestamp or 0) * 1000)
            await take(Read(message.topic, message.offset, at_ms, bytes(message.value or b"")))

    return follow


class _Reading(BootStrategy):
    enable_kafka_producer = False
    enable_web = False


class _App(faust.App):
    BootStrategy = _Reading


class _Thread(driver.AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> Any:
        # Faust reads this flag only here, to choose the isolation level.
        self.consumer.in_transaction = True
        try:
            return super()._create_worker_consumer(transport)
        finally:
            self.consumer.in_transaction = False


class _Consumer(driver.Consumer):
    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)


class _Transport(driver.Transport):
    Consumer = _Consumer
