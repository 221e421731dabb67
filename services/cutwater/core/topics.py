"""The topics of a job: their names, and the settings that the protocol relies on."""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.core.generations import Generation

DAY_MS = 86_400_000
MIN_COMPACTION_LAG_MS = DAY_MS
DELETE_RETENTION_MS = 7 * DAY_MS


def barriers(job: str) -> str:
    return f"{job}.barriers"


def milestones(job: str) -> str:
    return f"{job}.milestones"


def changelog_prefix(job: str) -> str:
    """What the changelogs of all generations begin with."""
    return f"{job}.changelog."


def changelog(job: str, generation: Generation) -> str:
    return f"{changelog_prefix(job)}{generation}"


def driver_id(job: str, generation: Generation) -> str:
    """The transactional id that fences an older driver of the same generation."""
    return f"{job}.{generation}.driver"


def signal_id(job: str) -> str:
    """The transactional id that fences an older commit-signal of the job."""
    return f"{job}.signal"


@dataclass(frozen=True)
class TopicSpec:
    name: str
    partitions: int
    config: tuple[tuple[str, str], ...]


def owned(job: str, generation: Generation, partitions: int) -> list[TopicSpec]:
    """The topics that Cutwater itself writes for one generation of a job."""
    # Pruning deletes records explicitly: a time or size limit would break the chain by the clock.
    kept = (("cleanup.policy", "delete"), ("retention.ms", "-1"), ("retention.bytes", "-1"))
    compacted = (
        ("cleanup.policy", "compact"),
        # Old event times would be compacted at once in spite of the lag; the log's own time is honest.
        ("message.timestamp.type", "LogAppendTime"),
        ("min.compaction.lag.ms", str(MIN_COMPACTION_LAG_MS)),
        ("delete.retention.ms", str(DELETE_RETENTION_MS)),
    )
    return [
        TopicSpec(barriers(job), 1, kept),
        TopicSpec(milestones(job), 1, kept),
        TopicSpec(changelog(job, generation), partitions, compacted),
    ]


def events(topic: str, partitions: int) -> TopicSpec:
    """The events topic, for those who let Cutwater create it. Retention is the user's business."""
    return TopicSpec(topic, partitions, (("cleanup.policy", "delete"), ("retention.ms", "-1")))
