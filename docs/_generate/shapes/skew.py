"""The JSON of `cutwater skew`: load by shard and key, and the spreading plan."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


class KeyLoad(TypedDict):
    key: str
    events: int
    """From its true number less `keys_error` to it plus `overcount`."""
    rows: int
    """Too small by at most `rows_error`."""


class SourceLoad(TypedDict):
    partition: int
    records: int


class ChangelogLoad(TypedDict):
    partition: int
    rows: int


class ShardWeight(TypedDict):
    shard: int
    weight: int
    rows: int


class Heat(TypedDict):
    band: int
    """Shards of a band."""
    column: int
    """Milestones of a column."""
    cells: list[list[int]]
    """By band, then by column: the weight of the band's heaviest shard."""


class Recommendation(TypedDict):
    kind: Literal["spread", "unspread", "source-partitions", "changelog-partitions", "nothing"]
    reason: str
    key: str | None
    over: int | None
    """Source partitions of the key; for more partitions, their number."""
    fullness: float
    """The fullest partition by the mean; 1 is even."""
    expected: float
    """The fullness after this step; 0 if it cannot be told."""


class Skew(TypedDict):
    job: str
    first: str
    """Token of the oldest milestone that is counted."""
    last: str
    milestones: int
    warm_up: int
    """Earlier milestones that were read for the counts before."""
    since: str
    until: str
    rows_read: int
    weight: Literal["events", "rows"]
    """Rows if the job has no measure of kind count without a field."""
    total: int
    overcount: int | None
    """Events that are counted twice, of all keys together; null if the milestones do not tell."""
    keys: list[KeyLoad]
    keys_error: int
    rows_error: int
    source: list[SourceLoad]
    changelog: list[ChangelogLoad]
    shards: list[ShardWeight]
    """Those with rows."""
    heat: Heat
    plan_version: int
    """Of the spreading plan; 0 for none."""
    recommendations: list[Recommendation]


class SpreadKey(TypedDict):
    key: str
    partitions: list[int]
    """Of the source."""
    since_version: int


class SpreadVersion(TypedDict):
    job: str
    version: int
    source_partitions: int
    keys: list[SpreadKey]
    made_by: str
    reason: str
    at: str


class SpreadProducer(TypedDict):
    producer: str
    version: int
    at: str
    """When it said so last."""
    state: Literal["current", "behind", "silent"]


class SpreadPlan(TypedDict):
    job: str
    plan: SpreadVersion | None
    producers: list[SpreadProducer]


class SpreadChanged(SpreadVersion):
    key: str
    """The one that was spread or put together."""
    written: bool
    """False with --dry-run."""
