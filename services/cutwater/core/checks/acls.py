"""The rights each service needs on a cluster with an authorizer, least privilege, as plain values.

Kafka's rules that shorten the list: Read, Write and Delete include Describe; since 3.0 a right to write to any
topic includes idempotent writing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import from_origin

SETUP = "setup"
"""Whoever runs `cutwater up`, `doctor` and `down --delete`: creates the topics, and removes them."""
TOOLS = "tools"
"""Whoever runs `cutwater status`, `milestones`, `produce`, `tail`, and the lists."""
MIRROR = "mirror"
MIRROR_TOOLS = "mirror-tools"
"""Whoever runs `cutwater mirror` and `cutwater regions`: pauses a mirror, begins a copy anew."""
CLIENT_GROUP = "cutwater"
SPARK_GROUPS = "spark-kafka-source-"


@dataclass(frozen=True)
class Acl:
    """`service` may do `operations` with a resource."""

    service: str
    resource: str
    """topic, group or transactional-id."""
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False
    """Is the name the beginning of many names?"""

    def plain(self) -> dict[str, Any]:
        pattern = "prefixed" if self.prefixed else "literal"
        return {**asdict(self), "operations": list(self.operations), "pattern": pattern}

    def command(self, bootstrap: str, principal: str) -> str:
        """As a call of Kafka's own tool."""
        operations = " ".join(f"--operation {one}" for one in self.operations)
        pattern = " --resource-pattern-type prefixed" if self.prefixed else ""
        return (
            f"kafka-acls.sh --bootstrap-server {bootstrap} --add --allow-principal {principal} "
            f"{operations} --{self.resource} {self.name}{pattern}"
        )


def needed(job: str, source: str, generation: Generation) -> list[Acl]:
    """Every right that a job needs, service by service; `source` is empty where the query is the user's own."""
    every = (*_setup(job, source, generation), *_driver(job, source), *_others(job, source))
    return [one for one in every if one.name]


def mirror_here(job: str, source: str, origin: str) -> list[Acl]:
    """What the mirror of a region `origin` needs in its own; `source` is empty where the job has none."""
    every = (*_mirror(job, source, origin), *_mirror_tools(job, source, origin))
    return [one for one in every if one.name]


def mirror_there(job: str, source: str) -> list[Acl]:
    """What users of this region need in the one that is copied: nothing is written there."""
    every = (*_copied(MIRROR, job, source), *_copied(MIRROR_TOOLS, job, source), *_asked(job))
    return [one for one in every if one.name]


def _asked(job: str) -> Iterator[Acl]:
    # Before they go on: has that region gone on with the job?
    for service in ("driver", "commit-signal"):
        yield Acl(service, "topic", topics.milestones(job), ("Read",))
        yield Acl(service, "topic", topics.candidates(job), ("Read",))
        yield _group(service)


def _copied(service: str, job: str, source: str) -> Iterator[Acl]:
    # The settings of a topic say how its copy is made.
    asks = ("Read", "DescribeConfigs")
    yield Acl(service, "topic", source, asks)
    yield Acl(service, "topic", topics.milestones(job), asks)
    yield Acl(service, "topic", _changelogs(job), asks, prefixed=True)
    yield _group(service)


def _copies(job: str, source: str, origin: str) -> list[tuple[str, bool]]:
    """The topics here that hold what was copied, and whether the name is the beginning of many."""
    events = from_origin(source, origin) if source else ""
    return [(events, False), (_changelogs(job), True), (mirror_records.milestones_from(job, origin), False)]


def _mirror(job: str, source: str, origin: str) -> Iterator[Acl]:
    # It makes what it writes, and reads it again: no record may be there that it did not write.
    makes = ("Create", "DescribeConfigs", "Read", "Write")
    for name, prefixed in _copies(job, source, origin):
        # Their settings follow the origin's.
        yield Acl(MIRROR, "topic", name, (*makes, "AlterConfigs"), prefixed)
    for name in (mirror_records.arrivals(job, origin), mirror_records.positions(job)):
        yield Acl(MIRROR, "topic", name, makes)
    # Does what it copies contradict what this region went on from?
    yield Acl(MIRROR, "topic", topics.candidates(job), ("Read",))
    yield Acl(MIRROR, "topic", topics.milestones(job), ("Read",))
    yield Acl(MIRROR, "topic", topics.history(job), ("Write",))
    yield Acl(MIRROR, "topic", topics.alerts(job), ("Read", "Write"))
    yield Acl(MIRROR, "transactional-id", mirror_records.ids(job, origin), ("Write",), prefixed=True)
    yield _group(MIRROR)


def _mirror_tools(job: str, source: str, origin: str) -> Iterator[Acl]:
    for name, prefixed in _copies(job, source, origin):
        # A copy of a changelog may begin with the rows of a snapshot.
        more = ("Create", "DescribeConfigs", "Write") if prefixed else ()
        yield Acl(MIRROR_TOOLS, "topic", name, ("Read", "Delete", *more), prefixed)
    yield Acl(MIRROR_TOOLS, "topic", mirror_records.arrivals(job, origin), ("Read", "Delete"))
    # What is at work here is no copy, and no copy is given up that it reads: nor may it be claimed meanwhile.
    yield Acl(MIRROR_TOOLS, "topic", topics.milestones(job), ("Read",))
    yield Acl(MIRROR_TOOLS, "topic", topics.candidates(job), ("Read",))
    yield Acl(MIRROR_TOOLS, "topic", mirror_records.positions(job), ("Read", "Write"))
    yield Acl(MIRROR_TOOLS, "transactional-id", topics.claims_id(job), ("Write",))
    yield Acl(MIRROR_TOOLS, "transactional-id", mirror_records.ids(job, origin), ("Write",), prefixed=True)
    yield _group(MIRROR_TOOLS)


def _setup(job: str, source: str, generation: Generation) -> Iterator[Acl]:
    yield Acl(SETUP, "topic", source, ("Describe", "DescribeConfigs"))
    # Read, to see that the driver has begun, and to measure.
    every = ("Create", "DescribeConfigs", "Read", "Delete")
    for one in topics.owned(job, generation, 1):
        if not one.name.startswith(_changelogs(job)):
            yield Acl(SETUP, "topic", one.name, every)
    yield Acl(SETUP, "topic", _changelogs(job), every, prefixed=True)
    yield _mirrored(SETUP, job)
    yield _group(SETUP)


def _driver(job: str, source: str) -> Iterator[Acl]:
    yield Acl("driver", "topic", source, ("Read",))
    # After a failover: the copies of other regions' sources.
    yield Acl("driver", "topic", from_origin(source, ""), ("Read",), prefixed=True)
    # It reads what it wrote: the proof of rows, and the barriers of earlier attempts.
    yield Acl("driver", "topic", _changelogs(job), ("Read", "Write"), prefixed=True)
    yield Acl("driver", "topic", topics.barriers(job), ("Read", "Write"))
    yield Acl("driver", "topic", topics.milestones(job), ("Read",))
    yield Acl("driver", "topic", topics.candidates(job), ("Read",))
    yield _mirrored("driver", job)
    yield Acl("driver", "topic", topics.dead_letters(job), ("Write",))
    yield Acl("driver", "topic", topics.late(job), ("Write",))
    yield Acl("driver", "topic", topics.history(job), ("Write",))
    yield Acl("driver", "transactional-id", topics.generation_ids(job), ("Write",), prefixed=True)
    yield _group("driver")
    yield Acl("driver", "group", SPARK_GROUPS, ("Read",), prefixed=True)


def _others(job: str, source: str) -> Iterator[Acl]:
    # What ends a service by the protocol, it tells before it leaves.
    for service in ("driver", "commit-signal", "rehydrator", "publisher"):
        yield Acl(service, "topic", topics.alerts(job), ("Read", "Write"))
    yield Acl("watch", "topic", source, ("Describe",))
    yield Acl("watch", "topic", topics.barriers(job), ("Read",))
    yield Acl("watch", "topic", topics.milestones(job), ("Read",))
    yield Acl("watch", "topic", topics.published(job), ("Read",))
    yield Acl("watch", "topic", topics.alerts(job), ("Read", "Write"))
    yield Acl("watch", "transactional-id", topics.watch_id(job), ("Write",))
    yield Acl("watch", "group", topics.watch_id(job), ("Read",))
    yield _group("watch")
    yield Acl("commit-signal", "topic", topics.barriers(job), ("Read",))
    yield Acl("commit-signal", "topic", topics.milestones(job), ("Read", "Write"))
    yield Acl("commit-signal", "topic", topics.candidates(job), ("Read", "Write"))
    yield _mirrored("commit-signal", job)
    yield Acl("commit-signal", "topic", topics.history(job), ("Write",))
    yield Acl("commit-signal", "transactional-id", topics.signal_id(job), ("Write",))
    # As a candidate it has an id of its own; promoted, it ends the drivers of the generations before.
    yield Acl("commit-signal", "transactional-id", topics.generation_ids(job), ("Write",), prefixed=True)
    yield _group("commit-signal")
    yield Acl("rehydrator", "topic", _changelogs(job), ("Read",), prefixed=True)
    yield Acl("rehydrator", "topic", topics.milestones(job), ("Read",))
    # Of candidates: their rows are loaded before they are promoted.
    yield Acl("rehydrator", "topic", topics.candidates(job), ("Read",))
    yield Acl("rehydrator", "topic", topics.history(job), ("Write",))
    yield _group("rehydrator")
    yield Acl("publisher", "topic", _changelogs(job), ("Read",), prefixed=True)
    yield Acl("publisher", "topic", topics.milestones(job), ("Read",))
    yield Acl("publisher", "topic", topics.candidates(job), ("Read",))  # their rows, as well
    yield Acl("publisher", "topic", topics.output(job), ("Write",))
    yield Acl("publisher", "topic", topics.published(job), ("Read", "Write"))
    yield Acl("publisher", "topic", topics.history(job), ("Write",))
    yield Acl("publisher", "transactional-id", topics.publisher_id(job), ("Write",))
    yield _group("publisher")
    # A release ends the stream, under the signaller's own id.
    # Delete: of records, by 'cutwater prune'.
    yield Acl(TOOLS, "topic", topics.milestones(job), ("Read", "Write", "Delete"))
    yield Acl(TOOLS, "topic", topics.barriers(job), ("Read", "Delete"))
    yield Acl(TOOLS, "topic", topics.candidates(job), ("Read", "Write"))
    yield Acl(TOOLS, "topic", topics.published(job), ("Read",))
    yield Acl(TOOLS, "topic", topics.alerts(job), ("Read",))
    yield Acl(TOOLS, "topic", source, ("Write",))
    yield Acl(TOOLS, "topic", topics.dead_letters(job), ("Read", "Write"))
    yield Acl(TOOLS, "topic", topics.late(job), ("Read",))
    yield Acl(TOOLS, "topic", topics.output(job), ("Read",))
    yield Acl(TOOLS, "topic", topics.history(job), ("Read",))
    yield Acl(TOOLS, "topic", topics.published(job), ("Read",))
    yield Acl(TOOLS, "topic", _changelogs(job), ("Read",), prefixed=True)
    yield Acl(TOOLS, "transactional-id", topics.replay_id(job), ("Write",))
    yield Acl(TOOLS, "transactional-id", topics.claims_id(job), ("Write",))
    # Whoever gives a candidate up ends its driver, and looks alone whether it was promoted.
    yield Acl(TOOLS, "transactional-id", topics.generation_ids(job), ("Write",), prefixed=True)
    yield Acl(TOOLS, "transactional-id", topics.signal_id(job), ("Write",))
    yield _group(TOOLS)


def _group(service: str) -> Acl:
    # No offsets are committed: the client library only looks for the group's coordinator.
    return Acl(service, "group", CLIENT_GROUP, ("Read",))


def _mirrored(service: str, job: str) -> Acl:
    # No first generation begins where another region's job is copied; the topic need not exist.
    return Acl(service, "topic", mirror_records.positions(job), ("Read",))


def _changelogs(job: str) -> str:
    """One topic per generation."""
    return topics.changelog_prefix(job)


def missing(wanted: Acl, allowed: frozenset[str]) -> list[str]:
    """The operations on an existing resource that are wanted and not among those allowed (in Kafka's words)."""
    held = {one.replace("_", "").lower() for one in allowed}
    return [one for one in wanted.operations if one != "Create" and one.lower() not in held]
