"""The JSON of verbs about generations and regions."""

from __future__ import annotations

from typing import Literal, NotRequired

from docs._generate.shapes.past import MilestoneDifference
from typing_extensions import TypedDict

# `from` is a keyword, so it cannot be a field of a class body.
Seed = TypedDict(
    "Seed",
    {"from": Literal["changelog", "snapshot"], "reason": str | None, "store": str | None, "snapshots": list[str]},
)


class Hold(TypedDict):
    until: str
    by: str
    reason: str
    since: str


class Held(TypedDict):
    job: str
    generation: str
    hold: Hold | None
    """Null if its promotion need not wait."""


class CandidateSchedule(TypedDict):
    windows: list[str]
    zone: str
    open: bool
    """Whether it may work now."""
    changes_at: str | None
    """When a window opens or closes next."""
    max_events_per_s: int | None
    yield_s: float | None
    """By so much later may rows of the promoted generation become readable."""


class Scheduled(TypedDict):
    job: str
    generation: str
    schedule: CandidateSchedule | None
    """Null if nothing bounds its work."""


class ReaderLoad(TypedDict):
    """What a reader has last said of the rows of a candidate, which it loads ahead."""

    reader: Literal["publisher", "rehydrator"]
    process: str
    """Its host and process id."""
    state: Literal["loading", "loaded", "given up"]
    epoch: int


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
        "hold": Hold | None,
        "schedule": CandidateSchedule | None,
        "events_left": int | None,
        "events_per_s": float | None,
        "seconds_left": float | None,
        "loads": list[ReaderLoad],
    },
)


class Undone(TypedDict):
    milestones: int
    events: int
    """Events that are read again."""
    newest: str


class MeasureChange(TypedDict):
    name: str
    fate: Literal[
        "carried over",
        "renamed",
        "carried over in part",
        "added",
        "replaced",
        "removed",
        "derived",
        "kept in state",
        "not possible",
    ]
    before: str | None
    """Its name in the parent's rows, if it is carried over, renamed, removed or now kept in state."""
    reason: str | None


class PartChange(TypedDict):
    part: str
    """A field of the job file."""
    before: str
    after: str
    effect: str
    possible: bool
    from_x: bool
    """Whether windows before `complete_from` are in part by the old value."""


class Change(TypedDict):
    possible: bool
    complete_from: str | None
    """The start of the first window that is complete in everything new; null if nothing is new."""
    measures: list[MeasureChange]
    parts: list[PartChange]
    obstacles: list[str]
    """Why it is not possible."""


class File(TypedDict):
    name: str
    text: str


class JobFile(TypedDict):
    generation: str
    complete_from: str | None
    """As in `generation start`."""
    files: list[File]
    """The job file first, then the schemas that it names."""


class Moved(TypedDict):
    before: int
    after: int
    """Partitions."""
    shards: int
    shards_moved: int
    shards_least: int
    """The least that any balanced assignment would move."""
    keys: int
    keys_moved: int
    rows: int
    rows_moved: int
    parents_max: int
    """The most old partitions that a new one has its rows from."""
    whole: bool
    """Whether keys and rows are of the whole state; else of the newest rows."""


class Claimed(TypedDict):
    generation: str
    parent: str
    """Token of the milestone that it starts from."""
    partitions: int
    rewinds_to: int
    claimed: bool
    """False with --dry-run, if no earlier claim is the same."""
    again: bool
    promoted: bool
    seed: Seed | None
    undone: Undone | None
    """What a rollback undoes."""
    change: Change | None
    """What differs with --job-file; with --dry-run also what a job with measures of kept: state leaves behind."""
    moved: Moved | None
    """With --dry-run and another number of partitions: what gets another partition."""


class Started(Claimed):
    schedule: CandidateSchedule | None
    """What --window, --max-rate and --yield ask for; null without them."""


class RolledBack(Claimed):
    diff: NotRequired[MilestoneDifference]
    """With --diff: from the newest milestone to the one to go back to."""


class LateReplay(TypedDict):
    floor_ms: int
    """The listed events count whose windows end above it."""
    selected: int
    counted: int
    left_out: list[str]
    """Why others stay late."""
    problems: list[str]
    """Of the list, if it is not complete."""


class ClaimedForLate(Claimed):
    late: LateReplay


class PrunedGeneration(TypedDict):
    generation: str
    changelog: str | None
    checkpoint: str | None
    kept: str | None
    """Why it is kept; null if it is removed."""
    what: str


class Replica(TypedDict):
    origin: str
    token: str | None
    """The newest arrival; null if there is none. In the other fields null means unknown."""
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
    """A resync from the start of the origin's log, done."""

    topic: str
    snapshot: None


class ResyncWithdrawn(TypedDict):
    """With --withdraw."""

    topic: str
    withdrawn: Literal[True]


class ResyncPlan(TypedDict):
    """With --dry-run: a resync from the start of the origin's log."""

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
    """The reason by token of a snapshot that is not used."""


class LowerBoundOfLoss(TypedDict):
    milestones: int
    newest: str
    offsets: int
    as_of: str


class GoingOn(TypedDict):
    generation: str
    parent: str
    first: str | None
    """The newest milestone here after the promotion."""
    rewinds_to: int
    planned: bool
    closed_by: str | None
    """Windows that end by then are closed: later events of the other region for them are listed as late."""
    seed: Seed | None
    loss: LowerBoundOfLoss
    steps: dict[str, float]
    """Seconds by step."""


class Released(TypedDict):
    token: str
    to: str
    released: str | None
    gives_up: list[str]
    """Candidates that the release gives up."""


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
    """Missing events dated after the promotion; null while the generation is not promoted."""
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
    rewritten_from: int | None
    """The offset from which the origin has other events than those that were copied; null if it has none."""


class Loss(Fork):
    exact: bool
    problems: list[str]
    promoted_ms: int | None
    events: LostEvents
    partitions: list[MissedPartition]
