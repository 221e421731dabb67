"""Checks of a cluster: values in, findings out. `cutwater.operations.cluster_facts` queries the cluster."""

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
"""The APIs that Cutwater needs; the newest of them exists since Kafka 2.8."""
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
"""The first metadata.version of each release, from Kafka's `StorageTool version-mapping`."""
TESTED = "4.3"


@dataclass(frozen=True)
class BrokerVersion:
    apis: frozenset[int]
    level: int | None
    """The finalised metadata.version; None if there is none (ZooKeeper, or older than 3.3)."""


@dataclass(frozen=True)
class ClusterFacts:
    """The answers of a cluster. A problem is the text of an error, empty if there is none."""

    bootstrap: str
    problem: str = ""
    brokers: int = 0
    version: BrokerVersion | None = None
    found: Mapping[str, FoundTopic] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    """Topics that this user may not describe, or create if they are missing: name to problem."""
    clock_ms: int | None = None
    """The broker's clock minus ours; None if it was not measured."""
    clock_problem: str = ""


def check_cluster(facts: ClusterFacts, factor: int = 0, min_insync: int = 0) -> Iterator[Finding]:
    if facts.problem:
        yield error("brokers", facts.problem, "start them, or give --bootstrap-servers and CUTWATER_KAFKA_*")
        return
    yield ok("brokers", f"{facts.brokers} at {facts.bootstrap}")
    yield _version(facts.version)
    yield _copies(facts.brokers, factor, min_insync)
    yield _clock(facts)


def _version(found: BrokerVersion | None) -> Finding:
    if found is None:
        return skipped("Kafka version", "not reported by the broker", "docs/VERSIONS.md lists the tested versions")
    lacks = [name for api, name in APIS.items() if api not in found.apis]
    if lacks:
        return error("Kafka version", f"the broker lacks {', '.join(lacks)}", "use Kafka 3.3 or newer")
    name = release_of(found.level)
    if name is None:
        said = "runs on ZooKeeper, or is older than 3.3"
        return warning("Kafka version", said, f"it may work; the tested version is Kafka {TESTED}")
    if name.startswith(TESTED):
        return ok("Kafka version", f"{name} (metadata.version {found.level})")
    return warning("Kafka version", f"{name} (metadata.version {found.level})", f"Kafka {TESTED} is tested")


def release_of(level: int | None) -> str | None:
    """Return the release of a metadata.version. Brokers may be newer than the finalised version."""
    if level is None:
        return None
    older = [name for first, name in VERSIONS if first <= level]
    return older[-1] if older else None


def _copies(brokers: int, factor: int, min_insync: int) -> Finding:
    chosen: Replication = replication.decide(brokers, factor, min_insync)
    said = f"replication factor {chosen.factor}, min.insync.replicas {chosen.min_insync}"
    doubts = replication.doubts(chosen, brokers)
    if doubts:
        return warning(
            "copies", f"{said}: {'; '.join(doubts)}", "fine for a trial; use three brokers in production"
        )
    return ok("copies", said)


def _clock(facts: ClusterFacts) -> Finding:
    if facts.clock_problem:
        return warning("clock", facts.clock_problem, "the other checks are not affected")
    if facts.clock_ms is None:
        return skipped("clock", "not compared: it needs a topic", "--probe creates one, and deletes it afterwards")
    said = f"the broker's is {abs(facts.clock_ms):,} ms {'ahead' if facts.clock_ms > 0 else 'behind'}"
    if abs(facts.clock_ms) > CLOCK_MS_MAX:
        return error(
            "clock", said, "synchronise both by NTP: ages, compaction and max_ahead depend on these clocks"
        )
    return ok("clock", said)


def check_topics(facts: ClusterFacts, specs: Sequence[TopicSpec], wanted: Replication | None) -> Iterator[Finding]:
    """Check that Cutwater's own topics have the required settings, or can be created."""
    for spec in specs:
        check = f"topic {spec.name}"
        if spec.name in facts.refused:
            yield error(check, facts.refused[spec.name], "'cutwater plan' lists the rights that are needed")
        elif spec.name not in facts.found:
            yield ok(check, "does not exist yet; 'cutwater up' can create it")
        else:
            yield from _existing(check, spec, facts.found[spec.name], wanted)


def unclean_elections(check: str, found: FoundTopic) -> Iterator[Finding]:
    """Warn if a broker that lacks acknowledged records may become leader."""
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
