"""The configuration of the embedded broker, from plain values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cutwater.local.machine.ports import LOOPBACK

NODE_ID = 1


def server_properties(
    log_dir: Path, port: int, controller_port: int, overrides: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings of a broker and controller in one process, without replicas, sized for a laptop."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "controller.quorum.voters": f"{NODE_ID}@{LOOPBACK}:{controller_port}",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(log_dir),
        # A typing error must give an error and not create a topic.
        "auto.create.topics.enable": "false",
        # One node: with the default of three replicas, groups and transactions would wait for ever.
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # The default of 50 partitions each would only add open files.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        # Replayed events have old timestamps; time-based retention would delete them on arrival.
        "log.retention.ms": "-1",
        "log.cleaner.enable": "true",
        "log.cleaner.dedupe.buffer.size": str(32 * 1024 * 1024),  # the default is 128 MB of heap
        "log.index.size.max.bytes": str(2 * 1024 * 1024),
        # After kill -9 the controller lets the new process wait until the old one's session has expired.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "1000",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "2",
    }
    return {**settings, **overrides}


def render_properties(settings: Mapping[str, str]) -> str:
    """Render a Java properties file. Backslashes, which a path may contain, are escaped."""
    return "".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in sorted(settings.items()))


def read_properties(text: str) -> dict[str, str]:
    """Parse a simple Java properties file, such as Kafka's meta.properties."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}
