"""Applies changes of the origin's topic settings to the copies; `core.mirror.topic_config_sync` decides which.

A topic is checked before it is copied, and then every 10 seconds. Settings that cannot be changed here, or are an
operator's to change, are logged and do not stop the copying.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from cutwater.adapters.kafka.admin import describe_topics, set_configs
from cutwater.adapters.kafka.client import TIMEOUT_S
from cutwater.adapters.kafka.topic_ids import Identity
from cutwater.core.errors import CutwaterError, UsageError
from cutwater.core.mirror.compaction_lag import HELD_S
from cutwater.core.mirror.copy_progress import NEVER_MS
from cutwater.core.mirror.topic_config_sync import copy_of, lag_ms, largest_of
from cutwater.core.protocol.topic_settings import Difference, FoundTopic
from cutwater.core.util.log_throttle import LogThrottle
from cutwater.mirror.topics.background import PeriodicQuery, run_in_background
from cutwater.mirror.topics.context import MirrorContext
from cutwater.mirror.topics.topic_copy import CopiedTopic

LOOK_S = 10.0
"""Shorter than the pause of a log cleaner (15 s), which may start to remove more."""


class _Copied(NamedTuple):
    target: str
    topic_id: str
    partitions: int


class TopicConfigSync:
    """The settings in one process of a mirror. Several processes may repeat a change, which is harmless."""

    def __init__(self, context: MirrorContext, kept: Collection[str] = ()) -> None:
        """`kept`: settings that this region decides itself."""
        self._context, self._kept = context, frozenset(kept)
        self._query: PeriodicQuery[dict[str, FoundTopic]] = PeriodicQuery("settings", LOOK_S, context.clock_s)
        self._taking: Future[None] | None = None
        self._waiting = LogThrottle(HELD_S)
        self._failed: dict[str, str] = {}
        """By topic here, why it could not be changed; logged once."""
        self._unseen: dict[str, str] = {}
        """By topic, there or here, why its settings are unknown; "" for all topics. Logged once."""
        self._left: dict[str, str] = {}
        """By topic here, what an operator must change; logged once."""
        self._shortest_ms: dict[str, int] = {}
        """By topic there, the shortest compaction lag since this process started."""

    def sync(self, followed: Mapping[str, CopiedTopic]) -> None:
        """Sync the copies' settings if due, also while paused. Does not block."""
        if self._query.answered:
            asked_s, found = self._query.asked_s, self._query.take()
            self._apply_answer(found, followed, asked_s)
            self._have_taken({followed[name].target: one for name, one in found.items() if name in followed})
        if followed and self._query.due:
            copied = {name: _Copied(one.target, one.topic_id, one.partitions) for name, one in followed.items()}
            self._query.begin(lambda: self._look(copied))

    def _apply_answer(
        self, found: Mapping[str, FoundTopic], followed: Mapping[str, CopiedTopic], asked_s: float
    ) -> None:
        for name, one in found.items():
            lag = self.lag_ms(one)
            if name in followed and followed[name].spared.update(lag, asked_s):
                self._context.log.warning(
                    "compaction lag is shorter", topic=name, region=self._context.region, lag_ms=lag
                )

    def _have_taken(self, found: Mapping[str, FoundTopic]) -> None:
        """`found`: by topic here. In its own thread: slow brokers here must not delay the origin's settings."""
        if self._taking is None or self._taking.done():
            if self._taking is not None:
                self._taking.result(TIMEOUT_S)  # already done
            self._taking = run_in_background("taking over", lambda: self._take_all(found))

    def holds(self, one: CopiedTopic, came_s: float | None) -> bool:
        """Whether fetched records must wait, because compaction may have removed more before them; log it.
        `came_s`: as in `CompactionLagLease.holds`.
        """
        now_s = self._context.clock_s()
        held = one.spared.must_wait(came_s, now_s)
        if came_s is not None and (held or one.spared.unknown):
            self._say_unknown(one, held, now_s)
        return held

    def _say_unknown(self, one: CopiedTopic, held: bool, now_s: float) -> None:
        if self._waiting.admit(f"{one.name} {held}", now_s) is None:
            return
        reason = (
            f"{self._context.region} has not reported for {one.spared.old_s(now_s):.0f} s how long its compaction "
            "spares records (min.compaction.lag.ms)"
        )
        if held:
            self._context.log.warning("waiting", topic=one.name, reason=reason)
        else:
            unspared = "copied as if it spared none: more milestones have no arrival"
            self._context.log.warning("compaction not known", topic=one.name, reason=f"{reason}; {unspared}")

    # From here on: in threads.

    def lag_ms(self, found: FoundTopic) -> int:
        """Return how long the origin's compaction has spared every record, as far as this process knows. A longer
        lag counts from the next start: older records were compacted under the shorter one.
        """
        shortest = self._shortest_ms[found.name] = min(self._shortest_ms.get(found.name, NEVER_MS), lag_ms(found))
        return shortest

    def take(self, found: FoundTopic, here: FoundTopic) -> int:
        """Give the copy the settings of the origin's topic; return the largest record that it then takes."""
        copy = copy_of(found, here.name, self._context.job, self._context.region)
        self._leave(here.name, copy.left(here, self._kept))
        changed = self._change(here.name, copy.behind(here, self._kept))
        return largest_of({**here.config, **changed})

    def _leave(self, target: str, left: Sequence[Difference]) -> None:
        told = "; ".join(
            f"{one.setting}: {one.found or 'not set'}, in {self._context.region} {one.value} ({one.remedy})"
            for one in left
        )
        if told and self._left.get(target) != told:
            reason = "the change could delete records that only this region has"
            self._context.log.warning("not taken over", topic=target, left=told, reason=reason)
        self._left[target] = told

    def _change(self, target: str, behind: Sequence[Difference]) -> dict[str, str]:
        """Return what could be changed. One at a time: brokers may forbid one and allow another."""
        changed, refused = {}, []
        for one in behind:
            try:
                set_configs(self._context.own, target, {one.setting: one.value})
            except CutwaterError as error:
                refused.append(str(error))
                if not isinstance(error, UsageError):
                    break  # no answer: each would take as long
            else:
                changed[one.setting] = one.value
        self._log_change(target, [one for one in behind if one.setting in changed], "; ".join(refused))
        return changed

    def _log_change(self, target: str, changed: Sequence[Difference], refused: str) -> None:
        if refused and self._failed.get(target) != refused:
            self._context.log.warning("settings not taken over", topic=target, reason=refused)
        self._failed[target] = refused
        if changed:
            told = "; ".join(f"{one.setting}: {one.found or 'not set'}, now {one.value}" for one in changed)
            self._context.log.info("settings taken over", topic=target, changed=told)
            self._context.metrics.taken_over(target, len(changed))

    def _look(self, copied: Mapping[str, _Copied]) -> dict[str, FoundTopic]:
        try:
            return self._same(copied)
        except CutwaterError as error:  # no answer: the next check finds out
            self._missed("", error)
            return {}

    def _take_all(self, found: Mapping[str, FoundTopic]) -> None:
        try:
            here = self._described(partial(describe_topics, self._context.own), found)
        except CutwaterError as error:
            self._missed("", error)
            return
        for target, one in found.items():
            if target in here:
                self.take(one, here[target])

    def _same(self, copied: Mapping[str, _Copied]) -> dict[str, FoundTopic]:
        """Return the topics that still are those copied: a recreated topic may have other settings. Their ids are
        read last: what was described before belongs to the same topic or to an older one.
        """
        found = self._described(self._context.origin.all_described, copied)
        known = self._context.origin.identities(found)
        return {
            name: one
            for name, one in found.items()
            if known.get(name) == Identity(copied[name].topic_id, copied[name].partitions)
        }

    def _described(
        self, ask: Callable[[Sequence[str]], dict[str, FoundTopic]], names: Collection[str]
    ) -> dict[str, FoundTopic]:
        """Describe topics; one that may not be read is logged, and the others are described."""
        names = sorted(names)
        try:
            found = ask(names)
        except UsageError:
            found = self._one_by_one(ask, names)
        for name in ("", *found):
            self._unseen.pop(name, None)
        return found

    def _one_by_one(
        self, ask: Callable[[Sequence[str]], dict[str, FoundTopic]], names: Sequence[str]
    ) -> dict[str, FoundTopic]:
        found: dict[str, FoundTopic] = {}
        for name in names:
            try:
                found |= ask([name])
            except UsageError as error:
                self._missed(name, error)
        return found

    def _missed(self, topic: str, error: CutwaterError) -> None:
        """Log that settings are unknown: a shorter lag there goes unnoticed meanwhile."""
        self._context.metrics.settings_missed()
        if self._unseen.get(topic) != str(error):
            self._unseen[topic] = str(error)
            about = {"topic": topic} if topic else {}
            self._context.log.warning("settings not looked at", reason=str(error), **about)
