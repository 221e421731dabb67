"""The ACLs that each service needs on a cluster with an authorizer: least privilege, as plain values.

Two rules of Kafka shorten the list: Read, Write and Delete include Describe, and since 3.0 Write on any topic
includes idempotent writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import from_origin

SETUP = "setup"
"""The user of `cutwater up`, `doctor` and `down --delete`, which create and delete the topics."""
TOOLS = "tools"
"""The user of `cutwater status`, `milestones`, `produce`, `tail`, and the lists."""
MIRROR = "mirror"
MIRROR_TOOLS = "mirror-tools"
"""The user of `cutwater mirror` and `cutwater regions`, which pause a mirror and resync a copy."""
CLIENT_GROUP = "cutwater"
SPARK_GROUPS = "spark-kafka-source-"


@dataclass(frozen=True)
class Acl:
    service: str
    resource: str
    """topic, group or transactional-id."""
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False
    """Whether `name` is a prefix."""

    def plain(self) -> dict[str, Any]:
        pattern = "prefixed" if self.prefixed else "literal"
        return {**asdict(self), "operations": list(self.operations), "pattern": pattern}

    def command(self, bootstrap: str, principal: str) -> str:
        """Return the `kafka-acls.sh` command that grants these operations."""
        operations = " ".join(f"--operation {one}" for one in self.operations)
        pattern = " --resource-pattern-type prefixed" if self.prefixed else ""
        return (
            f"kafka-acls.sh --bootstrap-server {bootstrap} --add --allow-principal {principal} "
            f"{operations} --{self.resource} {self.name}{pattern}"
        )


def required_acls(job: str, source: str, generation: Generation) -> list[Acl]:
    """Return every ACL of a job, by service. `source`: the source topic; empty for a user's own query."""
    every = (*_setup(job, source, generation), *_driver(job, source), *_others(job, source))
    return [one for one in every if one.name]


def local_mirror_acls(job: str, source: str, origin: str) -> list[Acl]:
    """Return the ACLs of the mirror of region `origin` in its own region. `source`: the topic, empty for none."""
    every = (*_mirror(job, source, origin), *_mirror_tools(job, source, origin))
    return [one for one in every if one.name]


def origin_mirror_acls(job: str, source: str) -> list[Acl]:
    """Return the ACLs that users of this region need in the mirrored one, where they write nothing."""
    every = (*_copied(MIRROR, job, source), *_copied(MIRROR_TOOLS, job, source), *_region_check_acls(job))
    return [one for one in every if one.name]


def _region_check_acls(job: str) -> Iterator[Acl]:
    # Before they continue the job, they check whether that region has taken it over.
    for service in ("driver", "commit-signal"):
        yield Acl(service, "topic", topics.milestones(job), ("Read",))
        yield Acl(service, "topic", topics.candidates(job), ("Read",))
        yield _group(service)


def _copied(service: str, job: str, source: str) -> Iterator[Acl]:
    # A copy takes its settings from the original topic.
    asks = ("Read", "DescribeConfigs")
    yield Acl(service, "topic", source, asks)
    yield Acl(service, "topic", topics.milestones(job), asks)
    yield Acl(service, "topic", _changelogs(job), asks, prefixed=True)
    yield _group(service)


def _copies(job: str, source: str, origin: str) -> list[tuple[str, bool]]:
    events = from_origin(source, origin) if source else ""
    return [(events, False), (_changelogs(job), True), (mirror_records.milestones_from(job, origin), False)]


def _mirror(job: str, source: str, origin: str) -> Iterator[Acl]:
    # The mirror creates its topics, and reads them to make sure that every record is its own.
    makes = ("Create", "DescribeConfigs", "Read", "Write")
    for name, prefixed in _copies(job, source, origin):
        # Their settings follow the origin's.
        yield Acl(MIRROR, "topic", name, (*makes, "AlterConfigs"), prefixed)
    for name in (mirror_records.arrivals(job, origin), mirror_records.positions(job)):
        yield Acl(MIRROR, "topic", name, makes)
    # To detect a fork: copied milestones that contradict the parent milestone of this region.
    yield Acl(MIRROR, "topic", topics.candidates(job), ("Read",))
    yield Acl(MIRROR, "topic", topics.milestones(job), ("Read",))
    yield Acl(MIRROR, "topic", topics.history(job), ("Write",))
    yield Acl(MIRROR, "topic", topics.alerts(job), ("Read", "Write"))
    yield Acl(MIRROR, "transactional-id", mirror_records.ids(job, origin), ("Write",), prefixed=True)
    yield _group(MIRROR)


def _mirror_tools(job: str, source: str, origin: str) -> Iterator[Acl]:
    for name, prefixed in _copies(job, source, origin):
        # A copy of a changelog may start with the rows of a snapshot.
        more = ("Create", "DescribeConfigs", "Write") if prefixed else ()
        yield Acl(MIRROR_TOOLS, "topic", name, ("Read", "Delete", *more), prefixed)
    yield Acl(MIRROR_TOOLS, "topic", mirror_records.arrivals(job, origin), ("Read", "Delete"))
    # A resync must not delete the promoted generation or a copy that it reads. The claims id excludes new claims.
    yield Acl(MIRROR_TOOLS, "topic", topics.milestones(job), ("Read",))
    yield Acl(MIRROR_TOOLS, "topic", topics.candidates(job), ("Read",))
    yield Acl(MIRROR_TOOLS, "topic", mirror_records.positions(job), ("Read", "Write"))
    yield Acl(MIRROR_TOOLS, "topic", topics.audit(job), ("Create", "Write"))
    yield Acl(MIRROR_TOOLS, "transactional-id", topics.claims_id(job), ("Write",))
    yield Acl(MIRROR_TOOLS, "transactional-id", mirror_records.ids(job, origin), ("Write",), prefixed=True)
    yield _group(MIRROR_TOOLS)


def _setup(job: str, source: str, generation: Generation) -> Iterator[Acl]:
    yield Acl(SETUP, "topic", source, ("Describe", "DescribeConfigs"))
    # Read: to see that the driver has started, and to measure.
    every = ("Create", "DescribeConfigs", "Read", "Delete")
    for one in topics.generation_topics(job, generation, 1):
        if not one.name.startswith(_changelogs(job)):
            yield Acl(SETUP, "topic", one.name, (*every, "Write") if one.name == topics.audit(job) else every)
    yield Acl(SETUP, "topic", _changelogs(job), every, prefixed=True)
    yield _mirrored(SETUP, job)
    yield _group(SETUP)


def _driver(job: str, source: str) -> Iterator[Acl]:
    yield Acl("driver", "topic", source, ("Read",))
    # After a failover: copies of other regions' sources.
    yield Acl("driver", "topic", from_origin(source, ""), ("Read",), prefixed=True)
    # The driver reads its own rows to prove them, and the barriers of earlier attempts.
    yield Acl("driver", "topic", _changelogs(job), ("Read", "Write"), prefixed=True)
    yield Acl("driver", "topic", topics.barriers(job), ("Read", "Write"))
    yield Acl("driver", "topic", topics.milestones(job), ("Read",))
    yield Acl("driver", "topic", topics.candidates(job), ("Read",))
    yield _mirrored("driver", job)
    # What is listed is not counted again for measures of kept: state.
    yield Acl("driver", "topic", topics.dead_letters(job), ("Read", "Write"))
    yield Acl("driver", "topic", topics.late(job), ("Read", "Write"))
    yield Acl("driver", "topic", topics.history(job), ("Write",))
    yield Acl("driver", "transactional-id", topics.generation_ids(job), ("Write",), prefixed=True)
    yield _group("driver")
    yield Acl("driver", "group", SPARK_GROUPS, ("Read",), prefixed=True)


def _others(job: str, source: str) -> Iterator[Acl]:
    # A service that the protocol stops writes an alert before it exits.
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
    # A candidate's commit-signal has its own id. Once promoted, it fences the drivers of earlier generations.
    yield Acl("commit-signal", "transactional-id", topics.generation_ids(job), ("Write",), prefixed=True)
    yield _group("commit-signal")
    yield Acl("rehydrator", "topic", _changelogs(job), ("Read",), prefixed=True)
    yield Acl("rehydrator", "topic", topics.milestones(job), ("Read",))
    # The rows of candidates are loaded before their promotion.
    yield Acl("rehydrator", "topic", topics.candidates(job), ("Read",))
    yield Acl("rehydrator", "topic", topics.history(job), ("Write",))
    yield _group("rehydrator")
    yield Acl("publisher", "topic", _changelogs(job), ("Read",), prefixed=True)
    yield Acl("publisher", "topic", topics.milestones(job), ("Read",))
    yield Acl("publisher", "topic", topics.candidates(job), ("Read",))
    yield Acl("publisher", "topic", topics.output(job), ("Write",))
    yield Acl("publisher", "topic", topics.published(job), ("Read", "Write"))
    yield Acl("publisher", "topic", topics.history(job), ("Write",))
    yield Acl("publisher", "transactional-id", topics.publisher_id(job), ("Write",))
    yield _group("publisher")
    # Write: a release ends the stream, under commit-signal's transactional id. Delete: 'cutwater prune'.
    yield Acl(TOOLS, "topic", topics.milestones(job), ("Read", "Write", "Delete"))
    yield Acl(TOOLS, "topic", topics.barriers(job), ("Read", "Delete"))
    yield Acl(TOOLS, "topic", topics.candidates(job), ("Read", "Write"))
    yield Acl(TOOLS, "topic", topics.published(job), ("Read",))
    yield Acl(TOOLS, "topic", topics.alerts(job), ("Read",))
    # 'cutwater skew' checks whether the source is compacted.
    yield Acl(TOOLS, "topic", source, ("DescribeConfigs", "Write"))
    yield Acl(TOOLS, "topic", topics.dead_letters(job), ("Read", "Write"))
    yield Acl(TOOLS, "topic", topics.late(job), ("Read",))
    yield Acl(TOOLS, "topic", topics.output(job), ("Read",))
    yield Acl(TOOLS, "topic", topics.history(job), ("Read",))
    # Each action of an operator leaves a record.
    yield Acl(TOOLS, "topic", topics.audit(job), ("Read", "Write"))
    yield Acl(TOOLS, "topic", topics.published(job), ("Read",))
    yield Acl(TOOLS, "topic", _changelogs(job), ("Read",), prefixed=True)
    # 'cutwater skew spread' also creates the topic for a job of an earlier version.
    yield Acl(TOOLS, "topic", topics.spread(job), ("Create", "DescribeConfigs", "Read", "Write"))
    yield Acl(TOOLS, "transactional-id", topics.spread_id(job), ("Write",))
    yield Acl(TOOLS, "transactional-id", topics.replay_id(job), ("Write",))
    yield Acl(TOOLS, "transactional-id", topics.claims_id(job), ("Write",))
    # Withdrawing a candidate fences its driver and commit-signal before it checks for a promotion.
    yield Acl(TOOLS, "transactional-id", topics.generation_ids(job), ("Write",), prefixed=True)
    yield Acl(TOOLS, "transactional-id", topics.signal_id(job), ("Write",))
    yield _group(TOOLS)


def _group(service: str) -> Acl:
    # No offsets are committed; the client library only looks up the group's coordinator.
    return Acl(service, "group", CLIENT_GROUP, ("Read",))


def _mirrored(service: str, job: str) -> Acl:
    # A first generation does not start if another region's job is mirrored here. The topic need not exist.
    return Acl(service, "topic", mirror_records.positions(job), ("Read",))


def _changelogs(job: str) -> str:
    return topics.changelog_prefix(job)


def missing_operations(wanted: Acl, allowed: frozenset[str]) -> list[str]:
    """Return the operations on an existing resource that are not in `allowed` (Kafka's names)."""
    held = {one.replace("_", "").lower() for one in allowed}
    return [one for one in wanted.operations if one != "Create" and one.lower() not in held]
