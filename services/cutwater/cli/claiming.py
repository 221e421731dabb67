"""A generation is claimed by a verb, or an earlier claim gone on with: `generation start` and `rollback`."""

from __future__ import annotations

from cutwater.adapters.claiming import Claims, Planned, Words, copies_of
from cutwater.adapters.generations import parent_of
from cutwater.adapters.process import now_ms
from cutwater.cli.options import Place
from cutwater.cli.output import iso, out, print_json
from cutwater.cli.seeds import SeedSource, seed_source
from cutwater.core.errors import UsageError
from cutwater.core.records import Claim


def claims_of(place: Place) -> Claims:
    return Claims(place.cluster, place.job, place.settings.region, now_ms)


def claim(place: Place, words: Words, dry_run: bool, as_json: bool) -> Claim:
    """Claim one, or go on with an earlier claim, and say so. Raises as `Claims.ask`."""
    settings, sources = place.settings, list[SeedSource]()

    def require(planned: Planned) -> None:
        if planned.begun or planned.done:
            return
        store = place.stack.snapshots if place.stack else settings.snapshots
        try:
            sources.append(seed_source(place.cluster, place.job, settings, planned.claim, store))
        except UsageError as error:
            raise UsageError(f"{error}{_claimed_before(planned)}") from None

    claims = claims_of(place)
    if dry_run:
        planned = claims.planned(words)
        require(planned)
    else:
        # The embedded broker is alone; settings say otherwise only for a user's own.
        copies = copies_of(place.cluster, settings.replication_factor, settings.min_insync_replicas)
        planned = claims.ask(words, copies, require)
    _say_claim(planned, sources[-1] if sources else None, dry_run, as_json)
    return planned.claim


def _claimed_before(planned: Planned) -> str:
    if not planned.again:
        return ""
    return (
        f". {planned.claim.generation} was claimed from it before: 'cutwater generation abort "
        f"{planned.claim.generation}' gives that up, and a new one is started from another milestone"
    )


def _say_claim(planned: Planned, source: SeedSource | None, dry_run: bool, as_json: bool) -> None:
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
        }
        print_json(told)
        return
    if planned.again:
        does = "would go on" if dry_run else "goes on"
        done = ", which is promoted: nothing is to be done, and --another goes back once more"
        line = f"{does} with the claim {made.generation} of {iso(made.at_ms)}{done if planned.done else ''}"
    else:
        line = f"{made.generation} {'would be claimed' if dry_run else 'is claimed'}"
    out.print(f"{line}: from {parent}, {made.partitions} partitions")
    out.print(str(source) if source else "its state is read")
