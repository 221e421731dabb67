"""The JSON of verbs that read a job's state: milestones, rows, lists, snapshots, comparisons."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

Offsets = dict[str, int]
"""The next offset by `topic/partition`."""
Time = str | int
"""ISO 8601; milliseconds since 1970 outside the years 1 to 9999."""
Row = dict[str, Any]
"""`key`, `window_start` and `window_end`, then a value per measure as docs/FORMAT.md writes it in JSON."""


class TopicEvidence(TypedDict):
    """Evidence that a topic has lost nothing below a cut."""

    topic: str
    topic_id: str
    """The topic id; empty if the brokers give none."""
    leader_epochs: list[int]
    """By partition: the epoch of the leader that reported the cut; -1 if unknown."""


class Milestone(TypedDict):
    token: str
    job: str
    generation: str
    attempt: int
    epoch: int
    sequence: int
    parent_hash: str
    """Hash of the previous record, in hexadecimal."""
    barriers_position: int
    source_cut: Offsets
    changelog_cut: Offsets
    watermark_ms: int
    horizon_ms: int
    floor_ms: int
    """Events are late for windows that end at or below it."""
    amended: int
    """Rows of windows that had ended at or below the watermark of the epoch before."""
    rows: int
    digest: int
    events: int
    """Events read by the epoch, including rejected ones."""
    rejected: int
    no_value: int
    """Rejected events without a value: deletions, on a compacted topic."""
    late: int
    """Events that arrived after their window had closed."""
    skew_ms: int
    schema_fingerprint: str
    definition: str
    """Hash of the job's key, event time, window, shards and measures."""
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
    """The next offset in the other region, for source partitions that are copied from it."""
    evidence: list[TopicEvidence]
    """For the topics of both cuts."""


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
    """The part of the state that a replica holds; null for all."""

    partitions: list[int] | None
    selection: dict[str, Any] | None


class Key(TypedDict):
    """The answer of `GET /v1/state/{key}` (docs/HTTP.md)."""

    key: str
    milestone: ShownMilestone
    rows: list[Row]
    next_from: Time | None
    """Value of `--from` for the next rows; null at the end."""
    hint: NotRequired[str]
    holds: NotRequired[Held]


SetOfRows = TypedDict(
    "SetOfRows",
    {
        "in": Literal["of", "and", "not"],
        "key": str,
        "from": str | None,
        "to": str | None,
        "milestone": int,
        "rows": int,
        "estimate": int,
        "hint": NotRequired[str],
    },
)
"""A set: all windows of a key that start in [from, to). `milestone`: index in `milestones`."""


class OwnersMilestone(ShownMilestone):
    partitions: list[int] | None
    """The partitions that this owner holds; null for all."""


class Distinct(TypedDict):
    """The answer of `POST /v1/distinct` (docs/HTTP.md)."""

    measure: str
    estimate: int
    least: int
    """The true number is from `least` to `most` with a probability of 99.7 %."""
    most: int
    exact: bool
    """Whether `estimate` is the true number."""
    sets: list[SetOfRows]
    milestones: list[OwnersMilestone]
    holds: NotRequired[Held]


class Change(TypedDict):
    key: str
    key_columns: NotRequired[dict[str, Any]]
    """By column, if the key is a list: numbers, booleans, nulls, else texts."""
    window_start: str
    window_end: str
    kind: str
    """update, final, correction or tombstone."""
    values: dict[str, Any]
    """By measure, as docs/FORMAT.md writes it in JSON."""


class CommittedMilestone(TypedDict):
    token: str
    first_sequence: int
    """Below `sequence` if several milestones were published as one."""
    sequence: int
    watermark: str
    committed_ms: int
    rewinds_to: int
    """The sequence that a rollback went back to; else 0."""
    changes: list[Change]


class DeadLetter(TypedDict):
    topic: str
    partition: int
    offset: int
    reason: str
    field: str | None
    """The field that breaks `rule`; null if the whole record does."""
    rule: str | None
    """The broken rule, for people; null if an earlier version has listed the event."""
    key: str | None
    value_bytes: int | None
    head: str | None
    """The first 200 bytes of the event's value; null if CUTWATER_SHOW_PAYLOADS is off."""
    written_ms: int
    generation: str
    attempt: int
    epoch: int
    replayed: str | None
    """`topic/partition/offset` of the event that was produced again."""


class DeadLetters(TypedDict):
    total: int
    problems: list[str]
    """Why the list differs from the milestones' counts."""
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
    """Windows that end by then are evicted from the snapshot."""


class Slice(TypedDict):
    partition: int
    first: int
    end: int


class RestoredRecords(TypedDict):
    records: int
    bytes: int
    seconds: float


# `from` is a keyword, so it cannot be a field of a class body.
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
    """Empty if the manifest is readable; then the other fields are present."""
    partitions: NotRequired[list[int] | None]
    created: NotRequired[str]
    files: NotRequired[int]
    bytes: NotRequired[int]


class Snapshots(TypedDict):
    store: str
    stored_bytes: NotRequired[int]
    """Only in `snapshots list`."""
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
    """Number of offsets that are deleted from the start of the topic."""
    first: int
    """The first offset before the deletion."""
    what: str
    kept: str
    """Why no more is deleted."""


class Sum(TypedDict):
    rows: int
    digest: str


class Difference(TypedDict):
    key: str
    window_start: str
    window_end: str
    shard: int
    values: dict[str, str | None]
    """By place; null if the place has no such row."""
    suspects: list[str]


class Place(TypedDict):
    place: str
    verdict: Literal["equal", "different", "not compared", "skipped"]
    found: Sum
    expected: Sum
    differences: int
    reason: str


class Verification(TypedDict):
    """A comparison of the places of one region."""

    milestone: Milestone
    places: list[Place]
    differing_rows: int
    differences: list[Difference]
    next_steps: list[str]
    """What to do about differences; empty if all is equal."""
    repair: str | None
    """With --repair: what is done or would be done, to the view and the output; null if nothing is."""


class Shard(TypedDict):
    shard: int
    held: dict[str, Sum]
    """By region."""


class Comparison(TypedDict):
    """A comparison of two regions; with --every one per line."""

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


class PartitionLineage(TypedDict):
    partition: int
    next: int
    """The next offset of the upstream's output in the milestone's source cut."""
    whole: str | None
    partly: str | None


class Lineage(TypedDict):
    token: str
    """The milestone whose lineage this is."""
    committed: str
    upstream: str
    """The job whose output is the source."""
    topic: str
    whole: str | None
    """Every upstream milestone up to this one is contained whole; null: none is."""
    partly: str | None
    """The newest upstream milestone of which a record has been read; null: none."""
    partitions: list[PartitionLineage]


class HotKey(TypedDict):
    key: str
    reads: int | None
    """Null if it is not among the most read ones; the same of the others."""
    events: int | float | None
    bytes: int | None


class ReadWindow(TypedDict):
    window_start: str
    reads: int


class HotKeys(TypedDict):
    since: str
    """The reads are those since then."""
    reads: int
    keys_error: int
    """A key may have been read so many times more."""
    windows_error: int
    measure: str | None
    """The measure of `events`; null if the job has none of kind count."""
    keys: list[HotKey]
    windows: list[ReadWindow]
