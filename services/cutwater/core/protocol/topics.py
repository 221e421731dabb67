"""The topics of a job: their names, and the settings that the protocol relies on."""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.core.job.job import Output
from cutwater.core.protocol.generation import Generation

DAY_MS = 86_400_000
MIN_COMPACTION_LAG_MS = DAY_MS
DELETE_RETENTION_MS = 7 * DAY_MS
UNCLEAN = "unclean.leader.election.enable"
ROW_BYTES_MAX = 16 * 1024 * 1024
"""The largest row: several measures may each keep a text of an event. And the largest record of the protocol."""
HISTORY_BYTES = 64 * 1024 * 1024
"""What is kept of the recovery trail: some tens of thousands of starts."""
LISTED_BYTES_MAX = 100 * 1024 * 1024
"""The largest record of a list: brokers take no larger request (socket.request.max.bytes), so no larger event."""

TIMESTAMP_AHEAD = "message.timestamp.after.max.ms"
"""How far ahead of the broker's clock a producer's timestamp may be (Kafka 3.6 or newer)."""
TIMESTAMP_AHEAD_MS_MAX = 3_600_000
"""Kafka 4's default. It refuses what was meant as micro- or nanoseconds, where the producer hears of it."""


def barriers(job: str) -> str:
    return f"{job}.barriers"


def milestones(job: str) -> str:
    return f"{job}.milestones"


def candidates(job: str) -> str:
    """Claims of generations, and the milestones of those that are not promoted."""
    return f"{job}.candidates"


def changelog_prefix(job: str) -> str:
    """What the changelogs of all generations begin with."""
    return f"{job}.changelog."


def changelog(job: str, generation: Generation) -> str:
    return f"{changelog_prefix(job)}{generation}"


def generation_of(job: str, topic: str) -> Generation | None:
    """Whose changelog a topic is; None where it is none of the job's."""
    prefix = changelog_prefix(job)
    return Generation.parse(topic.removeprefix(prefix)) if topic.startswith(prefix) else None


def output(job: str) -> str:
    return f"{job}.output"


def published(job: str) -> str:
    """Where the publisher keeps its position, in the transaction that writes the output."""
    return f"{job}.published"


def publisher_id(job: str) -> str:
    """The transactional id that fences an older publisher of the job."""
    return f"{job}.publisher"


def dead_letters(job: str) -> str:
    return f"{job}.dead-letters"


def late(job: str) -> str:
    return f"{job}.late"


def history(job: str) -> str:
    """The recovery trail: what each start of a service found and decided."""
    return f"{job}.history"


def alerts(job: str) -> str:
    return f"{job}.alerts"


def watch_id(job: str) -> str:
    """The transactional id that fences an older watch of the job, and the consumer group that it reads with."""
    return f"{job}.watch"


def generation_ids(job: str) -> str:
    """What the transactional ids begin with that belong to one generation."""
    return f"{job}.g"


def driver_id(job: str, generation: Generation) -> str:
    """The transactional id that fences an older driver of the same generation."""
    return f"{job}.{generation}.driver"


def signal_id(job: str) -> str:
    """The transactional id that fences an older commit-signal of the job."""
    return f"{job}.signal"


def claims_id(job: str) -> str:
    """The transactional id under which generations are claimed, promoted and given up: one process at a time."""
    return f"{job}.claims"


def candidate_id(job: str, generation: Generation) -> str:
    """The transactional id that fences an older commit-signal of the same candidate."""
    return f"{job}.{generation}.signal"


def replay_id(job: str) -> str:
    """The transactional id under which dead letters are produced again, one process at a time."""
    return f"{job}.replay"


EVERY_CHANGE = Output()
"""What a job file without `output` says."""


@dataclass(frozen=True)
class TopicSpec:
    name: str
    partitions: int
    config: tuple[tuple[str, str], ...]
    keeps_partitions: bool = False
    """Does it outlive generations, and keep the number that it was made with, whatever a later one has?"""


# By size alone: the last start of a service that runs for years is kept, and one that starts in a loop is bounded.
_BY_SIZE = (
    ("cleanup.policy", "delete"),
    ("retention.ms", "-1"),
    ("retention.bytes", str(HISTORY_BYTES)),
    ("segment.bytes", str(HISTORY_BYTES // 4)),
)


def owned(
    job: str,
    generation: Generation,
    partitions: int,
    output: Output = EVERY_CHANGE,
    lists_retention_ms: int | None = None,
) -> list[TopicSpec]:
    """The topics that Cutwater itself writes for one generation of a job, the publisher's among them.

    `lists_retention_ms`: of dead letters and late events; None for ever.
    """
    # Cuts of thousands of partitions, with the leader of each, make a barrier of more than Kafka's default.
    largest = ("max.message.bytes", str(ROW_BYTES_MAX))
    # Pruning deletes records explicitly: a time or size limit would break the chain by the clock.
    kept = (("cleanup.policy", "delete"), ("retention.ms", "-1"), ("retention.bytes", "-1"), largest)
    compacted = (
        ("cleanup.policy", "compact"),
        # Old event times would be compacted at once in spite of the lag; the log's own time is honest.
        ("message.timestamp.type", "LogAppendTime"),
        ("min.compaction.lag.ms", str(MIN_COMPACTION_LAG_MS)),
        ("delete.retention.ms", str(DELETE_RETENTION_MS)),
    )
    rows = (*compacted, largest)
    # A replayed epoch lists the same keys again. What the source's topic can hold must fit, with its wrapping.
    listed: tuple[tuple[str, str], ...] = (*compacted, ("max.message.bytes", str(LISTED_BYTES_MAX)))
    if lists_retention_ms is not None:
        # By the log's own time, as compaction; a segment is rolled in time to be deleted in time.
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
        # Keyed by alert: the newest record of each stays, so a watch that starts knows which are on.
        TopicSpec(alerts(job), 1, compacted),
    ]
    published_too = output.mode != "none"
    return mine + (_published(job, partitions, output.retention_ms) if published_too else [])


def _published(job: str, partitions: int, retention_ms: int) -> list[TopicSpec]:
    """The topics that the publisher writes: the output, and its own position."""
    # The log's own time: event times of long ago would be deleted at once.
    output_config = (
        ("cleanup.policy", "delete"),
        ("message.timestamp.type", "LogAppendTime"),
        ("retention.ms", str(retention_ms)),
        ("max.message.bytes", str(ROW_BYTES_MAX)),
    )
    return [
        TopicSpec(output(job), partitions, output_config, keeps_partitions=True),
        # It holds the newest milestone.
        TopicSpec(published(job), 1, (("cleanup.policy", "compact"), ("max.message.bytes", str(ROW_BYTES_MAX)))),
    ]


def events(topic: str, partitions: int) -> TopicSpec:
    """The events topic, for those who let Cutwater create it. Retention is the user's business."""
    honest = (TIMESTAMP_AHEAD, str(TIMESTAMP_AHEAD_MS_MAX))
    return TopicSpec(topic, partitions, (("cleanup.policy", "delete"), ("retention.ms", "-1"), honest))
