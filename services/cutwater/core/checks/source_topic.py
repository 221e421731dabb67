"""Checks of a source topic: existence, retention, compaction, rights, timestamps and the job's position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cutwater.core.checks.acls import Acl, missing_operations
from cutwater.core.checks.cluster import ClusterFacts, unclean_elections
from cutwater.core.checks.findings import Finding, error, ok, skipped, warning
from cutwater.core.job.job import Job
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.topic_settings import FoundTopic
from cutwater.core.protocol.topics import TIMESTAMP_AHEAD, TIMESTAMP_AHEAD_MS_MAX

EVENT_BYTES_MAX = 1_048_588
"""Kafka's default for a record batch."""
HOUR_MS = 3_600_000
_AHEAD_OR_BEHIND = "message.timestamp.difference.max.ms"
_ENDLESS_MS = 2**63 - 1


@dataclass(frozen=True)
class Position:
    source_cut: Cut
    first_kept: Cut
    age_ms: int


def check_source(
    job: Job, facts: ClusterFacts, position: Position | None, undatable: Sequence[str] = ()
) -> Iterator[Finding]:
    """Check the source topic. `undatable`: the records whose timestamps Spark cannot represent."""
    check = f"source {job.topic}"
    if job.topic in facts.refused:
        yield error(check, facts.refused[job.topic], "'cutwater plan' lists the rights that are needed")
        return
    found = facts.found.get(job.topic)
    if found is None:
        yield error(check, f"does not exist at {facts.bootstrap}", "create it, or correct source.topic")
        return
    yield ok(check, f"{found.partitions} partitions, {found.replication} copies")
    yield from unclean_elections("source elections", found)
    yield _copies_of(found)
    yield _flushes(found)
    yield from _check_retention(job, found, position)
    yield _size(found)
    yield _timestamps(job, found)
    for one in undatable:
        yield error(
            "timestamps",
            f"{one} has a timestamp that Spark cannot represent: the driver stops there",
            "start a job of another name behind it: docs/OPERATING.md, 'A record that Spark cannot date'",
        )
    if position is not None:
        yield _position(position)


def _copies_of(found: FoundTopic) -> Finding:
    least = int(found.config.get("min.insync.replicas", "1"))
    said = f"min.insync.replicas is {least} of {found.replication}"
    if found.replication > 1 and least < 2:
        return warning(
            "source copies",
            f"{said}: one broker alone may acknowledge an event, which is lost with the broker's disk, or with "
            "its power before it has flushed",
            f"kafka-configs.sh --alter --entity-type topics --entity-name {found.name} "
            "--add-config min.insync.replicas=2",
        )
    return ok("source copies", said)


def _flushes(found: FoundTopic) -> Finding:
    """Say when brokers write to disk: Kafka acknowledges what its copies hold in memory."""
    bounds = {name: int(found.config.get(name, _ENDLESS_MS)) for name in ("flush.messages", "flush.ms")}
    said = ", ".join(f"{name} is {value:,}" for name, value in bounds.items() if value < _ENDLESS_MS)
    if said:
        return ok("source flushes", f"{said}: a power failure of all copies at once loses at most that much")
    copies = "of the only copy" if found.replication == 1 else f"of all {found.replication} copies at once"
    return ok(
        "source flushes",
        f"the brokers' systems decide when: a power failure {copies} loses the newest events. Keep copies on "
        "power supplies of their own, or set flush.messages",
    )


def _check_retention(job: Job, found: FoundTopic, position: Position | None) -> Iterator[Finding]:
    check, policy = "source retention", found.config.get("cleanup.policy", "delete")
    if "compact" in policy:
        yield warning(
            check,
            f"cleanup.policy is {policy}: an event may be compacted away before it is read",
            "fine when only the last event of a record key counts; else set cleanup.policy=delete",
        )
    by_size = found.config.get("retention.bytes", "-1")
    if "delete" in policy and by_size != "-1":
        yield warning(
            check,
            f"retention.bytes is {by_size}: a burst may delete events before they are read",
            "set retention.bytes=-1, or make sure that it holds a day of bursts",
        )
    if "delete" in policy:
        yield _time(job, int(found.config.get("retention.ms", "-1")), position)


def _time(job: Job, kept_ms: int, position: Position | None) -> Finding:
    check = "source retention"
    if kept_ms < 0:
        return ok(check, "by time: unlimited")
    open_ms = job.lateness_ms + job.window.size_ms
    said = f"by time: {duration_text(kept_ms)}"
    if position is not None and position.age_ms > kept_ms // 2:
        return error(
            check,
            f"{said}, and the newest milestone is {duration_text(position.age_ms)} old",
            "start the job before unread events are deleted, or raise retention.ms",
        )
    if kept_ms < job.lateness_ms:
        return error(
            check,
            f"{said}, and the lateness is {duration_text(job.lateness_ms)}",
            "an event may be deleted while its window is still open: raise retention.ms",
        )
    if kept_ms < open_ms:
        return warning(
            check,
            f"{said}, and windows stay open for {duration_text(open_ms)}",
            "a job that starts again cannot fill its open windows: raise retention.ms",
        )
    return ok(check, said)


def _size(found: FoundTopic) -> Finding:
    check, most = "message size", int(found.config.get("max.message.bytes", EVENT_BYTES_MAX))
    if most > EVENT_BYTES_MAX:
        return warning(
            check,
            f"max.message.bytes of the source is {most:,}",
            f"an epoch is bounded by its events: lower max_events_per_epoch if many exceed {EVENT_BYTES_MAX:,}",
        )
    return ok(check, f"at most {most:,} bytes")


def _timestamps(job: Job, found: FoundTopic) -> Finding:
    """Warn if producers may set a wrong timestamp, from which `max_ahead` is measured."""
    check = "timestamps"
    if found.config.get("message.timestamp.type") == "LogAppendTime":
        return ok(check, "the broker's own")
    # Brokers before 3.6 have one bound for both directions.
    setting = next((one for one in (TIMESTAMP_AHEAD, _AHEAD_OR_BEHIND) if one in found.config), TIMESTAMP_AHEAD)
    most_ms = int(found.config.get(setting) or _ENDLESS_MS)
    if most_ms <= max(job.max_ahead_ms, 24 * HOUR_MS):
        return ok(check, f"at most {duration_text(most_ms)} ahead of the broker's clock")
    far = "any time" if most_ms >= _ENDLESS_MS else duration_text(most_ms)
    return warning(
        check,
        f"{setting} allows record timestamps {far} ahead of the broker's clock",
        "a timestamp in ns or us by mistake stops the query, or lets any event time pass max_ahead: "
        f"set {setting}={TIMESTAMP_AHEAD_MS_MAX}",
    )


def _position(position: Position) -> Finding:
    lost = {
        place: (low, position.source_cut.offset(place))
        for place, low in position.first_kept
        if low > position.source_cut.offset(place)
    }
    if not lost:
        return ok(
            "checkpoint", f"newest milestone {duration_text(position.age_ms)} old; all events after it are kept"
        )
    place, (low, cut) = next(iter(lost.items()))
    return error(
        "checkpoint",
        f"{place.topic}/{place.partition} starts at {low}, and the job has read up to {cut}: {low - cut} unread "
        "events are deleted",
        "the driver does not continue over the gap: start a job of another name",
    )


def check_rights(facts: ClusterFacts, wanted: Sequence[Acl]) -> Iterator[Finding]:
    """Check this user's rights on existing topics. A dry-run creation has checked those that do not exist."""
    check, lacks, silent = "rights", [], False
    for name, topic in facts.found.items():
        of_topic = [one for one in wanted if one.resource == "topic" and covers(one, name)]
        if topic.operations is None:
            silent = True
            continue
        without = sorted(
            {operation for one in of_topic for operation in missing_operations(one, topic.operations)}
        )
        lacks += [f"{operation} on topic {name}" for operation in without]
    if lacks:
        yield error(check, f"this user lacks {', '.join(lacks)}", "'cutwater plan' prints the kafka-acls commands")
    elif silent:
        yield skipped(check, "the cluster does not report them", "'cutwater plan' lists what is needed")
    else:
        yield ok(check, "on every topic; rights on transactional ids and groups cannot be checked in advance")


def covers(acl: Acl, name: str) -> bool:
    return name.startswith(acl.name) if acl.prefixed else name == acl.name


def duration_text(ms: int) -> str:
    """Return a duration as text, in a unit in which it is at least 2 or whole."""
    for unit, size in (("d", 24 * HOUR_MS), ("h", HOUR_MS), ("min", 60_000), ("s", 1_000)):
        if ms >= 2 * size or (ms >= size and ms % size == 0):
            return f"{ms / size:.3g} {unit}"
    return f"{ms} ms"
