"""Where a generation of an attached query begins to read: told to the program, and checked in its plan."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from cutwater.adapters.kafka.admin import descriptions
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UsageError
from cutwater.core.generations.source_topics import copied_region
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater_spark.query.query import EARLIEST
from cutwater_spark.query.sql import kafka_options

_BUILD = (
    "give attach a function that builds the query, and read by the options of start.kafka(...) (docs/ATTACH.md)"
)
_BY_TIME = ("startingTimestamp", "startingOffsetsByTimestamp")
"""Options of Spark's source that count instead of `startingOffsets`."""
_COMMITTED = "read_committed"


class _Source(NamedTuple):
    """One Kafka source of a query."""

    topics: list[str]
    offsets: str
    """Its starting offsets."""
    by_time: str
    """An option that counts instead of them; empty if there is none."""
    isolation: str


@dataclass(frozen=True)
class Start:
    """The start of the generation that the program works for; `attach` gives it to the function that builds the
    query."""

    cluster: Cluster
    generation: Generation
    parent: Milestone | None = None
    """The milestone whose rows are the seed; None for a job's first generation."""

    @property
    def cut(self) -> Cut:
        """The events below it are in the seed."""
        return self.parent.source_cut if self.parent else Cut()

    def kafka(self, *names: str) -> dict[str, str]:
        """Return the options of Spark's Kafka source for these topics: brokers, without secrets, and offsets.

        After a failover the copies of these topics are among them. Raise UsageError if a topic is missing.
        """
        read = {place.topic for place, _ in self.cut}
        copies = {topic for topic in read if any(copied_region(name, topic) is not None for name in names)}
        names = (*names, *sorted(copies - set(names)))
        # Spark's default also reads aborted records, which copies have.
        isolation = {"kafka.isolation.level": _COMMITTED}
        options = {**kafka_options(self.cluster), **isolation, "subscribe": ",".join(names)}
        if self.parent is None:
            return {**options, "startingOffsets": "earliest"}
        found = descriptions(self.cluster, names)
        if missing := [name for name in names if name not in found]:
            raise UsageError(
                f"there is no topic {missing[0]} at {self.cluster.bootstrap}: create it, or correct its name"
            )
        firsts: dict[str, dict[str, int]] = {name: {} for name in names}
        for name, one in found.items():
            firsts[name] = {str(number): EARLIEST for number in range(len(one.partitions))}
        for place, offset in self.cut:
            if place.topic in firsts:
                firsts[place.topic][str(place.partition)] = offset
        return {**options, "startingOffsets": json.dumps(firsts)}


def require_start(frame: DataFrame, start: Start, source: str = "") -> None:
    """Raise UsageError unless the query reads each topic once, and from the generation's start on.

    `source`: the only topic that it may read, beside its copies; empty if the job file names none.
    """
    read = list(_sources(frame))
    if source:
        _require_only(source, {name for one in read for name in one.topics})
        _require_committed(source, read)
    for topic, times in Counter(name for one in read for name in one.topics).items():
        if times > 1:
            raise UsageError(
                f"the query reads topic {topic} {times} times, so a milestone does not say which of its events "
                "are in the state: with 'merges' read it once"
            )
    if start.parent is None:
        return
    there = {name for one in read for name in one.topics}
    if gone := sorted({place.topic for place, _ in start.cut} - there):
        raise UsageError(f"{start.parent.token} has read {gone[0]}, but the query does not: {_BUILD}")
    for one in read:
        if one.by_time:
            raise UsageError(
                f"{start.generation} starts from {start.parent.token}, but the query reads "
                f"{', '.join(one.topics)} by {one.by_time}, which Spark prefers to startingOffsets: events would "
                f"count twice or never; {_BUILD}"
            )
        _require_offsets(one.topics, one.offsets, start)


def _require_only(source: str, read: Collection[str]) -> None:
    other = sorted(name for name in read if name != source and copied_region(source, name) is None)
    if other or source not in read:
        raise UsageError(
            f"attached.source is {source}, but the query reads {', '.join(other) or 'only copies of it'}: the "
            "mirror copies that topic alone, so a failover would lose the others' events. Correct the name; a "
            "query of several topics has no 'source', and cannot fail over"
        )


def _require_committed(source: str, read: Iterable[_Source]) -> None:
    for one in read:
        copies = [name for name in one.topics if copied_region(source, name) is not None]
        if copies and one.isolation != _COMMITTED:
            raise UsageError(
                f"the query reads {', '.join(copies)} without kafka.isolation.level read_committed: events that "
                f"the mirror wrote in a transaction that was aborted would count, too; {_BUILD}"
            )


def _require_offsets(names: Iterable[str], offsets: str, start: Start) -> None:
    known = start.cut.as_dict()
    wanted = {(place.topic, place.partition): offset for place, offset in known.items() if place.topic in names}
    if not wanted and offsets == "earliest":
        return  # a topic that the parent has not read
    try:
        given = {
            (topic, int(number)): at for topic, of in json.loads(offsets).items() for number, at in of.items()
        }
    except (ValueError, AttributeError):
        given = {}
    # A partition that is new since the milestone is read from its first event.
    if not given or {place: at for place, at in given.items() if at != EARLIEST or place in wanted} != wanted:
        raise UsageError(
            f"{start.generation} starts from {start.parent and start.parent.token}, but the query reads "
            f"{', '.join(names)} from startingOffsets '{offsets[:200]}': events would count twice or "
            f"never; {_BUILD}"
        )


def _sources(frame: DataFrame) -> Iterator[_Source]:
    """Return each source. Raise UsageError for a source that is not in the cut."""
    jvm: Any = frame._jdf
    leaves = jvm.queryExecution().analyzed().collectLeaves()
    for leaf in (leaves.apply(number) for number in range(leaves.size())):
        if not leaf.isStreaming():
            continue
        kafka = leaf.nodeName() == "StreamingRelationV2" and leaf.sourceName() == "kafka"
        names = leaf.extraOptions().getOrDefault("subscribe", "") if kafka else ""
        if not names:
            what = f"from {leaf.sourceName()}" if leaf.nodeName() == "StreamingRelationV2" else leaf.nodeName()
            raise UsageError(
                f"a stream of the query ({what}) is no Kafka source with the option 'subscribe', so a milestone "
                "does not say which of its events are in the state: with 'merges' read Kafka topics by name"
            )
        given = leaf.extraOptions()
        yield _Source(
            [name.strip() for name in str(names).split(",")],
            str(given.getOrDefault("startingOffsets", "latest")),
            next((one for one in _BY_TIME if given.containsKey(one)), ""),
            str(given.getOrDefault("kafka.isolation.level", "read_uncommitted")),
        )
