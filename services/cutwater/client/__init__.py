"""The client library: produces events, reads complete milestones.

with EventProducer("job.yaml", Cluster("127.0.0.1:9092")) as producer:
    producer.send({"key": "a", "at": 1_700_000_000_000, "value": 1})

for milestone in committed("job.yaml", Cluster("127.0.0.1:9092"), after=token):
    for change in milestone.changes:
        ...
    token = milestone.token
"""

from cutwater.adapters.kafka.client_config import Cluster, Security
from cutwater.client.committed import committed, committed_async
from cutwater.client.producer import AsyncEventProducer, EventProducer
from cutwater.client.values import Change, CommittedMilestone

__all__ = [
    "AsyncEventProducer",
    "Change",
    "Cluster",
    "CommittedMilestone",
    "EventProducer",
    "Security",
    "committed",
    "committed_async",
]
