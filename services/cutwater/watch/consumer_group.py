"""Where the consumer group stands: behind what was recovered, so that Faust does not read it all again."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from cutwater.adapters.kafka.client import TIMEOUT_S, make_consumer
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.job.job import Job
from cutwater.core.monitoring.job_status import Watched
from cutwater.core.protocol import topics
from cutwater.operations.job_status import followed


def move_group(cluster: Cluster, job: Job, state: Watched, log: Any) -> None:
    """Move the group's positions up to what the state has read. It saves time only: a repeat changes nothing.

    Not those of the alerts, which say what the webhook has been given. While a member that was killed still
    counts, the brokers refuse: then the positions are those of a moment ago.
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
