"""The claim of a generation, new or of an earlier try, for `generation start`, `rollback` and `late replay`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import parent_of, promoted
from cutwater.cli.generations.change import change_json, print_change
from cutwater.cli.options import JobContext
from cutwater.cli.report import iso, out, print_json
from cutwater.core.errors import UsageError
from cutwater.core.job.measures import Measure
from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.records import Claim
from cutwater.operations.generations.claim_check import require_works
from cutwater.operations.generations.claims import Claims, copies_of
from cutwater.operations.generations.redefinition import Change, state_change
from cutwater.operations.generations.requests import GenerationRequest, Planned
from cutwater.operations.generations.seed_source import SeedSource

if TYPE_CHECKING:
    from cutwater.core.skew.ownership import Moved


STAGES = (
    "all shards move at once, in three stages: the parent's rows are read, the events since are caught up, and "
    "one record promotes it; --window and --max-rate bound them. A range of shards at a time is not possible: a "
    "milestone is of one generation, with one cut through one changelog (decision 0130)"
)


def claims_of(place: JobContext) -> Claims:
    return Claims(place.cluster, place.job, place.settings.region, now_ms)


def claim(
    place: JobContext,
    words: GenerationRequest,
    dry_run: bool,
    as_json: bool,
    more: Mapping[str, Any] | None = None,
    advice: str = "",
    silent: bool = False,
) -> Claim:
    """Claim a generation or continue with an earlier claim, and report it. Raises as `Claims.ask`.

    `more`: further fields of the JSON. `advice`: what else to do if the parent's state is not available.
    `silent`: the caller reports a claim that is made.
    """
    settings, sources = place.settings, list[SeedSource]()

    redefined, changes, stored = words.redefined, list[Change](), place.job.stored_values

    def require(planned: Planned) -> None:
        if planned.begun or planned.done:
            return
        if redefined is not None and not changes:
            changes.append(redefined.change(place.cluster, planned.claim))
            if changes[0].found.obstacles:
                _print_claim(planned, None, None, True, as_json, more, changes[0], words, stored)
                changes[0].found.require_possible()
        store = place.stack.snapshots if place.stack else settings.snapshots
        try:
            wanted = redefined.of(planned.claim) if redefined else None
            sources.append(require_works(place.cluster, place.job, settings, planned.claim, store, wanted))
        except UsageError as error:
            found = f"{error}{_claimed_before(planned)}"
            raise UsageError(f"{found}. {advice}" if advice else found) from None

    claims = claims_of(place)
    if dry_run:
        planned = claims.planned(words)
        require(planned)
    else:
        # The embedded broker is a single one; the settings count only for a user's own brokers.
        copies = copies_of(place.cluster, settings.replication_factor, settings.min_insync_replicas)
        planned = claims.ask(words, copies, require)
    source, change = sources[-1] if sources else None, changes[0] if changes else None
    if dry_run and redefined is None and not planned.done:
        change = state_change(place.cluster, planned.claim, place.job)
    shift = _count_moved(place, planned.claim) if dry_run else None
    if not silent:
        _print_claim(
            planned, source, _undone(place, planned), dry_run, as_json, more, change, words, stored, shift
        )
    return planned.claim


def _claimed_before(planned: Planned) -> str:
    if not planned.again:
        return ""
    return (
        f". {planned.claim.generation} is claimed from this milestone: give it up with 'cutwater generation abort "
        f"{planned.claim.generation}', and start a new one from another milestone"
    )


class Undone(NamedTuple):
    milestones: int
    events: int
    newest: Token

    def __str__(self) -> str:
        return f"{self.milestones:,} milestones after it up to {self.newest}; the {self.events:,} events"


def _undone(place: JobContext, planned: Planned) -> Undone | None:
    """Return what the claim undoes; None if it is no rollback or is promoted."""
    last = promoted(place.cluster, place.job.name)
    if not planned.claim.rewinds_to or planned.done or last is None:
        return None
    parent = parent_of(planned.claim)
    events = sum(max(0, offset - parent.source_cut.offset(at)) for at, offset in last.source_cut)
    return Undone(last.sequence - parent.sequence, events, last.token)


def _count_moved(place: JobContext, planned: Claim) -> Moved | None:
    from cutwater.operations.skew.changelog_load import count_moved  # it reads rows, as few verbs do

    return count_moved(place.cluster, place.job, parent_of(planned), planned.partitions)


def _moved_text(one: Moved) -> str:
    share = one.shards_moved / one.shards
    text = (
        f"another partition for {one.shards_moved:,} of {one.shards:,} shards ({share:.0%}; at least "
        f"{one.shards_least:,} in any way); old partitions behind a new one: at most {one.parents_max}"
    )
    if not one.rows:
        return text
    of = "the state" if one.whole else "the newest rows"
    return (
        f"{text}; of {of} {one.keys_moved:,} of {one.keys:,} keys and {one.rows_moved:,} of {one.rows:,} rows move"
    )


def _print_claim(
    planned: Planned,
    source: SeedSource | None,
    undone: Undone | None,
    dry_run: bool,
    as_json: bool,
    more: Mapping[str, Any] | None,
    change: Change | None,
    words: GenerationRequest,
    stored: Sequence[Measure],
    shift: Moved | None = None,
) -> None:
    made = planned.claim
    parent = parent_of(made).token
    if as_json:
        told = {
            "generation": str(made.generation),
            "parent": str(parent),
            "partitions": made.partitions,
            "rewinds_to": made.rewinds_to,
            "claimed": planned.again or not dry_run,
            "again": planned.again,
            "promoted": planned.done,
            "seed": source.as_object() if source else None,
            "undone": {**undone._asdict(), "newest": str(undone.newest)} if undone else None,
            "change": change_json(change) if change else None,
            "moved": asdict(shift) if shift else None,
            **(more or {}),
        }
        print_json(told)
        return
    if change is not None:
        print_change(change, another=words.redefined is not None)
        if change.found.obstacles:
            return
    if planned.again:
        does = "would continue" if dry_run else "is continuing"
        done = ", which is promoted: nothing to do (--another claims one more)"
        line = f"{does} with the claim {made.generation} of {iso(made.at_ms)}{done if planned.done else ''}"
    else:
        line = f"{made.generation} {'would be claimed' if dry_run else 'is claimed'}"
    out.print(f"{line}: from {parent}, {made.partitions} partitions")
    out.print(str(source) if source else "its state has been read")
    if change is None and stored:
        names = ", ".join(one.name for one in stored)
        out.print(
            f"{names}: a measure is kept in state, so the driver counts the events of open windows again; where "
            "it cannot, a row has no value. --dry-run tells from which window on every row has one"
        )
    if shift is not None:
        out.print(_moved_text(shift))
        out.print(STAGES)
    if undone is not None:
        out.print(f"{'would be' if dry_run else 'is'} undone: {undone} in them are read again")
