"""Are the topics that are followed still there, the same, and with as many partitions? Asked beside the copying.

What is copied is of the very topic that is followed: it is fetched by its identity. This finds out why nothing
comes of one any more, and that there are new partitions, of which nothing would ever come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from cutwater.adapters.identities import Identity
from cutwater.adapters.kafka import TIMEOUT_S
from cutwater.core.absences import Absences
from cutwater.core.errors import CutwaterError, ProtocolError, UnavailableError, UsageError
from cutwater.core.mirror_gaps import ANEW, GONE, LOST, PARTITIONS, REFUSED, Gap, in_log, in_origin
from cutwater.mirror.asking import asked
from cutwater.mirror.followed import Followed
from cutwater.mirror.origin import Origin

LOOK_S = 1.0
"""How often."""
_Answer = tuple[dict[str, Identity], dict[str, Gap]]
"""Those that exist; and those that we may not look at."""


class Watch:
    """The topics of one mirror."""

    def __init__(
        self, origin: Origin, region: str, left: Callable[[str], bool], log: Any, clock_s: Callable[[], float]
    ) -> None:
        """`left`: is it the changelog of a generation that the origin has left? It may be removed there."""
        self._origin, self._region, self._left = origin, region, left
        self._log, self._clock_s = log, clock_s
        self._absences = Absences(TIMEOUT_S)
        self._looked_s = clock_s()
        self._names: frozenset[str] = frozenset()
        self._answer: Future[_Answer] | None = None

    def gaps(self, followed: Mapping[str, Followed]) -> dict[str, Gap]:
        """What has been found out since: topics that cannot be copied on. Waits for nothing."""
        if self._answer is not None and self._answer.done():
            answer, self._answer = self._answer, None
            return self._heed(answer, followed)
        if self._answer is None and followed and self._clock_s() - self._looked_s >= LOOK_S:
            self._looked_s = self._clock_s()
            self._names = names = frozenset(followed)
            self._answer = asked("identities", lambda: self._identities(names))
        return {}

    def gap(self, one: Followed, error: CutwaterError) -> Gap | None:
        """Why a topic cannot be read on; None where asking again may help."""
        if isinstance(error, UsageError):
            return Gap(REFUSED, str(error))
        try:
            found = self._origin.identities([one.name]).get(one.name)
            if found is None:
                return self._gone(one.name)
            gap = in_origin(one.name, *found, one.positions.values(), one.partitions)
            kept = self._origin.kept(one.name, one.positions, briefly=True)
            # Asked by name: made anew meanwhile, it would be another topic's log, and told as lost.
            if gap is None and self._origin.identities([one.name]).get(one.name) != found:
                return None
        except CutwaterError:
            return None  # its brokers are away, or it goes right now: the next look finds out
        gap = gap or in_log(one.name, one.positions, one.positions, kept, from_zero=False)
        return gap or (Gap(LOST, str(error)) if isinstance(error, ProtocolError) else None)

    def _heed(self, answer: Future[_Answer], followed: Mapping[str, Followed]) -> dict[str, Gap]:
        try:
            found, refused = answer.result(TIMEOUT_S)  # it is done
        except UnavailableError as error:
            self._log.warning("waiting", reason=str(error), brokers=self._origin.cluster.bootstrap)
            for name in self._names:
                self._absences.broken(name)
            return {}
        told = {
            name: refused.get(name) or self._found(followed[name], found) for name in self._names & set(followed)
        }
        return {name: gap for name, gap in told.items() if gap is not None}

    def _found(self, one: Followed, found: Mapping[str, Identity]) -> Gap | None:
        now = found.get(one.name)
        if now is None:
            return self._gone(one.name)
        self._absences.broken(one.name)
        if now == Identity(one.topic_id, one.partitions):
            return None
        gap = in_origin(one.name, *now, one.positions.values(), one.partitions)
        return gap or Gap(ANEW if now.topic_id != one.topic_id else PARTITIONS, str(now))

    def _gone(self, topic: str) -> Gap | None:
        """The origin says that it has no such topic: None until that is believed."""
        if self._absences.said(topic, self._clock_s()):
            return Gap(GONE, f"{topic} does not exist in {self._region} any more")
        if not self._left(topic):
            self._log.warning("waiting", topic=topic, reason=f"{self._region} says that it does not exist")
        return None

    # From here on: in a thread.

    def _identities(self, names: frozenset[str]) -> _Answer:
        try:
            return self._origin.identities(names), {}
        except UsageError:
            pass  # of one of them: which?
        found: dict[str, Identity] = {}
        refused = {}
        for name in sorted(names):
            try:
                found |= self._origin.identities([name])
            except UsageError as error:
                refused[name] = Gap(REFUSED, str(error))
        return found, refused
