"""The configuration of the embedded broker, from plain values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cutwater.local.machine.ports import LOOPBACK

NODE_ID = 1


def server_properties(
    log_dir: Path, port: int, controller_port: int, overrides: Mapping[str, str]
) -> dict[str, str]:
    """Broker settings: broker and controller in one process, one copy of everything, sized for a laptop."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "controller.quorum.voters": f"{NODE_ID}@{LOOPBACK}:{controller_port}",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(log_dir),
        # A topic that springs up by a typing error is worse than an error.
        "auto.create.topics.enable": "false",
        # One node: the defaults of three copies would make groups and transactions wait for ever.
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # 50 partitions each, by default, are only files to open here.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        # Replayed events carry old times; a retention by time would delete them on arrival.
        "log.retention.ms": "-1",
        "log.cleaner.enable": "true",
        "log.cleaner.dedupe.buffer.size": str(32 * 1024 * 1024),  # the default takes 128 MB of the heap
        "log.index.size.max.bytes": str(2 * 1024 * 1024),
        # After kill -9 the controller keeps the new process waiting until the old one's session has expired.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "1000",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "2",
    }
    return {**settings, **overrides}


def render_properties(settings: Mapping[str, str]) -> str:
    """A Java properties file. Backslashes are its escape character, and a path may hold one."""
    return "".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in sorted(settings.items()))


def read_properties(text: str) -> dict[str, str]:
    """The entries of a simple Java properties file, as Kafka writes its meta.properties."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}
