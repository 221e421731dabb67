"""Checks in the background that followed topics still exist, with the same ids and partitions.

Topics are fetched by id, so records are always of the right topic. This finds out why no records arrive any more,
and detects new partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

from cutwater.adapters.kafka.client import TIMEOUT_S
from cutwater.adapters.kafka.topic_ids import Identity
from cutwater.core.errors import CutwaterError, ProtocolError, UnavailableError, UsageError
from cutwater.core.mirror.gaps import ANEW, GONE, LOST, PARTITIONS, REFUSED, Gap, in_log, in_origin, in_origins_log
from cutwater.core.protocol.mirror_records import Mirrored
from cutwater.core.util.topic_absence import TopicAbsence
from cutwater.mirror.topics.background import run_in_background
from cutwater.mirror.topics.origin import Origin
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

    def __init__(
        self, origin: Origin, region: str, left: Callable[[str], bool], log: Any, clock_s: Callable[[], float]
    ) -> None:
        """`left`: whether a topic is the changelog of a replaced generation, which the origin may delete."""
        self._origin, self._region, self._left = origin, region, left
        self._log, self._clock_s = log, clock_s
        self._absences = TopicAbsence(TIMEOUT_S)
        self._looked_s = clock_s()
        self._names: frozenset[str] = frozenset()
        self._answer: Future[_Answer] | None = None

    def gaps(self, followed: Mapping[str, CopiedTopic]) -> dict[str, Gap]:
        """Return the gaps found since the last call. Does not block."""
        if self._answer is not None and self._answer.done():
            answer, self._answer = self._answer, None
            return self._apply_answer(answer, followed)
        if self._answer is None and followed and self._clock_s() - self._looked_s >= LOOK_S:
            self._looked_s = self._clock_s()
            self._names = frozenset(followed)
            positions = {name: list(one.positions.values()) for name, one in followed.items()}
            self._answer = run_in_background("identities", lambda: self._query_origin(positions))
        return {}

    def gap(self, one: CopiedTopic, error: CutwaterError) -> Gap | None:
        """Return why a topic cannot be read any further; None if a retry may help."""
        if isinstance(error, UsageError):
            return Gap(REFUSED, str(error))
        try:
            found = self._origin.identities([one.name]).get(one.name)
            if found is None:
                return self._gap_of_absent(one.name)
            gap = in_origin(one.name, *found, one.positions.values(), one.partitions)
            kept = self._origin.log_bounds(one.name, one.positions, briefly=True)
            if gap is None and not self._origin.is_still(one.name, found):
                return None
        except CutwaterError:
            return None  # no answer, or it is being deleted: the next check finds out
        gap = gap or in_log(one.name, one.positions, one.positions, kept, from_zero=False)
        return gap or (Gap(LOST, str(error)) if isinstance(error, ProtocolError) else None)

    def _apply_answer(self, answer: Future[_Answer], followed: Mapping[str, CopiedTopic]) -> dict[str, Gap]:
        try:
            found, refused, holding = answer.result(TIMEOUT_S)  # already done
        except UnavailableError as error:
            self._log.warning("waiting", reason=str(error), brokers=self._origin.cluster.bootstrap)
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
        if self._absences.record_missing(topic, self._clock_s()):
            return Gap(GONE, f"{topic} no longer exists in {self._region}")
        if not self._left(topic):
            self._log.warning("waiting", topic=topic, reason=f"{self._region} reports that it does not exist")
        return None

    # From here on: in a thread.

    def _query_origin(self, positions: Mapping[str, list[Mirrored]]) -> _Answer:
        found, refused = self._identities(positions.keys())
        holding: dict[str, dict[int, tuple[int, int]]] = {}
        for name in sorted(found.keys() - refused.keys()):
            try:
                leaders, lost = self._origin.holding(positions[name])
                if lost and not self._origin.is_still(name, found[name]):
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
            return self._origin.identities(names), {}
        except UsageError:
            pass  # one of them is refused
        found: dict[str, Identity] = {}
        refused = {}
        for name in sorted(names):
            try:
                found |= self._origin.identities([name])
            except UsageError as error:
                refused[name] = Gap(REFUSED, str(error))
        return found, refused
