"""The topics of a job: their names, and the settings that the protocol needs."""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.core.job.job import Output
from cutwater.core.job.row_room import ROW_BYTES_MAX
from cutwater.core.protocol.generation import Generation

DAY_MS = 86_400_000
MIN_COMPACTION_LAG_MS = DAY_MS
DELETE_RETENTION_MS = 7 * DAY_MS
UNCLEAN = "unclean.leader.election.enable"
HISTORY_BYTES = 64 * 1024 * 1024
TOPIC_CHARS_MAX = 249
"""Kafka's limit of a topic's name."""
LISTED_BYTES_MAX = 100 * 1024 * 1024
"""The largest record of a list. Brokers accept no larger request (socket.request.max.bytes)."""

TIMESTAMP_AHEAD = "message.timestamp.after.max.ms"
"""The setting for how far a producer's timestamp may be ahead of the broker's clock (Kafka 3.6 or newer)."""
TIMESTAMP_AHEAD_MS_MAX = 3_600_000
"""Kafka 4's default. The producer gets an error if it sends micro- or nanoseconds."""


def barriers(job: str) -> str:
    return f"{job}.barriers"


def milestones(job: str) -> str:
    return f"{job}.milestones"


def candidates(job: str) -> str:
    return f"{job}.candidates"


def changelog_prefix(job: str) -> str:
    """Return the prefix of the changelogs of all generations."""
    return f"{job}.changelog."


def changelog(job: str, generation: Generation) -> str:
    return f"{changelog_prefix(job)}{generation}"


def generation_of(job: str, topic: str) -> Generation | None:
    """Return the generation of a changelog; None for other topics."""
    prefix = changelog_prefix(job)
    return Generation.parse(topic.removeprefix(prefix)) if topic.startswith(prefix) else None


def output(job: str) -> str:
    return f"{job}.output"


def published(job: str) -> str:
    """Return the topic of the publisher's position, which is written in the output's transactions."""
    return f"{job}.published"


def publisher_id(job: str) -> str:
    return f"{job}.publisher"


def dead_letters(job: str) -> str:
    return f"{job}.dead-letters"


def late(job: str) -> str:
    return f"{job}.late"


def history(job: str) -> str:
    return f"{job}.history"


def audit(job: str) -> str:
    return f"{job}.audit"


def alerts(job: str) -> str:
    return f"{job}.alerts"


def spread(job: str) -> str:
    """Return the topic of the spreading plan, and of the producers that follow it."""
    return f"{job}.spread"


def spread_id(job: str) -> str:
    """Return the transactional id of changes of the plan: one process at a time."""
    return f"{job}.spread"


def watch_id(job: str) -> str:
    """Return the transactional id that fences an older watch of the job. Its consumer group has the same name."""
    return f"{job}.watch"


def generation_ids(job: str) -> str:
    """Return the prefix of the transactional ids of single generations."""
    return f"{job}.g"


def driver_id(job: str, generation: Generation) -> str:
    return f"{job}.{generation}.driver"


def signal_id(job: str) -> str:
    return f"{job}.signal"


def claims_id(job: str) -> str:
    """Return the transactional id for claims, promotions and withdrawals: one process at a time."""
    return f"{job}.claims"


def candidate_id(job: str, generation: Generation) -> str:
    return f"{job}.{generation}.signal"


def canary_id(job: str, generation: Generation) -> str:
    """Return the transactional id of the one process that compares a canary."""
    return f"{job}.{generation}.canary"


def replay_id(job: str) -> str:
    return f"{job}.replay"


EVERY_CHANGE = Output()
"""The output of a job file without `output`."""


@dataclass(frozen=True)
class TopicSpec:
    name: str
    partitions: int
    config: tuple[tuple[str, str], ...]
    keeps_partitions: bool = False
    """Whether the topic outlives generations with its number of partitions."""


# Retention by size alone keeps the last start of a service that runs for years, and bounds a restart loop.
# It keeps about 100,000 actions, however old.
_BY_SIZE = (
    ("cleanup.policy", "delete"),
    ("retention.ms", "-1"),
    ("retention.bytes", str(HISTORY_BYTES)),
    ("segment.bytes", str(HISTORY_BYTES // 4)),
)


def audit_topic(job: str) -> TopicSpec:
    return TopicSpec(audit(job), 1, _BY_SIZE)


_COMPACTED = (
    ("cleanup.policy", "compact"),
    # With CreateTime, records with old event times would be compacted at once in spite of the lag.
    ("message.timestamp.type", "LogAppendTime"),
    ("min.compaction.lag.ms", str(MIN_COMPACTION_LAG_MS)),
    ("delete.retention.ms", str(DELETE_RETENTION_MS)),
)


def spread_topic(job: str) -> TopicSpec:
    # Keyed by plan and producer: compaction keeps the newest version, and the newest word of each producer.
    return TopicSpec(spread(job), 1, _COMPACTED)


def generation_topics(
    job: str,
    generation: Generation,
    partitions: int,
    output: Output = EVERY_CHANGE,
    lists_retention_ms: int | None = None,
) -> list[TopicSpec]:
    """Return the topics that Cutwater writes for one generation of a job, including the publisher's.

    `lists_retention_ms`: the retention of dead letters and late events; None for ever.
    """
    # A barrier with cuts and leader epochs of thousands of partitions is larger than Kafka's default.
    largest = ("max.message.bytes", str(ROW_BYTES_MAX))
    # Pruning deletes records explicitly: retention by time or size would break the chain.
    kept = (("cleanup.policy", "delete"), ("retention.ms", "-1"), ("retention.bytes", "-1"), largest)
    rows = (*_COMPACTED, largest)
    # A replayed epoch lists the same keys again. A list must hold the largest source record with its wrapping.
    listed: tuple[tuple[str, str], ...] = (*_COMPACTED, ("max.message.bytes", str(LISTED_BYTES_MAX)))
    if lists_retention_ms is not None:
        # By LogAppendTime, as compaction. A segment must be rolled in time to be deleted in time.
        until = {"cleanup.policy": "compact,delete", "retention.ms": str(lists_retention_ms)}
        listed = tuple({**dict(listed), **until, "segment.ms": str(min(lists_retention_ms, 7 * DAY_MS))}.items())
    mine = [
        TopicSpec(barriers(job), 1, kept),
        TopicSpec(milestones(job), 1, kept),
        TopicSpec(candidates(job), 1, kept),
        TopicSpec(changelog(job, generation), partitions, rows),
        TopicSpec(dead_letters(job), partitions, listed, keeps_partitions=True),
        TopicSpec(late(job), partitions, listed, keeps_partitions=True),
        TopicSpec(history(job), 1, _BY_SIZE),
        audit_topic(job),
        # Keyed by alert: compaction keeps the newest record of each, so a watch that starts knows the active ones.
        TopicSpec(alerts(job), 1, _COMPACTED),
        spread_topic(job),
    ]
    published_too = output.mode != "none"
    return mine + (_published(job, partitions, output.retention_ms) if published_too else [])


def _published(job: str, partitions: int, retention_ms: int) -> list[TopicSpec]:
    # LogAppendTime, because records with old event times would be deleted at once.
    output_config = (
        ("cleanup.policy", "delete"),
        ("message.timestamp.type", "LogAppendTime"),
        ("retention.ms", str(retention_ms)),
        ("max.message.bytes", str(ROW_BYTES_MAX)),
    )
    return [
        TopicSpec(output(job), partitions, output_config, keeps_partitions=True),
        TopicSpec(published(job), 1, (("cleanup.policy", "compact"), ("max.message.bytes", str(ROW_BYTES_MAX)))),
    ]


def events(topic: str, partitions: int) -> TopicSpec:
    """Return the events topic, if Cutwater creates it. The user sets its retention."""
    honest = (TIMESTAMP_AHEAD, str(TIMESTAMP_AHEAD_MS_MAX))
    return TopicSpec(topic, partitions, (("cleanup.policy", "delete"), ("retention.ms", "-1"), honest))
