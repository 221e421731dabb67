"""Changes of the spreading plan, with what they are checked against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.commit_stream import milestones
from cutwater.adapters.topics.spread_plan import NO_PLAN, SpreadPlans, SpreadState, read_spread
from cutwater.core.checks.replication import Replication
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.skew.spread_plan import (
    Spread,
    order_losses,
    spread_obstacles,
    spread_partitions,
    with_key,
    without_key,
)

RECENT = 50
"""Milestones whose source cuts tell the recent load by partition."""


@dataclass(frozen=True)
class SpreadChange:
    """Who makes a version of the plan, and why."""

    by: str
    reason: str


class SpreadControl:
    """The plan of one job. `now_ms`: the clock that dates the versions."""

    def __init__(self, cluster: Cluster, job: Job, now_ms: Callable[[], int]) -> None:
        self._cluster = cluster
        self._job = job
        self._now_ms = now_ms

    def state(self) -> SpreadState:
        """Return the plan and its producers; without the topic, no plan. Raises UnavailableError."""
        if not admin.descriptions(self._cluster, [topics.spread(self._job.name)]):
            return NO_PLAN
        return read_spread(self._cluster, self._job.name)

    def obstacles(self) -> tuple[str, ...]:
        """Return why no key of the job may be spread."""
        return spread_obstacles(self._job, self._is_compacted())

    def planned(self, key: str, over: int, change: SpreadChange, allow_order: bool) -> Spread:
        """Return the version that `spread` would write. Raises UsageError as `spread`."""
        return self._made(self.state(), key, self._partitions(key, over, allow_order), change)

    def spread(self, key: str, over: int, change: SpreadChange, allow_order: bool, copies: Replication) -> Spread:
        """Write a version of the plan that spreads a key over `over` source partitions; return it.

        Raises UsageError if the key may not be spread, or if a measure depends on the order in the source and
        `allow_order` is false; FencedError if another process changes the plan meanwhile.
        """
        partitions = self._partitions(key, over, allow_order)
        plans = SpreadPlans(self._cluster, self._job.name, copies)
        return plans.change(lambda state: self._made(state, key, partitions, change), self._now_ms())

    def planned_without(self, key: str, change: SpreadChange) -> Spread:
        """Return the version that `unspread` would write. Raises UsageError as `unspread`."""
        return without_key(self.state().plan, key, change.by, change.reason, self._now_ms())

    def unspread(self, key: str, change: SpreadChange, copies: Replication) -> Spread:
        """Write a version of the plan without the key; return it. Raises UsageError if it is not spread."""
        self.planned_without(key, change)  # without a plan no topic is made
        plans, now = SpreadPlans(self._cluster, self._job.name, copies), self._now_ms()
        return plans.change(lambda state: without_key(state.plan, key, change.by, change.reason, now), now)

    def _made(self, state: SpreadState, key: str, partitions: tuple[int, ...], change: SpreadChange) -> Spread:
        many = partition_count(self._cluster, self._job.topic)
        return with_key(
            state.plan, self._job.name, key, partitions, many, change.by, change.reason, self._now_ms()
        )

    def _partitions(self, key: str, over: int, allow_order: bool) -> tuple[int, ...]:
        if obstacles := self.obstacles():
            raise UsageError(f"no key of {self._job.name} can be spread: {'; '.join(obstacles)}")
        if (losses := order_losses(self._job)) and not allow_order:
            raise UsageError(
                f"a spread key loses the order of sending between partitions, on which this job depends: "
                f"{'; '.join(losses)}. If that is right, repeat with --allow-order (docs/SKEW.md)"
            )
        return spread_partitions(key, over, self.source_load())

    def source_load(self) -> list[int]:
        """Return the records of the newest milestones by source partition."""
        topic = self._job.topic
        many = partition_count(self._cluster, topic)
        job = self._job.name
        # A job may be prepared, and its producers running, before its first milestone.
        begun = admin.descriptions(self._cluster, [topics.milestones(job)])
        found = [one for one, _ in milestones(self._cluster, job, RECENT)] if begun else []
        if not found:
            return [0] * many
        first, last = found[0].source_cut, found[-1].source_cut
        places = [TopicPartition(topic, number) for number in range(many)]
        return [max(0, last.offset(one) - first.offset(one)) for one in places]

    def _is_compacted(self) -> bool:
        if not (topic := self._job.topic):
            return False
        found = admin.describe_topics(self._cluster, [topic]).get(topic)
        return found is not None and "compact" in found.config.get("cleanup.policy", "")
