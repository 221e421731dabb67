"""Does a cluster fit a job? Values in, findings out; `cutwater.operations.cluster_facts` asks the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cutwater.core.checks import replication
from cutwater.core.checks.findings import Finding, error, ok, skipped, warning
from cutwater.core.checks.replication import Replication
from cutwater.core.protocol.topic_settings import FoundTopic, differences
from cutwater.core.protocol.topics import UNCLEAN, TopicSpec

CLOCK_MS_MAX = 1_000
APIS: Mapping[int, str] = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    10: "FindCoordinator",
    19: "CreateTopics",
    20: "DeleteTopics",
    22: "InitProducerId",
    24: "AddPartitionsToTxn",
    26: "EndTxn",
    32: "DescribeConfigs",
    60: "DescribeCluster",
}
"""What Cutwater asks of a broker; the last of them came with Kafka 2.8."""
VERSIONS: Sequence[tuple[int, str]] = (
    (7, "3.3"),
    (8, "3.4"),
    (9, "3.5"),
    (12, "3.6"),
    (15, "3.7"),
    (20, "3.8"),
    (21, "3.9"),
    (22, "4.0"),
    (26, "4.1"),
    (28, "4.2"),
    (30, "4.3"),
    (31, "4.4 or newer"),
)
"""The first metadata.version of each release, by Kafka's own table (StorageTool version-mapping)."""
TESTED = "4.3"


@dataclass(frozen=True)
class BrokerVersion:
    """What a broker says that it can do."""

    apis: frozenset[int]
    level: int | None
    """Its finalised metadata.version; None where it has none (ZooKeeper, or older than 3.3)."""


@dataclass(frozen=True)
class ClusterFacts:
    """What a cluster answered. A problem is the text of an error, empty where there was none."""

    bootstrap: str
    problem: str = ""
    brokers: int = 0
    version: BrokerVersion | None = None
    found: Mapping[str, FoundTopic] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    """Topics that may not be described or, where they are missing, created: name to problem."""
    clock_ms: int | None = None
    """The broker's clock less ours; None where it was not measured."""
    clock_problem: str = ""


def check_cluster(facts: ClusterFacts, factor: int = 0, min_insync: int = 0) -> Iterator[Finding]:
    """Brokers, version, copies and clock."""
    if facts.problem:
        yield error("brokers", facts.problem, "start them, or give --bootstrap-servers and CUTWATER_KAFKA_*")
        return
    yield ok("brokers", f"{facts.brokers} at {facts.bootstrap}")
    yield _version(facts.version)
    yield _copies(facts.brokers, factor, min_insync)
    yield _clock(facts)


def _version(found: BrokerVersion | None) -> Finding:
    if found is None:
        return skipped("Kafka version", "the broker did not say", "see docs/VERSIONS.md for what is tested")
    lacks = [name for api, name in APIS.items() if api not in found.apis]
    if lacks:
        return error("Kafka version", f"the broker lacks {', '.join(lacks)}", "use Kafka 3.3 or newer")
    name = release_of(found.level)
    if name is None:
        said = "runs on ZooKeeper, or is older than 3.3"
        return warning("Kafka version", said, f"it may work; tested is Kafka {TESTED}")
    if name.startswith(TESTED):
        return ok("Kafka version", f"{name} (metadata.version {found.level})")
    return warning("Kafka version", f"{name} (metadata.version {found.level})", f"tested is Kafka {TESTED}")


def release_of(level: int | None) -> str | None:
    """The release that a metadata.version belongs to; brokers may be newer than what is finalised."""
    if level is None:
        return None
    older = [name for first, name in VERSIONS if first <= level]
    return older[-1] if older else None


def _copies(brokers: int, factor: int, min_insync: int) -> Finding:
    chosen: Replication = replication.decide(brokers, factor, min_insync)
    said = f"replication factor {chosen.factor}, min.insync.replicas {chosen.min_insync}"
    doubts = replication.doubts(chosen, brokers)
    if doubts:
        return warning("copies", f"{said}: {'; '.join(doubts)}", "fine to try it out; use three brokers for more")
    return ok("copies", said)


def _clock(facts: ClusterFacts) -> Finding:
    if facts.clock_problem:
        return warning("clock", facts.clock_problem, "the rest is not affected")
    if facts.clock_ms is None:
        return skipped("clock", "not compared: it takes a topic", "--probe creates one, and deletes it again")
    said = f"the broker's is {abs(facts.clock_ms):,} ms {'ahead' if facts.clock_ms > 0 else 'behind'}"
    if abs(facts.clock_ms) > CLOCK_MS_MAX:
        return error("clock", said, "set both by NTP: ages, compaction and max_ahead go by these clocks")
    return ok("clock", said)


def check_topics(facts: ClusterFacts, specs: Sequence[TopicSpec], wanted: Replication | None) -> Iterator[Finding]:
    """Cutwater's own topics: as the protocol needs them, or creatable."""
    for spec in specs:
        check = f"topic {spec.name}"
        if spec.name in facts.refused:
            yield error(check, facts.refused[spec.name], "'cutwater plan' lists the rights that are needed")
        elif spec.name not in facts.found:
            yield ok(check, "does not exist yet; 'cutwater up' may create it")
        else:
            yield from _existing(check, spec, facts.found[spec.name], wanted)


def unclean_elections(check: str, found: FoundTopic) -> Iterator[Finding]:
    """May a broker that lacks acknowledged records become the leader?"""
    if found.config.get(UNCLEAN) == "true":
        yield warning(
            check,
            f"{UNCLEAN} is true: a broker that lacks acknowledged records may become leader, and they are lost",
            f"kafka-configs.sh --alter --entity-type topics --entity-name {found.name} "
            f"--add-config {UNCLEAN}=false",
        )


def _existing(check: str, spec: TopicSpec, found: FoundTopic, wanted: Replication | None) -> Iterator[Finding]:
    wrong = differences(spec, found)
    for one in wrong:
        yield error(check, f"{one.setting} is {one.found or 'not set'}, and must be {one.wanted}", one.remedy)
    if wrong:
        return
    doubts = list(unclean_elections(check, found))
    yield from doubts
    least = int(found.config.get("min.insync.replicas", "1"))
    said = f"{found.partitions} partitions, {found.replication} copies, {least} must acknowledge"
    if least > found.replication:
        yield error(check, said, "lower min.insync.replicas: no record can be acknowledged")
    elif wanted and (found.replication < wanted.factor or least < wanted.min_insync):
        asked = f"{wanted.factor} copies and min.insync.replicas {wanted.min_insync} are possible here"
        yield warning(check, said, f"{asked}: kafka-reassign-partitions.sh, then kafka-configs.sh")
    elif not doubts:
        yield ok(check, said)
