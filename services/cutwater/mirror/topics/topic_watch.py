"""Checks in the background that followed topics still exist, with the same ids and partitions.

Topics are fetched by id, so records are always of the right topic. This finds out why no records arrive any more,
and detects new partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from cutwater.adapters.kafka.client import TIMEOUT_S
from cutwater.adapters.kafka.topic_ids import Identity
from cutwater.core.errors import CutwaterError, ProtocolError, UnavailableError, UsageError
from cutwater.core.mirror.gaps import ANEW, GONE, LOST, PARTITIONS, REFUSED, Gap, in_log, in_origin, in_origins_log
from cutwater.core.protocol.mirror_records import Mirrored
from cutwater.core.util.topic_absence import TopicAbsence
from cutwater.mirror.topics.background import PeriodicQuery
from cutwater.mirror.topics.context import MirrorContext
from cutwater.mirror.topics.topic_copy import CopiedTopic

LOOK_S = 1.0
"""Between two checks."""


class _Answer(NamedTuple):
    found: dict[str, Identity]
    """Those that exist."""
    refused: dict[str, Gap]
    """Those that may not be read, or that have lost something."""
    holding: dict[str, dict[int, tuple[int, int]]]
    """As in `CopiedTopic`."""


class Watch:
    """The topics of one mirror."""

    def __init__(self, context: MirrorContext, left: Callable[[str], bool]) -> None:
        """`left`: whether a topic is the changelog of a replaced generation, which the origin may delete."""
        self._context, self._left = context, left
        self._absences = TopicAbsence(TIMEOUT_S)
        self._names: frozenset[str] = frozenset()
        self._query: PeriodicQuery[_Answer] = PeriodicQuery("identities", LOOK_S, context.clock_s)

    def gaps(self, followed: Mapping[str, CopiedTopic]) -> dict[str, Gap]:
        """Return the gaps found since the last call. Does not block."""
        if self._query.answered:
            return self._apply_answer(followed)
        if followed and self._query.due:
            self._names = frozenset(followed)
            positions = {name: list(one.positions.values()) for name, one in followed.items()}
            self._query.begin(lambda: self._query_origin(positions))
        return {}

    def gap(self, one: CopiedTopic, error: CutwaterError) -> Gap | None:
        """Return why a topic cannot be read any further; None if a retry may help."""
        if isinstance(error, UsageError):
            return Gap(REFUSED, str(error))
        try:
            found = self._context.origin.identities([one.name]).get(one.name)
            if found is None:
                return self._gap_of_absent(one.name)
            gap = in_origin(one.name, *found, one.positions.values(), one.partitions)
            kept = self._context.origin.log_bounds(one.name, one.positions, briefly=True)
            if gap is None and not self._context.origin.is_still(one.name, found):
                return None
        except CutwaterError:
            return None  # no answer, or it is being deleted: the next check finds out
        gap = gap or in_log(one.name, one.positions, one.positions, kept, from_zero=False)
        return gap or (Gap(LOST, str(error)) if isinstance(error, ProtocolError) else None)

    def _apply_answer(self, followed: Mapping[str, CopiedTopic]) -> dict[str, Gap]:
        try:
            found, refused, holding = self._query.take()
        except UnavailableError as error:
            self._context.log.warning("waiting", reason=str(error), brokers=self._context.origin.cluster.bootstrap)
            for name in self._names:
                self._absences.reset(name)
            return {}
        for name in holding.keys() & followed.keys():
            followed[name].holding = holding[name]
        told = {
            name: refused.get(name) or self._gap_of(followed[name], found) for name in self._names & set(followed)
        }
        return {name: gap for name, gap in told.items() if gap is not None}

    def _gap_of(self, one: CopiedTopic, found: Mapping[str, Identity]) -> Gap | None:
        now = found.get(one.name)
        if now is None:
            return self._gap_of_absent(one.name)
        self._absences.reset(one.name)
        if now == Identity(one.topic_id, one.partitions):
            return None
        gap = in_origin(one.name, *now, one.positions.values(), one.partitions)
        return gap or Gap(ANEW if now.topic_id != one.topic_id else PARTITIONS, str(now))

    def _gap_of_absent(self, topic: str) -> Gap | None:
        """The origin reports that it has no such topic: return None until that is believed."""
        if self._absences.record_missing(topic, self._context.clock_s()):
            return Gap(GONE, f"{topic} no longer exists in {self._context.region}")
        if not self._left(topic):
            self._context.log.warning(
                "waiting", topic=topic, reason=f"{self._context.region} reports that it does not exist"
            )
        return None

    # From here on: in a thread.

    def _query_origin(self, positions: Mapping[str, list[Mirrored]]) -> _Answer:
        found, refused = self._identities(positions.keys())
        holding: dict[str, dict[int, tuple[int, int]]] = {}
        for name in sorted(found.keys() - refused.keys()):
            try:
                leaders, lost = self._context.origin.holding(positions[name])
                if lost and not self._context.origin.is_still(name, found[name]):
                    continue
            except CutwaterError:
                continue  # no leader right now, or it is being deleted: the next check finds out
            if gap := in_origins_log(lost):
                refused[name] = gap
            nexts = {one.partition: one.next for one in positions[name]}
            holding[name] = {at.partition: (nexts[at.partition], epoch) for at, epoch in leaders.items()}
        return _Answer(found, refused, holding)

    def _identities(self, names: Collection[str]) -> tuple[dict[str, Identity], dict[str, Gap]]:
        try:
            return self._context.origin.identities(names), {}
        except UsageError:
            pass  # one of them is refused
        found: dict[str, Identity] = {}
        refused = {}
        for name in sorted(names):
            try:
                found |= self._context.origin.identities([name])
            except UsageError as error:
                refused[name] = Gap(REFUSED, str(error))
        return found, refused
