"""The settings of a single-node Kafka cluster in a container."""

from __future__ import annotations

HOST_PORT = 9094
"""The port inside the container that serves the machine outside."""


def settings_of_one(name: str, host: str, port: int) -> dict[str, str]:
    """Return the environment of `cutwater-kafka`, which has the variables of the Kafka project's image.

    `name`: the container's name on its network, where it listens at port 9092. `host`, `port`: its address for the
    machine outside.
    """
    return {
        "CLUSTER_ID": "Y3V0d2F0ZXJDbHVzdGVyMQ",
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
        "KAFKA_LISTENERS": f"INSIDE://:9092,CONTROLLER://:9093,HOST://:{HOST_PORT}",
        "KAFKA_ADVERTISED_LISTENERS": f"INSIDE://{name}:9092,HOST://{host}:{port}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT,HOST:PLAINTEXT",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "4",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "4",
        "KAFKA_LOG_CLEANER_DEDUPE_BUFFER_SIZE": str(32 * 1024 * 1024),
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_HEAP_OPTS": "-Xmx512m",
    }
