"""MirrorMaker 2 as a process: Kafka's own program in its dedicated mode, with the names kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.local.embedded_broker.config import render_properties

JARS = Path(__file__).parents[1] / "jars" / "mirrormaker.toml"
DEFAULT, EXACTLY, TUNED = "mirrormaker2", "mirrormaker2-exactly-once", "mirrormaker2-exactly-once-tuned"
HEAP = "1g"
_EXACTLY = {"eu.exactly.once.source.support": "enabled", "dedicated.mode.enable.internal.rest": "true"}
SETTINGS: Mapping[str, Mapping[str, str]] = {
    DEFAULT: {},
    # A transaction for each poll of at most 500 records, which is what a source connector does by itself.
    EXACTLY: _EXACTLY,
    # As many records to a transaction as Cutwater's mirror takes, about.
    TUNED: {
        **_EXACTLY,
        "us.consumer.max.poll.records": "8000",
        "us.consumer.max.partition.fetch.bytes": "4194304",
        "eu.producer.batch.size": "262144",
        "eu.producer.linger.ms": "5",
    },
}


def properties(contender: str, origin: Cluster, own: Cluster, topics: Sequence[str]) -> dict[str, str]:
    """As Cutwater has it: committed records only, acknowledged by all replicas, lz4. What is no copying is off."""
    one_copy = ("offset-syncs.topic", "offset.storage", "status.storage", "config.storage")
    return {
        "clusters": "us,eu",
        "us.bootstrap.servers": origin.bootstrap,
        "eu.bootstrap.servers": own.bootstrap,
        "us->eu.enabled": "true",
        "us->eu.topics": ",".join(topics),
        "eu->us.enabled": "false",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "replication.factor": "1",
        **{f"{name}.replication.factor": "1" for name in one_copy},
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "us.consumer.isolation.level": "read_committed",
        "us.consumer.auto.offset.reset": "earliest",
        "eu.producer.acks": "all",
        "eu.producer.compression.type": "lz4",
        **SETTINGS[contender],
    }


def program(
    contender: str,
    java: Path,
    jars: Sequence[Path],
    origin: Cluster,
    own: Cluster,
    topics: Sequence[str],
    folder: Path,
) -> list[str]:
    """The command; its properties are written into the folder."""
    file = folder / "mirrormaker.properties"
    file.write_text(render_properties(properties(contender, origin, own, topics)), encoding="utf-8")
    jvm = [f"-Xmx{HEAP}", "-XX:+UseParallelGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    return [str(java), *jvm, "-cp", ":".join(map(str, jars)), main, str(file), "--clusters", "eu"]
