"""Milestones that can still be proved: nothing below their cuts is lost."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from cutwater.adapters.kafka.admin import descriptions
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.commit_stream import milestones
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.core.errors import CutwaterError, LostRecordsError
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone


class Provable(NamedTuple):
    lost: list[str]
    """Descriptions of what is lost below the cuts of the newest one; empty if nothing is."""
    newest: Milestone | None
    """The newest milestone below whose cuts nothing is lost; None if there is none."""

    def advise(self, attached: bool = False) -> str:
        """Return what an operator can do. `attached`: the job is attached to a query of the user's own."""
        if self.newest is None:
            return "No milestone is complete any more: restore the topics, or start the job under another name"
        token = self.newest.token
        found = f"The newest milestone below whose cuts nothing is lost is {token}: 'cutwater "
        if attached:
            return (
                f"{found}restore JOBFILE --to {token}' builds its view. A job that is attached to a query cannot "
                "continue from a milestone unless its job file has 'merges' (docs/ATTACH.md): start it under "
                "another name"
            )
        return f"{found}rollback --to {token}' starts a generation from it"


def provable(cluster: Cluster, found: Sequence[Milestone]) -> Provable:
    """Query the brokers for the provable milestones. `found`: milestones in the order of the stream.

    A milestone without evidence, of an earlier version, counts as complete. Raises as `LogCheck`.
    """
    witness = LogCheck(cluster)
    cuts_of_all = (cut for one in found for cut in (one.source_cut, one.changelog_cut))
    there = descriptions(cluster, sorted({place.topic for cut in cuts_of_all for place, _ in cut}))

    def lost(one: Milestone) -> list[str]:
        gone = sorted({place.topic for place, _ in one.changelog_cut} - there.keys())
        cuts = one.source_cut.and_(one.changelog_cut)
        cuts = Cut(tuple(entry for entry in cuts if entry[0].topic in there))
        return [f"{topic} is not there any more" for topic in gone] or witness.find_losses(one.evidence, cuts)

    if not found or not (newest := lost(found[-1])):
        return Provable([], found[-1] if found else None)
    # What is lost below a cut is lost below each later one, too. Retired generations have no topics left.
    kept = [one for one in found if {place.topic for place, _ in one.changelog_cut} <= there.keys()]
    first = bisect_left(kept, True, key=lambda one: bool(lost(one)))
    return Provable(newest, kept[first - 1] if first else None)


def newest_provable(cluster: Cluster, job: str) -> Provable:
    return provable(cluster, [one for one, _ in milestones(cluster, job)])


def with_advice(error: LostRecordsError, cluster: Cluster, job: str, attached: bool = False) -> LostRecordsError:
    """Return the error with the newest provable milestone, if the brokers answer."""
    try:
        return LostRecordsError(f"{error}. {newest_provable(cluster, job).advise(attached)}")
    except CutwaterError:
        return error


@contextmanager
def advise_on_loss(cluster: Cluster, job: str, attached: bool = False) -> Iterator[None]:
    """Add the advice to a LostRecordsError that leaves the block."""
    try:
        yield
    except LostRecordsError as error:
        raise with_advice(error, cluster, job, attached) from None
