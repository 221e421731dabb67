"""The client library: whole milestones in Python, one after the other.

from cutwater.client import committed

for milestone in committed("job.yaml", Cluster("127.0.0.1:9092"), after=token):
    for change in milestone.changes:
        ...
    token = milestone.token
"""

from cutwater.adapters.cluster import Cluster, Security
from cutwater.client.committed import committed, committed_async
from cutwater.client.values import Change, CommittedMilestone

__all__ = ["Change", "Cluster", "CommittedMilestone", "Security", "committed", "committed_async"]
