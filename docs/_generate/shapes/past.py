"""The JSON of verbs about older milestones: differences, and the history of a row."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict

Values = dict[str, Any]
"""By measure, as docs/FORMAT.md writes it in JSON."""


class ComparedMilestone(TypedDict):
    token: str
    """Of a candidate: with a number of its own."""
    committed: str
    watermark: str
    rows: int
    """The windows that were compared."""


class SharedMeasures(TypedDict):
    shared: list[str]
    """The compared ones."""
    only_before: list[str]
    only_after: list[str]


class WindowChange(TypedDict):
    key: str
    window_start: str
    window_end: str
    kind: Literal["added", "removed", "changed"]
    before: Values | None
    """The measures with another value; null if the window is added."""
    after: Values | None
    hidden: list[str]
    """Measures with the same value, but of other partials: the next event makes another value of them."""


class MilestoneDifference(TypedDict):
    before: ComparedMilestone
    after: ComparedMilestone
    equal: bool
    compared_above: str
    """Windows that end at or below it are not compared, since not both milestones hold them."""
    events_only_before: int
    """Events that only this milestone has read, by the offsets of the source."""
    events_only_after: int
    measures: SharedMeasures
    differing_rows: int
    added: int
    removed: int
    changed: int
    differing_measures: dict[str, int]
    """By measure: the changed windows in which it has another value."""
    hidden_measures: dict[str, int]
    """By measure: the changed windows in which only its partials are others."""
    differences: list[WindowChange]
    """The first ones, in the order of time and key; --limit sets how many."""


class CanaryGate(TypedDict):
    milestones: int
    """So many compared milestones promote it; 0: the gate decides nothing."""
    differences: int
    """More differing rows at one milestone drop it."""
    tolerance: float


class DifferingRow(TypedDict):
    key: str
    window_start: str
    window_end: str
    text: str
    """How it differs, for people."""


class WayBack(TypedDict):
    to: str
    """The milestone for `cutwater rollback --to`."""
    generation: str
    ready: bool
    """Whether it has a milestone: then a rollback starts nothing."""


class Canary(TypedDict):
    generation: str
    state: Literal["starting", "comparing", "promoting", "promoted", "given up", "past"]
    parent: str
    gate: CanaryGate
    keep_ms: int
    """How long the old generation keeps counting after the promotion."""
    compared: int
    """Pairs of milestones."""
    rows: int
    """Changed rows that were compared; those of the first pair are all."""
    unpaired: int
    """Its milestones that were not compared: the promoted generation has none of the same events."""
    passed: int
    """Those of the promoted generation that were not compared."""
    differing: int
    """Rows that differ at the last pair."""
    late: int
    """Rows that differ there, of windows that end by `late_until`: they do not count."""
    late_until: str | None
    live: str | None
    """The last pair; null before the first one."""
    candidate: str | None
    """With a number of its own."""
    at: str | None
    way_back: WayBack | None
    """Set while the old generation keeps counting."""
    verdict: Literal["promote", "drop"] | None
    reason: str | None
    differences: list[DifferingRow]
    """Some of the differing rows."""
    diff: MilestoneDifference | None
    """With --diff."""


class RowWriter(TypedDict):
    generation: str
    attempt: int
    epoch: int


# `from` is a keyword, so it cannot be a field of a class body.
RowEvent = TypedDict(
    "RowEvent",
    {
        "token": str,
        "first_sequence": int,
        "committed": str,
        "kind": Literal["added", "changed", "rewritten", "removed", "expired", "seen"],
        "before_known": bool,
        "before": Values | None,
        "after": Values | None,
        "undone": bool,
        "from": Literal["changelog", "output", "snapshot", "horizon"],
        "record": str | None,
        "writer": RowWriter | None,
        "source": dict[str, list[int]],
    },
)
RowGap = TypedDict(
    "RowGap",
    {
        "first_sequence": int,
        "last_sequence": int,
        "from": str | None,
        "to": str | None,
        "reasons": list[str],
    },
)


class WrongSince(TypedDict):
    newest_known: bool
    """Whether the row at the newest milestone is known."""
    first_wrong: str | None
    """The first milestone that is known to be wrong, of those that lead to the newest one; null: it is right."""
    last_right: str | None
    exact: bool
    """Whether no other milestone can be the first wrong one."""
    assumed: list[list[int]]
    """First and last sequence of milestones between wrong ones of which nothing is known."""


class Blame(TypedDict):
    key: str
    window_start: str
    window_end: str
    newest: str
    """The newest milestone that was read."""
    events: list[RowEvent]
    gaps: list[RowGap]
    """Milestones whose changes of the row nothing tells any more."""
    wrong_since: WrongSince | None
    """With --wrong-since."""
    snapshots_read: int


class ReplayedMilestone(TypedDict):
    token: str
    committed: str
    watermark: str


class ReplayedMeasures(TypedDict):
    shared: list[str]
    """The compared ones."""
    only_live: list[str]
    only_replayed: list[str]
    """Those that only the job file of the replay has."""
    not_merged: list[str]
    """Those whose rows at the first milestone do not merge with replayed ones: not compared."""


class ReplayReasons(TypedDict):
    """How many differing windows have each reason."""

    late: int
    """Events that the job has listed as late were counted (--count-late, or source.explode)."""
    job_file: int
    """Another job file has counted."""
    unknown: int
    """The same events and the same job file made another row."""


class ReplayedWindow(TypedDict):
    key: str
    window_start: str
    window_end: str
    kind: Literal["added", "removed", "changed"]
    """added: only the replay has the window; removed: only the job."""
    live: Values | None
    """The measures with another value; null if the job has no such window."""
    replayed: Values | None
    hidden: list[str]
    """Measures with the same value, but of other partials."""
    reason: Literal["late", "job_file", "unknown"]


class ReplayFile(TypedDict):
    path: str
    rows: int


# `from` is a keyword, so it cannot be a field of a class body.
Replay = TypedDict(
    "Replay",
    {
        "from": ReplayedMilestone | None,
        "to": ReplayedMilestone,
        "equal": bool,
        "offsets": dict[str, list[int]],
        "events": int,
        "bytes": int,
        "left_out_late": int,
        "left_out_jumps": int,
        "counted_late": int,
        "rejected": int,
        "compared_above": str,
        "live_rows": int,
        "replayed_rows": int,
        "measures": ReplayedMeasures,
        "differing_rows": int,
        "added": int,
        "removed": int,
        "changed": int,
        "reasons": ReplayReasons,
        "differing_measures": dict[str, int],
        "within_error": dict[str, int],
        "differences": list[ReplayedWindow],
        "files": list[ReplayFile],
        "notes": list[str],
    },
)
