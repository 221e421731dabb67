"""Which settings of a copy's topic follow the origin's, which are fixed, and which may be this region's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.core.errors import UsageError
from cutwater.core.mirror.copy_progress import NEVER_MS
from cutwater.core.mirror.topic_config_sync import MAY_BE_KEPT, CopySpec, copy_of, lag_ms
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import HEADER_ROOM
from cutwater.core.protocol.topic_settings import FoundTopic

JOB, SIZE = "flights", 1_048_588
THERE = FoundTopic(
    "flights.events",
    3,
    {
        "cleanup.policy": "delete",
        "retention.ms": "86400000",
        "retention.bytes": "-1",
        "min.compaction.lag.ms": "0",
        "max.message.bytes": str(SIZE),
        "segment.bytes": "1073741824",
        "min.insync.replicas": "2",
    },
)
EVENTS = "flights.events.from-us"
CHANGELOG = topics.changelog(JOB, Generation(1, "us"))
STREAM = mirror_records.milestones_from(JOB, "us")


def copy(name: str, **there: str) -> CopySpec:
    found = replace(THERE, config=THERE.config | {key.replace("_", "."): value for key, value in there.items()})
    return copy_of(found, name, JOB, "us")


def here(spec: CopySpec, **changed: str) -> FoundTopic:
    """The copy as it was made, and changed since."""
    config = dict(spec.made.config) | {key.replace("_", "."): value for key, value in changed.items()}
    return FoundTopic(spec.name, 3, {"retention.ms": "-1", "segment.bytes": "1000"} | config)


def behind(spec: CopySpec, at: FoundTopic, *kept: str) -> dict[str, str]:
    return {one.setting: one.value for one in spec.behind(at, kept)}


def left(spec: CopySpec, at: FoundTopic, *kept: str) -> dict[str, str]:
    return {one.setting: one.value for one in spec.left(at, kept)}


def test_what_is_not_set_here_is_behind_and_less_than_here_is_not() -> None:
    """A topic here may only ever be made to hold more."""
    one = copy(EVENTS)
    there = here(one, **{"max.message.bytes": str(2 * SIZE)})
    assert "max.message.bytes" not in behind(one, there)
    small = here(one, **{"max.message.bytes": "1000"})
    assert behind(one, small)["max.message.bytes"] == dict(one.made.config)["max.message.bytes"]
    none = FoundTopic(
        one.name, 3, {name: value for name, value in small.config.items() if name != "max.message.bytes"}
    )
    assert behind(one, none)["max.message.bytes"] == dict(one.made.config)["max.message.bytes"]


def test_of_events_what_they_may_be_and_how_long_they_stay() -> None:
    """And room for the two headers; what belongs to a cluster is this one's own."""
    one = copy(EVENTS)
    assert one.made.partitions == 3
    assert dict(one.made.config) == {
        "message.timestamp.type": "CreateTime",
        "cleanup.policy": "delete",
        "min.compaction.lag.ms": "0",
        "retention.ms": "86400000",
        "retention.bytes": "-1",
        "max.message.bytes": str(SIZE + HEADER_ROOM),
    }
    assert behind(one, here(one)) == {}
    assert one.wrong(here(one, retention_ms="1", cleanup_policy="compact")) == []


def test_what_is_raised_follows_and_what_is_kept_does_not() -> None:
    made = here(copy(EVENTS))
    now = copy(EVENTS, retention_ms="-1", min_compaction_lag_ms="5000", max_message_bytes="5000000")
    wanted = {"min.compaction.lag.ms": "5000", "max.message.bytes": "5001024", "retention.ms": "-1"}
    assert behind(now, made) == wanted
    assert list(behind(now, made))[-1] == "retention.ms", "what copying needs comes first"
    del wanted["retention.ms"]
    assert behind(now, made, "retention.ms", "retention.bytes") == wanted
    assert left(now, made) == {}
    assert behind(now, here(now)) == left(now, here(now)) == {}


def test_what_could_cost_records_here_is_left_to_an_operator() -> None:
    """A purge there, or its end, must not delete what a generation here has not read."""
    at = here(copy(EVENTS))
    less = {"retention_ms": "1000", "retention_bytes": "1", "cleanup_policy": "compact,delete"}
    now = copy(EVENTS, **less, min_compaction_lag_ms="0", max_message_bytes="100")
    assert behind(now, at) == {}
    assert left(now, at) == {key.replace("_", "."): value for key, value in less.items()}
    assert left(now, at, "retention.ms", "retention.bytes") == {"cleanup.policy": "compact,delete"}
    (purge,) = copy(EVENTS, retention_ms="1000").left(at, ())
    assert "--entity-name flights.events.from-us --add-config retention.ms=1000" in purge.remedy
    assert left(copy(EVENTS), here(copy(EVENTS), retention_ms="-1")) == {"retention.ms": "86400000"}
    assert behind(copy(EVENTS), here(copy(EVENTS), retention_bytes="5")) == {"retention.bytes": "-1"}


@pytest.mark.parametrize("there", ["CreateTime", "LogAppendTime"])
def test_an_event_keeps_the_time_of_the_origins_log(there: str) -> None:
    """Whatever brokers here do by default, and whoever wrote the time there: the copy's own is neither's."""
    one = copy(EVENTS, message_timestamp_type=there)
    assert dict(one.made.config)["message.timestamp.type"] == "CreateTime"
    made_before = here(one, message_timestamp_type="LogAppendTime")
    assert one.wrong(made_before) == [], "it has events already: that is no reason to stop it"
    assert behind(one, made_before, *MAY_BE_KEPT) == {"message.timestamp.type": "CreateTime"}
    assert left(one, made_before) == {}


def test_a_changelog_has_the_time_of_the_log_here_and_the_stream_none_that_counts() -> None:
    """Compaction here waits by it; what the origin's was is in a header."""
    assert dict(copy(CHANGELOG).made.config)["message.timestamp.type"] == "LogAppendTime"
    assert "message.timestamp.type" not in dict(copy(STREAM).made.config)


def test_how_far_ahead_a_record_may_be_is_only_ever_raised() -> None:
    """What the origin's log holds of before must still be taken."""
    at = here(copy(EVENTS, message_timestamp_after_max_ms="60000"))
    assert behind(copy(EVENTS, message_timestamp_after_max_ms="1000"), at) == {}
    assert left(copy(EVENTS, message_timestamp_after_max_ms="1000"), at) == {topics.TIMESTAMP_AHEAD: "1000"}
    assert behind(copy(EVENTS, message_timestamp_after_max_ms="90000"), at) == {topics.TIMESTAMP_AHEAD: "90000"}


def test_a_batch_fits_however_small_the_origins_records_are() -> None:
    """The mirror's client fills batches up to Kafka's default."""
    for name, room in ((EVENTS, HEADER_ROOM), (CHANGELOG, HEADER_ROOM), (STREAM, 0)):
        assert dict(copy(name, max_message_bytes="20000").made.config)["max.message.bytes"] == str(SIZE + room)


def test_of_a_changelog_and_the_stream_only_the_largest_record_follows() -> None:
    """Whatever has been done to them in the origin: their other settings are the protocol's."""
    for name, room in ((CHANGELOG, HEADER_ROOM), (STREAM, 0)):
        one = copy(name, retention_ms="1", max_message_bytes="7000000")
        made = dict(one.made.config)
        assert made["max.message.bytes"] == str(7_000_000 + room)
        assert made.get("retention.ms") in (None, "-1")
        at = here(one, max_message_bytes=str(SIZE))
        assert behind(one, at, *MAY_BE_KEPT) == {"max.message.bytes": str(7_000_000 + room)}
        assert one.wrong(at) == []
        (wrong,) = one.wrong(here(one, cleanup_policy="compact,delete"))
        assert wrong.setting == "cleanup.policy"
    assert dict(copy(CHANGELOG).made.config)["min.compaction.lag.ms"] == str(topics.MIN_COMPACTION_LAG_MS)


def test_the_lag_is_that_of_a_topic_that_is_compacted() -> None:
    assert lag_ms(THERE) == NEVER_MS
    found = replace(THERE, config=THERE.config | {"cleanup.policy": "compact,delete"})
    assert lag_ms(found) == 0
    assert lag_ms(replace(found, config=found.config | {"min.compaction.lag.ms": "5000"})) == 5_000


def test_kept_is_only_what_harms_no_arrival() -> None:
    """What compaction may take here must not be more than there."""
    kept = Settings(mirror_keeps="retention.ms, retention.bytes,").kept_topic_settings
    assert kept == {"retention.ms", "retention.bytes"}
    assert Settings().kept_topic_settings == frozenset()
    with pytest.raises(UsageError, match=r"CUTWATER_MIRROR_KEEPS: cleanup\.policy: a copy follows"):
        _ = Settings(mirror_keeps="retention.ms,cleanup.policy").kept_topic_settings
