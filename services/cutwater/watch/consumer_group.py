"""The consumer group's positions: moved past what was recovered, so that Faust does not read it again."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from cutwater.adapters.kafka.client import TIMEOUT_S, make_consumer
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.job.job import Job
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.protocol import topics
from cutwater.operations.job_status import followed


def move_group(cluster: Cluster, job: Job, state: JobStatus, log: Any) -> None:
    """Move the group's positions up to what the state has read. This only saves time: a repeat is harmless.

    The position of the alerts topic stays: it records what the webhook has received. The brokers refuse while a
    killed member still counts; then the positions stay where they are.
    """
    consumer = make_consumer(cluster, **{"group.id": topics.watch_id(job.name)})
    names = [one for one in followed(job) if one != topics.alerts(job.name) and one in state.reads]
    try:
        mine = [TopicPartition(one, 0) for one in names]
        known = {one.topic: one.offset for one in consumer.committed(mine, timeout=TIMEOUT_S)} if mine else {}
        further = [TopicPartition(one, 0, state.reads[one]) for one in names if known[one] < state.reads[one]]
        if further:
            consumer.commit(offsets=further, asynchronous=False)
    except KafkaException as error:
        log.info("the group's positions stay as they are", reason=str(error.args[0].str()))
    finally:
        consumer.close()
