"""The JSON of verbs about generations and regions: claims, copies, failovers, forks."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

# `from` is no name in a class body.
Seed = TypedDict(
    "Seed",
    {"from": Literal["changelog", "snapshot"], "reason": str | None, "store": str | None, "snapshots": list[str]},
)

Generation = TypedDict(
    "Generation",
    {
        "generation": str,
        "state": Literal["candidate", "promoting", "promoted", "past", "given up"],
        "from": str | None,
        "partitions": int,
        "rewinds_to": int,
        "claimed": str | None,
        "reason": str,
        "epoch": int | None,
        "behind": str | None,
        "events_left": int | None,
        "events_per_s": float | None,
        "seconds_left": float | None,
    },
)


class Undone(TypedDict):
    milestones: int
    events: int
    """They are read again."""
    newest: str


class Claimed(TypedDict):
    generation: str
    parent: str
    """Token of the milestone that it starts from."""
    partitions: int
    rewinds_to: int
    claimed: bool
    """False with --dry-run, if no earlier claim says the same."""
    again: bool
    promoted: bool
    seed: Seed | None
    undone: Undone | None
    """What a rollback goes back behind."""


class PrunedGeneration(TypedDict):
    generation: str
    changelog: str | None
    checkpoint: str | None
    kept: str | None
    """Why it stays; null if it goes."""
    what: str


class Replica(TypedDict):
    origin: str
    token: str | None
    """The newest arrival; null if there is none. Null is not known, in every field."""
    watermark_ms: int | None
    age_ms: int | None
    milestones: int | None
    lag_ms: int | None
    records: int | None
    size: int | None
    skew_ms: int
    records_per_s: float
    catch_up_s: float | None
    paused: bool


class Regions(TypedDict):
    region: str
    replicas: list[Replica]


class CopiedPartition(TypedDict):
    topic: str
    partition: int
    copied_to: str
    next: int
    records: int
    bytes: int
    newest_ms: int
    written_ms: int


class Mirror(TypedDict):
    origin: str
    paused: bool
    begun_anew: list[str]
    """Topics whose copy is being started again."""
    partitions: list[CopiedPartition]


class GoneArrivals(TypedDict):
    topic: str
    newest: str | None
    arrived: str | None


class Resynced(TypedDict):
    """Done, from the start of the origin's log."""

    topic: str
    snapshot: None


class ResyncWithdrawn(TypedDict):
    """With --withdraw."""

    topic: str
    withdrawn: Literal[True]


class ResyncPlan(TypedDict):
    """With --dry-run, from the start of the origin's log."""

    topic: str
    dry_run: Literal[True]
    deletes: str | None
    positions: int
    begun_anew: bool
    arrivals: GoneArrivals
    origin_asked: bool
    snapshot: None


SeededPartition = TypedDict("SeededPartition", {"partition": int, "from": int, "kept_from": int, "end": int})


class ResyncFromSnapshot(TypedDict):
    """With --from-snapshot."""

    topic: str
    dry_run: bool
    deletes: str | None
    positions: int
    begun_anew: bool
    arrivals: GoneArrivals
    origin_asked: bool
    snapshot: str
    committed: str
    shares: list[str]
    files: int
    bytes: int
    rows: int | None
    """Null with --dry-run."""
    partitions: list[SeededPartition]
    passed_over: dict[str, str]
    """By token why it is not used."""


class LowerBoundOfLoss(TypedDict):
    milestones: int
    newest: str
    offsets: int
    as_of: str


class GoingOn(TypedDict):
    generation: str
    parent: str
    first: str | None
    """The newest milestone here once it is promoted."""
    rewinds_to: int
    planned: bool
    closed_by: str | None
    """Windows that end by then are closed: events of the other region that come for them are listed as late."""
    seed: Seed | None
    loss: LowerBoundOfLoss
    steps: dict[str, float]
    """By step how many seconds it took."""


class Released(TypedDict):
    token: str
    to: str
    released: str | None
    gives_up: list[str]
    """Candidates that are given up by it."""


class Line(TypedDict):
    first: str
    last: str
    milestones: int
    events: int
    first_ms: int
    last_ms: int


class Decision(TypedDict):
    keeps: str
    reason: str
    at_ms: int


class Fork(TypedDict):
    generation: str
    origin: str
    parent: str
    claimed_ms: int
    promoted: bool
    asked: bool
    contradicts: bool | None
    """Null if the parent is not on the stream that was read."""
    milestones: int
    lines: list[Line]
    offsets_behind: int | None
    decision: Decision | None


class Forks(TypedDict):
    region: str
    forks: list[Fork]


class Decided(TypedDict):
    fork: str
    keeps: str
    reason: str
    decided: str


class LostEvents(TypedDict):
    missing: int
    after_promotion: int | None
    """Of the missing ones; null while the generation is not promoted."""
    copied_since: int
    absent: int
    read: int
    late: int
    late_pairs: int


class MissedPartition(TypedDict):
    topic: str
    partition: int
    copied_up_to: int
    end: int
    events: int
    after_promotion: int
    copied_since: int
    deleted_offsets: int
    cut_offsets: int
    forgotten_offsets: int


class Loss(Fork):
    exact: bool
    problems: list[str]
    promoted_ms: int | None
    events: LostEvents
    partitions: list[MissedPartition]
