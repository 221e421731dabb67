"""Changes of the origin's topic settings, taken over by the copies here: `core.copied_topics` says which.

A topic is looked at before it is copied, and then once in a while, beside the copying. What cannot be changed
here, or is an operator's to change, is said, and holds nothing up: a copy with another retention is a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from cutwater.adapters.admin import describe_topics, set_configs
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.identities import Identity
from cutwater.adapters.kafka import TIMEOUT_S
from cutwater.core.copied_topics import copy_of, lag_ms, largest_of
from cutwater.core.errors import CutwaterError
from cutwater.core.mirroring import NEVER_MS
from cutwater.core.topic_check import Difference, FoundTopic
from cutwater.mirror.asking import asked
from cutwater.mirror.followed import Followed
from cutwater.mirror.metrics import Metrics
from cutwater.mirror.origin import Origin

LOOK_S = 10.0
"""How often. Shorter than a log cleaner rests (15 s): it may begin to take more, and the mirror must know."""


class _Copied(NamedTuple):
    """A topic of the origin as it was when its copying began."""

    target: str
    topic_id: str
    partitions: int


class TakingOver:
    """Of one process of a mirror. Several do the same twice, which changes nothing."""

    def __init__(
        self,
        own: Cluster,
        origin: Origin,
        job: str,
        region: str,
        log: Any,
        metrics: Metrics,
        kept: Collection[str] = (),
        clock_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`region`: the origin's. `kept`: settings that this region decides by itself."""
        self._own, self._origin, self._job, self._region = own, origin, job, region
        self._log, self._metrics = log, metrics
        self._kept, self._clock_s = frozenset(kept), clock_s
        self._looked_s = clock_s()
        self._answer: Future[dict[str, int]] | None = None
        self._failed: dict[str, str] = {}
        """By topic here, why it could not be changed: said once."""
        self._left: dict[str, str] = {}
        """By topic here, what is left to an operator: said once."""
        self._shortest_ms: dict[str, int] = {}
        """By topic there, the shortest lag of its compaction since this process began."""

    def look(self, followed: Mapping[str, Followed]) -> None:
        """Have the copies follow, where it is time. Waits for nothing."""
        if self._answer is not None and self._answer.done():
            answer, self._answer = self._answer, None
            self._heed(answer.result(TIMEOUT_S), followed)  # it is done
        if self._answer is None and followed and self._clock_s() - self._looked_s >= LOOK_S:
            self._looked_s = self._clock_s()
            copied = {name: _Copied(one.target, one.topic_id, one.partitions) for name, one in followed.items()}
            self._answer = asked("settings", lambda: self._look(copied))

    def _heed(self, lags_ms: Mapping[str, int], followed: Mapping[str, Followed]) -> None:
        for name, lag in lags_ms.items():
            if name in followed and lag < followed[name].lag_ms:
                followed[name].lag_ms = lag
                self._log.warning("compaction may take more", topic=name, region=self._region, lag_ms=lag)

    # From here on: in threads.

    def lag_ms(self, found: FoundTopic) -> int:
        """For how long the origin's compaction has spared every record, as far as this process knows.

        A longer lag counts from the next start: what an older record lacks was taken under the shorter one.
        """
        shortest = self._shortest_ms[found.name] = min(self._shortest_ms.get(found.name, NEVER_MS), lag_ms(found))
        return shortest

    def take(self, found: FoundTopic, target: str) -> int:
        """Give a copy that exists what the origin's topic has by now; the largest record that it takes then."""
        here = describe_topics(self._own, [target]).get(target)
        if here is None:
            return 0
        copy = copy_of(found, target, self._job, self._region)
        self._leave(target, copy.left(here, self._kept))
        behind = copy.behind(here, self._kept)
        changed = self._change(target, behind) if behind else {}
        return largest_of({**here.config, **changed})

    def _leave(self, target: str, left: Sequence[Difference]) -> None:
        """Say what differs and is not taken over, once, with the command that would."""
        told = "; ".join(
            f"{one.setting}: {one.found or 'not set'}, in {self._region} {one.value} ({one.remedy})"
            for one in left
        )
        if told and self._left.get(target) != told:
            reason = "it could cost records that only this region has"
            self._log.warning("not taken over", topic=target, left=told, reason=reason)
        self._left[target] = told

    def _change(self, target: str, behind: Sequence[Difference]) -> dict[str, str]:
        """What could be changed: all, or nothing."""
        wanted = {one.setting: one.value for one in behind}
        try:
            set_configs(self._own, target, wanted)
        except CutwaterError as error:
            if self._failed.get(target) != str(error):
                self._failed[target] = str(error)
                self._log.warning("settings not taken over", topic=target, reason=str(error))
            return {}
        self._failed.pop(target, None)
        told = "; ".join(f"{one.setting}: {one.found or 'not set'}, now {one.value}" for one in behind)
        self._log.info("settings taken over", topic=target, changed=told)
        self._metrics.taken_over(target, len(wanted))
        return wanted

    def _look(self, copied: Mapping[str, _Copied]) -> dict[str, int]:
        """Of each topic the lag of its compaction; nothing where brokers do not say: others tell of that."""
        lags_ms = {}
        try:
            for name, one in self._same(copied).items():
                lags_ms[name] = self.lag_ms(one)
                self.take(one, copied[name].target)
        except CutwaterError:
            pass
        return lags_ms

    def _same(self, copied: Mapping[str, _Copied]) -> dict[str, FoundTopic]:
        """Those that still are what is copied: one made anew has other settings, the copy is of the one before.

        Who they are is asked last: what was described before that is of the same topic or of an older one.
        """
        found = self._origin.all_described(copied)
        known = self._origin.identities(copied)
        return {
            name: one
            for name, one in found.items()
            if known.get(name) == Identity(copied[name].topic_id, copied[name].partitions)
        }
