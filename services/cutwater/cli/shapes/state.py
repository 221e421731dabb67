"""The JSON of verbs that read a job's state: milestones, rows, lists, snapshots, comparisons."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

Offsets = dict[str, int]
"""By `topic/partition` the next offset."""
Time = str | int
"""ISO 8601; outside the years 1 to 9999 milliseconds since 1970."""
Row = dict[str, Any]
"""`key`, `window_start` and `window_end`, then a value per measure as docs/FORMAT.md writes it in JSON."""


class TopicEvidence(TypedDict):
    """What shows later that a topic has lost nothing below a cut."""

    topic: str
    topic_id: str
    """Its identity; empty where the brokers give none."""
    leader_epochs: list[int]
    """By partition: the number of the leader that told the cut; -1 for unknown."""


class Milestone(TypedDict):
    token: str
    job: str
    generation: str
    attempt: int
    epoch: int
    sequence: int
    parent_hash: str
    """Hash of the record before it, in hexadecimal."""
    barriers_position: int
    source_cut: Offsets
    changelog_cut: Offsets
    watermark_ms: int
    horizon_ms: int
    rows: int
    digest: int
    events: int
    """Events read by the epoch, rejected ones included."""
    rejected: int
    no_value: int
    """Those of them that have no value: deletions, on a compacted topic."""
    late: int
    """(event, window) pairs that came after their window had closed."""
    skew_ms: int
    schema_fingerprint: str
    definition: str
    """What a row says: hash of the job's key, event time, window, shards and measures."""
    epoch_started_ms: int
    written_ms: int
    committed_ms: int
    tombstones: int
    collected: list[int]
    partition_rows: list[int]
    partition_digests: list[int]
    rewinds_to: int
    """The sequence that a rollback goes back to; 0 for none."""
    origin_cut: Offsets
    """Of source partitions that are copied from another region: the next offset there."""
    evidence: list[TopicEvidence]
    """Of the topics of both cuts."""


class ListedMilestone(Milestone):
    hash: str
    """Hash of this record, in hexadecimal."""


class ShownMilestone(TypedDict):
    """The milestone that a rehydrator shows, as its HTTP API writes it."""

    token: str
    standby: bool
    sequence: int
    generation: str
    epoch: int
    watermark: Time
    horizon: Time
    lower_bound: Time | None
    committed: Time
    age_ms: int
    origin: NotRequired[str]


class Held(TypedDict):
    """What of the state a replica holds; null for all."""

    partitions: list[int] | None
    selection: dict[str, Any] | None


class Key(TypedDict):
    """The answer of `GET /v1/state/{key}` (docs/HTTP.md)."""

    key: str
    milestone: ShownMilestone
    rows: list[Row]
    next_from: Time | None
    """Give it as `--from` for the rows that follow; null at the end."""
    hint: NotRequired[str]
    holds: NotRequired[Held]


class Change(TypedDict):
    key: str
    window_start: str
    window_end: str
    kind: str
    """update, final, correction or tombstone."""
    values: dict[str, Any]
    """By measure, as docs/FORMAT.md writes it in JSON."""


class CommittedMilestone(TypedDict):
    token: str
    first_sequence: int
    """Below `sequence` if several milestones came as one."""
    sequence: int
    watermark: str
    committed_ms: int
    rewinds_to: int
    """At a rollback: the sequence whose state the job went back to; else 0."""
    changes: list[Change]


class DeadLetter(TypedDict):
    topic: str
    partition: int
    offset: int
    reason: str
    field: str | None
    """The field that `rule` is about; null where that is the whole record."""
    rule: str | None
    """What is not as it must be, for people; null where a version before has listed the event."""
    key: str | None
    value_bytes: int | None
    head: str | None
    """The first 200 bytes of the event's value; null where they are not to be shown (CUTWATER_SHOW_PAYLOADS)."""
    written_ms: int
    generation: str
    attempt: int
    epoch: int
    replayed: str | None
    """`topic/partition/offset` where the event was produced again."""


class DeadLetters(TypedDict):
    total: int
    problems: list[str]
    """Why the list is not what the milestones count."""
    entries: list[DeadLetter]


class Replayed(TypedDict):
    dry_run: bool
    problems: list[str]
    entries: list[DeadLetter]


class LatePair(TypedDict):
    topic: str
    partition: int
    offset: int
    key: str
    window_start: str
    window_end: str
    event_time_ms: int
    watermark_ms: int
    generation: str
    attempt: int
    epoch: int


class LatePairs(TypedDict):
    total: int
    problems: list[str]
    entries: list[LatePair]


class Selection(TypedDict):
    keys: list[str]
    prefixes: list[str]
    since_ms: int | None


class Exported(TypedDict):
    path: str
    token: str
    partitions: list[int] | None
    """Null for all."""
    selection: Selection | None
    rows: int
    bytes: int
    standbys: list[str]


class Export(TypedDict):
    files: list[Exported]
    rows: int
    seconds: float


class UsedSnapshot(TypedDict):
    token: str
    files: int
    bytes: int
    lower_bound: str | None
    """Windows that end by then were evicted from it."""


class Slice(TypedDict):
    partition: int
    first: int
    end: int


class RestoredRecords(TypedDict):
    records: int
    bytes: int
    seconds: float


# `from` is no name in a class body.
Restore = TypedDict(
    "Restore",
    {
        "token": str,
        "committed": str,
        "watermark": str,
        "folder": str,
        "from": str | None,
        "snapshot": UsedSnapshot | None,
        "snapshot_passed_over": UsedSnapshot | None,
        "lower_bound": str | None,
        "partitions": list[Slice],
        "selection": Selection | None,
        "records_max": int,
        "seconds_expected": float,
        "restored": RestoredRecords | None,
    },
)


class Snapshot(TypedDict):
    token: str
    share: str
    problem: str
    """Empty if its manifest can be read; then the other fields are there."""
    partitions: NotRequired[list[int] | None]
    created: NotRequired[str]
    files: NotRequired[int]
    bytes: NotRequired[int]


class Snapshots(TypedDict):
    store: str
    stored_bytes: NotRequired[int]
    """Of `snapshots list`."""
    snapshots: list[Snapshot]


class Retention(TypedDict):
    last: int
    hours: int
    days: int


class PrunedShare(TypedDict):
    job: str
    generation: str
    share: str
    retired: list[int]
    deleted: int
    bytes: int
    forgotten: int
    unreadable: list[str]


class PrunedSnapshots(TypedDict):
    store: str
    dry_run: bool
    policy: Retention
    shares: list[PrunedShare]


class PrunedRecords(TypedDict):
    topic: str
    offsets: int
    """So many go from its beginning; 0 for none."""
    first: int
    """The first offset that was kept before."""
    what: str
    kept: str
    """Why no more goes."""


class Sum(TypedDict):
    rows: int
    digest: str


class Difference(TypedDict):
    key: str
    window_start: str
    window_end: str
    shard: int
    values: dict[str, str | None]
    """By place; null where it has no such row."""
    suspects: list[str]


class Place(TypedDict):
    place: str
    verdict: Literal["equal", "different", "not compared", "skipped"]
    found: Sum
    expected: Sum
    differences: int
    reason: str


class Verification(TypedDict):
    """Of the places of one region."""

    milestone: Milestone
    places: list[Place]
    differing_rows: int
    differences: list[Difference]
    next_steps: list[str]
    """What to do about what differs; empty where all is equal."""
    repair: str | None
    """With --repair: what is done or would be; null where nothing is."""


class Shard(TypedDict):
    shard: int
    held: dict[str, Sum]
    """By region."""


class Comparison(TypedDict):
    """Of two regions; with --every one a line."""

    milestone: Milestone
    verdict: Literal["equal", "different"]
    origin: str
    region: str
    held: dict[str, Sum]
    """By region."""
    shards: list[Shard]
    differing_rows: int
    differences: list[Difference]
    bytes: int


class NotCompared(TypedDict):
    """With --every: a round that could not be compared."""

    verdict: Literal["not compared"]
    reason: str
