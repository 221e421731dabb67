"""What `cutwater doctor` makes of what it finds, from plain values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.checks import acls, cluster, source_topic
from cutwater.core.checks.cluster import APIS, BrokerVersion, ClusterFacts, check_cluster, check_topics
from cutwater.core.checks.findings import Finding, Level, error, ok, warning, worst
from cutwater.core.checks.machine import JAVA_SPARK_MAX, MB, Machine, Need, check_machine, check_spark
from cutwater.core.checks.replication import Replication
from cutwater.core.checks.source_topic import Position, check_rights, check_source
from cutwater.core.job.windows import WindowSpec
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.topic_settings import FoundTopic
from cutwater.core.protocol.topics import TopicSpec

HOUR = 3_600_000
GOOD = Machine((3, 11), "/java", 17, "", True, 8_000 * MB, "data", "", 50_000 * MB, True)
NEED = Need(driver_heap_bytes=1_024 * MB, state_bytes=512 * MB, embedded_broker=True)
VERSION = BrokerVersion(frozenset(APIS), 30)
FACTS = ClusterFacts("kafka:9092", brokers=3, version=VERSION, clock_ms=3)


JOB = replace(
    load_job(Path(__file__).parents[4] / "deploy/jobs/flights.yaml"),
    topic="events",
    window=WindowSpec(HOUR, HOUR),
    lateness_ms=2 * HOUR,
)


def levels(findings: Any) -> dict[str, Level]:
    return {one.check: one.level for one in findings}


def only(findings: Any, check: str) -> Finding:
    (one,) = [each for each in findings if each.check == check]
    return one


def test_the_worst_level_decides() -> None:
    """One error makes the whole an error; warnings alone do not; nothing is fine."""
    assert worst([]) is Level.OK
    assert worst([ok("a", ""), warning("b", "", "")]) is Level.WARNING
    assert worst([error("a", "", ""), ok("b", ""), warning("c", "", "")]) is Level.ERROR


def test_a_good_machine_and_cluster_have_no_findings() -> None:
    """Everything as it should be is ok throughout."""
    assert set(levels(check_machine(GOOD, NEED)).values()) == {Level.OK}
    assert set(levels(check_machine(replace(GOOD, java_version=JAVA_SPARK_MAX), NEED)).values()) == {Level.OK}
    assert set(levels(check_cluster(FACTS)).values()) == {Level.OK}


@pytest.mark.parametrize(
    ("change", "check", "level"),
    [
        ({"python": (3, 10)}, "Python", Level.ERROR),
        ({"python": (3, 14)}, "Python", Level.ERROR),
        ({"java": None, "java_version": None, "java_advice": "none"}, "Java", Level.ERROR),
        ({"java_version": None, "java_advice": "does not start"}, "Java", Level.ERROR),
        ({"java_version": JAVA_SPARK_MAX + 1}, "Java", Level.WARNING),
        ({"java_version": 25}, "Java", Level.WARNING),
        ({"memory_free_bytes": 3_000 * MB}, "memory", Level.WARNING),
        ({"memory_free_bytes": NEED.memory_bytes // 2}, "memory", Level.WARNING),
        ({"memory_free_bytes": NEED.memory_bytes // 2 - 1}, "memory", Level.ERROR),
        ({"memory_free_bytes": 500 * MB}, "memory", Level.ERROR),
        ({"disk_free_bytes": 100 * MB}, "disk", Level.ERROR),
        ({"disk_free_bytes": NEED.disk_bytes - 1}, "disk", Level.WARNING),
        ({"disk_free_bytes": 1_500 * MB}, "disk", Level.WARNING),
        ({"data_dir_problem": "read-only"}, "data folder", Level.ERROR),
        ({"jars_present": False}, "jars", Level.WARNING),
    ],
)
def test_what_a_machine_lacks_is_found_and_has_a_remedy(change: Any, check: str, level: Level) -> None:
    """Each lack is at its level, says what was found and what to do, and nothing else is reported."""
    found = list(check_machine(replace(GOOD, **change), NEED))
    bad = [one for one in found if one.level is not Level.OK]
    assert [(one.check, one.level) for one in bad] == [(check, level)]
    assert bad[0].found
    assert bad[0].remedy


def test_what_is_just_enough_is_enough() -> None:
    just = replace(GOOD, memory_free_bytes=NEED.memory_bytes, disk_free_bytes=NEED.disk_bytes)
    assert set(levels(check_machine(just, NEED)).values()) == {Level.OK}


def test_a_java_without_vector_instructions_will_do() -> None:
    """It is said, as it is what Spark would not start with by itself; nothing is wrong."""
    found = {one.check: one for one in check_machine(replace(GOOD, vector_module=False), NEED)}
    assert set(levels(found.values()).values()) == {Level.OK}
    assert "without asking for it" in found["Java for Spark"].found


@pytest.mark.parametrize(
    ("master", "authenticates", "lacks_secret", "expected"),
    [
        ("local[*]", True, False, []),
        ("spark://m:7077", True, False, [Level.OK]),
        ("spark://m:7077", True, True, [Level.ERROR]),
        ("spark://m:7077", False, False, [Level.WARNING]),
    ],
)
def test_a_cluster_of_spark_must_ask_who_comes(
    master: str, authenticates: bool, lacks_secret: bool, expected: list[Level]
) -> None:
    assert [one.level for one in check_spark(master, authenticates, lacks_secret)] == expected


def test_a_users_own_broker_needs_no_memory_here() -> None:
    """The need is the driver's heap, its JVM and three services; the embedded broker comes on top."""
    own = Need(driver_heap_bytes=1_024 * MB, state_bytes=512 * MB, embedded_broker=False)
    assert NEED.memory_bytes - own.memory_bytes == 1_100 * MB


@pytest.mark.parametrize(
    ("change", "check", "level"),
    [
        ({"problem": "no answer"}, "brokers", Level.ERROR),
        ({"version": None}, "Kafka version", Level.SKIPPED),
        ({"version": BrokerVersion(frozenset({0, 1}), 30)}, "Kafka version", Level.ERROR),
        ({"version": BrokerVersion(frozenset(APIS), 19)}, "Kafka version", Level.WARNING),
        ({"version": BrokerVersion(frozenset(APIS), None)}, "Kafka version", Level.WARNING),
        ({"brokers": 1}, "copies", Level.WARNING),
        ({"clock_ms": -1_001}, "clock", Level.ERROR),
        ({"clock_ms": None}, "clock", Level.SKIPPED),
        ({"clock_ms": None, "clock_problem": "not allowed"}, "clock", Level.WARNING),
    ],
)
def test_what_a_cluster_lacks_is_found(change: Any, check: str, level: Level) -> None:
    """Each lack of a cluster is at its level; an unreachable one gives that finding alone."""
    assert levels(check_cluster(replace(FACTS, **change)))[check] is level


@pytest.mark.parametrize(
    ("api", "name"),
    [(0, "Produce"), (1, "Fetch"), (2, "ListOffsets"), (3, "Metadata"), (26, "EndTxn"), (60, "DescribeCluster")],
)
def test_an_api_that_a_broker_lacks_is_named(api: int, name: str) -> None:
    """By the number that Kafka's protocol gives it."""
    lacking = replace(FACTS, version=BrokerVersion(frozenset(APIS) - {api}, 30))
    found = only(check_cluster(lacking), "Kafka version")
    assert (found.level, found.found) == (Level.ERROR, f"the broker lacks {name}")


def test_of_a_cluster_that_did_not_answer_nothing_is_known() -> None:
    facts = ClusterFacts("kafka:9092", problem="no answer")
    assert (facts.brokers, facts.version, facts.found, facts.refused, facts.clock_ms) == (0, None, {}, {}, None)
    assert levels(check_cluster(facts)) == {"brokers": Level.ERROR}


def test_copies_are_the_safe_ones_unless_somebody_says_otherwise() -> None:
    """Three of each, of which two acknowledge."""
    safe = "replication factor 3, min.insync.replicas 2"
    assert only(check_cluster(FACTS), "copies").found == safe
    assert only(check_cluster(FACTS, 3, 2), "copies").found == safe
    assert only(check_cluster(FACTS, 2, 1), "copies").found.startswith(
        "replication factor 2, min.insync.replicas 1"
    )


def test_releases_are_told_by_the_metadata_version() -> None:
    """Kafka's own table: the level of a release, and of what lies between two."""
    names = {7: "3.3", 19: "3.7", 21: "3.9", 25: "4.0", 27: "4.1", 29: "4.2", 30: "4.3", 99: "4.4 or newer"}
    assert {level: cluster.release_of(level) for level in names} == names
    assert cluster.release_of(1) is None


def source(**config: str) -> ClusterFacts:
    return replace(FACTS, found={"events": FoundTopic("events", 4, config, 3, frozenset({"READ", "DESCRIBE"}))})


@pytest.mark.parametrize(
    ("config", "level"),
    [
        ({"retention.ms": "-1"}, Level.OK),
        ({"retention.ms": str(3 * HOUR)}, Level.OK),
        ({"retention.ms": str(3 * HOUR - 1)}, Level.WARNING),
        ({"retention.ms": str(2 * HOUR)}, Level.WARNING),
        ({"retention.ms": str(2 * HOUR - 1)}, Level.ERROR),
        ({"retention.ms": "-1", "retention.bytes": "1000"}, Level.WARNING),
        ({"cleanup.policy": "compact"}, Level.WARNING),
    ],
)
def test_retention_is_held_against_lateness_and_window(config: dict[str, str], level: Level) -> None:
    """Below the lateness events go while windows wait; below lateness and window a new start suffers."""
    found = [one for one in check_source(JOB, source(**config), None) if one.check == "source retention"]
    assert worst(found) is level


def test_a_compacted_source_is_not_warned_of_its_size() -> None:
    """`retention.bytes` deletes nothing there."""
    compacted = source(**{"cleanup.policy": "compact", "retention.bytes": "1000", "retention.ms": str(HOUR)})
    found = [one for one in check_source(JOB, compacted, None) if one.check == "source retention"]
    assert [one.found.split()[0] for one in found] == ["cleanup.policy"]


@pytest.mark.parametrize(
    ("config", "level"),
    [
        ({"message.timestamp.after.max.ms": str(HOUR)}, Level.OK),
        ({"message.timestamp.after.max.ms": str(24 * HOUR + 1)}, Level.WARNING),
        ({"message.timestamp.after.max.ms": str(2**63 - 1)}, Level.WARNING),
        ({"message.timestamp.difference.max.ms": str(2**63 - 1)}, Level.WARNING),
        ({"message.timestamp.difference.max.ms": str(HOUR)}, Level.OK),
        ({}, Level.WARNING),
        ({"message.timestamp.type": "LogAppendTime"}, Level.OK),
    ],
)
def test_timestamps_that_no_broker_refuses_are_warned_of(config: dict[str, str], level: Level) -> None:
    """Nanoseconds by mistake end the query: topics that Cutwater creates refuse them, others may not."""
    found = only(check_source(JOB, source(**config), None), "timestamps")
    assert found.level is level
    assert level is Level.OK or "max.ms=3600000" in found.remedy
    made = dict(topics.events("events", 1).config)
    assert only(check_source(JOB, source(**made), None), "timestamps").level is Level.OK


def test_messages_larger_than_events_may_be_are_warned_of() -> None:
    """Up to that size, which is also what a topic has that says nothing of it, an epoch is bounded."""
    most = source_topic.EVENT_BYTES_MAX
    for config, level in (
        ({}, Level.OK),
        ({"max.message.bytes": str(most)}, Level.OK),
        ({"max.message.bytes": str(most + 1)}, Level.WARNING),
    ):
        assert only(check_source(JOB, source(**config), None), "message size").level is level


def test_a_record_that_spark_cannot_date_is_an_error() -> None:
    """It is named, beside what the topic's setting says of the next one."""
    made = source(**dict(topics.events("events", 1).config))
    told = check_source(JOB, made, None, ["events/3 at offset 7"])
    _, found = [one for one in told if one.check == "timestamps"]
    assert found.level is Level.ERROR
    assert "events/3 at offset 7 has a timestamp" in found.found


def test_a_checkpoint_that_retention_overtakes_is_an_error() -> None:
    """A milestone older than half the retention, and events deleted before they were read, are errors."""
    kept = source(**{"retention.ms": str(10 * HOUR)})
    fresh = Position(Cut.of_topic("events", [10, 10]), Cut.of_topic("events", [10, 3]), HOUR)
    assert levels(check_source(JOB, kept, fresh))["checkpoint"] is Level.OK
    half = replace(fresh, age_ms=5 * HOUR)
    assert levels(check_source(JOB, kept, half))["source retention"] is Level.OK
    old = replace(fresh, age_ms=6 * HOUR)
    assert levels(check_source(JOB, kept, old))["source retention"] is Level.ERROR
    gap = replace(fresh, first_kept=Cut.of_topic("events", [15, 3]))
    assert "5 unread events" in only(check_source(JOB, kept, gap), "checkpoint").found


def test_a_missing_or_forbidden_source_is_an_error() -> None:
    """Both say so in one finding, and nothing is judged that was not seen."""
    for facts in (FACTS, replace(FACTS, refused={"events": "not allowed"})):
        (one,) = check_source(JOB, facts, None)
        assert one.level is Level.ERROR


def test_topics_are_wrong_creatable_refused_or_thin() -> None:
    """A wrong setting and a refusal are errors, a missing topic is fine, and too few copies are a warning."""
    spec = TopicSpec("t", 1, (("cleanup.policy", "compact"),))
    three = Replication(3, 2)

    def level(found: FoundTopic | None = None, **more: Any) -> Level:
        facts = replace(FACTS, found={"t": found} if found else {}, **more)
        return worst(check_topics(facts, [spec], three))

    right = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
    assert level() is Level.OK
    assert level(refused={"t": "no"}) is Level.ERROR
    assert level(FoundTopic("t", 1, right, 3)) is Level.OK
    assert level(FoundTopic("t", 1, right, 2)) is Level.WARNING
    assert level(FoundTopic("t", 1, right, 1)) is Level.ERROR, "two must acknowledge, and there is one"
    assert level(FoundTopic("t", 1, {"cleanup.policy": "delete"}, 3)) is Level.ERROR
    unclean = right | {"unclean.leader.election.enable": "true"}
    assert level(FoundTopic("t", 1, unclean, 3)) is Level.WARNING


def test_a_topic_is_fine_or_has_findings_and_never_both() -> None:
    spec = TopicSpec("t", 1, (("cleanup.policy", "compact"),))
    right = {"cleanup.policy": "compact", "min.insync.replicas": "2"}

    def told(**more: str) -> list[Level]:
        facts = replace(FACTS, found={"t": FoundTopic("t", 1, right | more, 3)})
        return [one.level for one in check_topics(facts, [spec], Replication(3, 2))]

    assert told() == [Level.OK]
    assert told(**{"unclean.leader.election.enable": "true"}) == [Level.WARNING]
    assert told(**{"min.insync.replicas": "4"}) == [Level.ERROR]


def test_a_source_that_may_lose_what_it_acknowledged_is_told() -> None:
    """By an unclean election, or with one broker that acknowledged alone; of one copy another check speaks."""
    unclean = source(**{"unclean.leader.election.enable": "true", "min.insync.replicas": "2"})
    assert only(check_source(JOB, unclean, None), "source elections").remedy.endswith("election.enable=false")
    assert only(check_source(JOB, unclean, None), "source copies").level is Level.OK
    assert only(check_source(JOB, source(), None), "source copies").level is Level.WARNING
    alone = replace(FACTS, found={"events": FoundTopic("events", 1, {}, 1)})
    assert only(check_source(JOB, alone, None), "source copies").level is Level.OK


@pytest.mark.parametrize(
    ("copies", "config", "said"),
    [
        (3, {}, "a power failure of all 3 copies at once loses the newest events"),
        (1, {"flush.messages": str(2**63 - 1)}, "a power failure of the only copy loses the newest events"),
        (3, {"flush.messages": "1000", "flush.ms": "500"}, "flush.messages is 1,000, flush.ms is 500: "),
    ],
)
def test_when_brokers_write_to_disk_is_told(copies: int, config: dict[str, str], said: str) -> None:
    """By default no copy has flushed what all have acknowledged."""
    facts = replace(FACTS, found={"events": FoundTopic("events", 4, config, copies, frozenset({"READ"}))})
    assert said in only(check_source(JOB, facts, None), "source flushes").found


def test_missing_rights_are_listed() -> None:
    """What is wanted on a topic and not held is named; a cluster that says nothing is skipped."""
    wanted = [acls.Acl("producer", "topic", "events", ("Read", "Write"))]
    (one,) = check_rights(source(), wanted)
    assert (one.level, one.found) == (Level.ERROR, "this user lacks Write on topic events")
    silent = replace(FACTS, found={"events": FoundTopic("events", 1, {}, 1, None)})
    assert next(check_rights(silent, wanted)).level is Level.SKIPPED


def test_durations_for_people() -> None:
    """The largest unit of which there are two."""
    said = [source_topic.duration_text(ms) for ms in (90_000, 2 * HOUR, 3 * 24 * HOUR, 86_400_000, 5_400_000, 20)]
    assert said == ["90 s", "2 h", "3 d", "1 d", "90 min", "20 ms"]
