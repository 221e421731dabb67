"""Topics of a job: how many copies, which settings must be there, who may do what."""

from __future__ import annotations

import pytest

from cutwater.core.checks import acls, replication
from cutwater.core.checks.replication import Replication
from cutwater.core.errors import UsageError
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.topic_settings import FoundTopic, differences

GENERATION = Generation(1, "local")
SPECS = {one.name: one for one in topics.generation_topics("ticks", GENERATION, 2)}
CHANGELOG = SPECS[topics.changelog("ticks", GENERATION)]


@pytest.mark.parametrize(("brokers", "wanted"), [(1, (1, 1)), (2, (2, 1)), (3, (3, 2)), (7, (3, 2))], ids=str)
def test_three_copies_where_there_are_three_brokers(brokers: int, wanted: tuple[int, int]) -> None:
    """Factor 3 and 2 acknowledgements from three brokers on; fewer brokers hold what they can, with a warning."""
    chosen = replication.decide(brokers)
    assert chosen == Replication(*wanted)
    told = replication.doubts(chosen, brokers)
    assert bool(told) == (brokers < 3)
    assert any("acknowledged by one broker alone" in one for one in told) == (wanted[1] < 2)


def test_settings_that_the_cluster_cannot_hold_are_named() -> None:
    """More copies than brokers, or more acknowledgements than copies: the setting is in the error."""
    with pytest.raises(UsageError, match="CUTWATER_REPLICATION_FACTOR is 3 and the cluster has 1 broker:"):
        replication.decide(1, factor=3)
    with pytest.raises(UsageError, match="CUTWATER_MIN_INSYNC_REPLICAS is 3 and there are 2 copies"):
        replication.decide(3, factor=2, min_insync=3)
    assert replication.doubts(replication.decide(3, 3, 3), 3) == [
        "every copy must acknowledge: when one broker stops, so does the job"
    ]


def test_a_topic_as_specified_has_no_differences() -> None:
    """What Cutwater creates passes its own check, whatever else is set, and longer times pass too."""
    more = {
        "segment.ms": "1",
        "max.message.bytes": "999999999",
        "min.insync.replicas": "2",
        "delete.retention.ms": "999999999999",
    }
    for spec in SPECS.values():
        assert differences(spec, FoundTopic(spec.name, spec.partitions, {**dict(spec.config), **more})) == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("cleanup.policy", "delete"),
        ("cleanup.policy", "compact,delete"),
        ("message.timestamp.type", "CreateTime"),
        ("min.compaction.lag.ms", "0"),
        ("delete.retention.ms", "1000"),
        ("delete.retention.ms", ""),
    ],
)
def test_each_wrong_setting_is_named_with_found_and_wanted(setting: str, value: str) -> None:
    """The difference names topic, setting, what was found and what is wanted, and how to set it."""
    config = {**dict(CHANGELOG.config), setting: value}
    (one,) = differences(CHANGELOG, FoundTopic(CHANGELOG.name, 2, config))
    assert (one.topic, one.setting, one.found) == (CHANGELOG.name, setting, value)
    wanted = dict(CHANGELOG.config)[setting]
    assert one.wanted.removeprefix("at least ") == wanted
    assert f"--add-config {setting}={wanted}" in one.remedy


def test_an_output_keeps_the_partitions_that_it_was_made_with() -> None:
    """Later generations have changelogs of other numbers; the rest of its settings is compared all the same."""
    spec = SPECS[topics.output("ticks")]
    assert differences(spec, FoundTopic(spec.name, spec.partitions + 3, dict(spec.config))) == []
    (one,) = differences(
        spec, FoundTopic(spec.name, spec.partitions + 3, {**dict(spec.config), "retention.ms": "1"})
    )
    assert one.setting == "retention.ms"


def test_another_number_of_partitions_is_a_difference() -> None:
    """A changelog with other partitions than the job file's is refused: its keys would be elsewhere."""
    (one,) = differences(CHANGELOG, FoundTopic(CHANGELOG.name, 5, dict(CHANGELOG.config)))
    assert str(one) == f"topic {CHANGELOG.name}: partitions is 5, and must be 2"


def test_every_topic_has_somebody_who_creates_writes_reads_and_deletes_it() -> None:
    """No topic that Cutwater owns is left out of the rights; the source is never created or deleted."""
    listed = acls.required_acls("ticks", "ticks.events", GENERATION)

    def operations(name: str) -> set[str]:
        found = [one for one in listed if one.resource == "topic"]
        return {
            operation
            for one in found
            if (name.startswith(one.name) if one.prefixed else name == one.name)
            for operation in one.operations
        }

    for name in SPECS:
        assert operations(name) >= {"Create", "Delete", "Read", "Write"}, name
    assert not operations("ticks.events") & {"Create", "Delete"}


def test_a_command_is_what_kafkas_tool_takes() -> None:
    """One right as a call of kafka-acls.sh, prefixed where it is for many topics."""
    one = acls.Acl("driver", "topic", "ticks.changelog.", ("Read", "Write"), prefixed=True)
    assert one.command("kafka:9092", "User:me") == (
        "kafka-acls.sh --bootstrap-server kafka:9092 --add --allow-principal User:me "
        "--operation Read --operation Write --topic ticks.changelog. --resource-pattern-type prefixed"
    )


def test_missing_rights_are_compared_in_kafkas_words() -> None:
    """DESCRIBE_CONFIGS is DescribeConfigs; creating says nothing of a topic that exists."""
    one = acls.Acl("setup", "topic", "t", ("Create", "DescribeConfigs", "Read"))
    assert acls.missing_operations(one, frozenset({"READ"})) == ["DescribeConfigs"]
    assert acls.missing_operations(one, frozenset({"READ", "DESCRIBE_CONFIGS"})) == []


def test_lists_are_kept_for_as_long_as_the_job_file_says() -> None:
    """Only they: nothing else that Cutwater writes goes by the clock. Without a retention they stay for ever."""
    lists = {topics.dead_letters("ticks"), topics.late("ticks")}
    for name, one in SPECS.items():
        assert ("compact,delete" in dict(one.config).values()) is False, name
    for one in topics.generation_topics("ticks", GENERATION, 2, lists_retention_ms=90 * topics.DAY_MS):
        config = dict(one.config)
        if one.name not in lists:
            assert one == SPECS[one.name]
            continue
        assert (config["cleanup.policy"], config["retention.ms"]) == ("compact,delete", str(90 * 86_400_000))
        assert int(config["segment.ms"]) <= 90 * 86_400_000, "what is not rolled is not deleted"
        wrong = differences(one, FoundTopic(one.name, one.partitions, dict(SPECS[one.name].config)))
        assert "--add-config retention.ms=7776000000" in "".join(each.remedy for each in wrong)


def test_streams_that_are_read_in_order_have_one_partition() -> None:
    """Barriers, milestones and candidates are told in one order; rows and lists are spread."""
    counts = {one.name: one.partitions for one in topics.generation_topics("ticks", GENERATION, 5)}
    for one in (topics.barriers, topics.milestones, topics.candidates, topics.published, topics.alerts):
        assert counts[one("ticks")] == 1
    assert counts[topics.changelog("ticks", GENERATION)] == 5
    assert counts[topics.dead_letters("ticks")] == counts[topics.late("ticks")] == 5


def test_rights_are_for_many_names_only_where_there_are_many() -> None:
    """Changelogs and ids of generations, copies of other regions, and groups that Spark names."""
    prefixed = {
        (one.service, one.resource, one.name)
        for one in acls.required_acls("ticks", "ticks.events", GENERATION)
        if one.prefixed
    }
    single = {
        (one.service, one.resource, one.name)
        for one in acls.required_acls("ticks", "ticks.events", GENERATION)
        if not one.prefixed
    }
    for service in ("driver", "commit-signal"):
        assert (service, "transactional-id", topics.generation_ids("ticks")) in prefixed
    assert ("driver", "group", acls.SPARK_GROUPS) in prefixed
    assert ("rehydrator", "topic", "ticks.changelog.") in prefixed
    assert ("commit-signal", "transactional-id", topics.signal_id("ticks")) in single
    assert ("driver", "topic", "ticks.events") in single
    assert not {name for _, _, name in prefixed} & {name for _, _, name in single}


def test_lists_and_output_outlive_a_generation_with_their_partitions() -> None:
    """All generations write to them; a changelog is a generation's own."""
    kept = {name for name, one in SPECS.items() if one.keeps_partitions}
    assert kept == {topics.dead_letters("ticks"), topics.late("ticks"), topics.output("ticks")}
