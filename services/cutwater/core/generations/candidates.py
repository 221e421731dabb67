"""Candidates, that is, generations claimed and not promoted yet, as a fold over the candidates topic.

A claim reserves a number, which a region never uses twice, and names the parent milestone. Later requests
(promote, abort) are on the same topic. Only the commit stream shows whether a candidate was promoted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import (
    AfterClaim,
    Canary,
    Candidacy,
    Claim,
    Comparison,
    Decision,
    Hold,
    Milestone,
    Promotion,
    Redefinition,
    Reopening,
    Schedule,
    Withdrawal,
)

PARENT_DIGITS = 8


@dataclass(frozen=True)
class Candidate:
    """One claim with its later records, except the promotion itself."""

    claim: Claim
    newest: Milestone | None = None
    """Its own newest milestone before promotion, numbered within the candidate."""
    before: Milestone | None = None
    """Its milestone before the newest."""
    promoting: bool = False
    """Whether its promotion was requested."""
    withdrawn: str | None = None
    """Why it was aborted."""
    withdrawn_ms: int = 0
    """The time when it was aborted."""
    decision: Decision | None = None
    """If it continues another region's milestone: the operator's last decision which line counts."""
    reopening: Reopening | None = None
    """Set if it counts events that its parent's generation has listed as late."""
    redefinition: Redefinition | None = None
    """Set if its job file differs from its parent's."""
    hold: Hold | None = None
    """The newest hold of its promotion, or the record that has ended it."""
    schedule: Schedule | None = None
    """When and how fast it may work; the last one counts."""
    canary: Canary | None = None
    """Set if it is compared with the promoted generation; the last one counts."""
    comparison: Comparison | None = None
    """How far it has been compared."""

    @property
    def open(self) -> bool:
        return self.withdrawn is None


_NEWEST_COUNTS = {
    Canary: "canary",
    Comparison: "comparison",
    Hold: "hold",
    Schedule: "schedule",
    Decision: "decision",
}
"""The field of a record of which the newest one counts."""


def _after(known: Candidate, record: AfterClaim) -> Candidate:
    if isinstance(record, Milestone):
        again = known.newest is not None and known.newest.epoch == record.epoch
        return replace(known, newest=record, before=known.before if again else known.newest)
    if isinstance(record, Withdrawal):
        return replace(known, withdrawn=record.reason, withdrawn_ms=record.at_ms)
    if isinstance(record, Promotion):
        return replace(known, promoting=True)
    if isinstance(record, Reopening):
        return replace(known, reopening=known.reopening or record)
    if isinstance(record, Redefinition):
        return replace(known, redefinition=known.redefinition or record)
    changed: dict[str, Any] = {_NEWEST_COUNTS[type(record)]: record}
    return replace(known, **changed)


@dataclass(frozen=True)
class Candidates:
    """All candidates of a job, in the order of their claims."""

    by_id: Mapping[Generation, Candidate] = field(default_factory=dict)
    job_files: Mapping[str, Redefinition] = field(default_factory=dict)
    """The job files by what their rows mean, `Job.fingerprint`; the first one of each."""

    def after(self, record: Candidacy) -> Candidates:
        """Return the fold with the topic's next record. One without a claim is ignored, but for a job file."""
        if isinstance(record, Redefinition) and record.definition not in self.job_files:
            return replace(self, job_files={**self.job_files, record.definition: record}).after(record)
        known = self.by_id.get(record.generation)
        if isinstance(record, Claim):
            # A second claim of the same id is a retry of a writer that missed the acknowledgement.
            return self if known else self._with(Candidate(record))
        return self if known is None else self._with(_after(known, record))

    def _with(self, candidate: Candidate) -> Candidates:
        return replace(self, by_id={**self.by_id, candidate.claim.generation: candidate})

    def job_file(self, generation: Generation, definition: str) -> Redefinition | None:
        """Return the job file of a generation's rows, whose meaning is `definition`; None if it is not known."""
        candidate = self.by_id.get(generation)
        own = candidate.redefinition if candidate else None
        return own if own and own.definition == definition else self.job_files.get(definition)

    @property
    def promoting(self) -> Candidate | None:
        """The newest open candidate whose promotion was requested."""
        asked = [one for one in self.by_id.values() if one.promoting and one.open]
        return asked[-1] if asked else None

    def promoting_behind(self, last: Milestone | None) -> Candidate | None:
        """Return the candidate to promote after `last`, the newest milestone of the commit stream."""
        asked = self.promoting
        if asked is None or last is None:
            return asked
        return asked if asked.claim.generation.number > last.generation.number else None

    def likely_next(
        self,
        last: Milestone,
        parent_of: Callable[[Claim], Milestone],
        kept: Generation | None = None,
        but: Collection[Generation] = (),
    ) -> Candidate | None:
        """Return the candidate that will probably follow `last`, among those with a milestone and not in `but`.
        The requested one first; then `kept`, if it may still follow; then the newest."""
        may = [
            one
            for generation, one in self.by_id.items()
            if one.newest and generation not in but and promotion_obstacle(one, parent_of(one.claim), last) is None
        ]
        asked = self.promoting
        return max(
            may,
            key=lambda one: (one is asked, one.claim.generation == kept, one.claim.generation.number),
            default=None,
        )

    def coming(self, last: Milestone | None) -> list[Claim]:
        """Return the claims that may still be promoted after `last`, the newest milestone."""
        behind = last.generation.number if last else 0
        return [one.claim for generation, one in self.by_id.items() if one.open and generation.number > behind]

    def contests(self, generation: Generation) -> bool:
        """Return whether another process may have taken over this generation's work for a moment.

        This is possible for a process that promotes or aborts a later generation, and, if this one was promoted,
        for commit-signal of the previous one, which started too early to know.
        """
        later = any(
            one.promoting and one.claim.generation.number > generation.number for one in self.by_id.values()
        )
        return later or generation in self.by_id

    def require(self, generation: Generation) -> Candidate:
        """Return the candidate. Raises UsageError if it was never claimed."""
        try:
            return self.by_id[generation]
        except KeyError:
            known = ", ".join(map(str, self.by_id)) or "none"
            raise UsageError(
                f"{generation} was never claimed; claimed are: {known}. "
                "'cutwater generation start --from TOKEN' claims one"
            ) from None

    def earlier_generations(self, generation: Generation, most: int) -> list[Generation]:
        """Return at most `most` of the newest generations with a lower number, promoted or not."""
        known = {one for one in self.by_id if one.number < generation.number}
        return sorted(known, key=lambda one: one.number)[-most:]

    def next_id(self, region: str, parent_hash: bytes, *before: Generation) -> Generation:
        """Return the id of a region's next claim: above every claimed number and those of `before`."""
        taken = [one.number for one in (*before, *self.by_id)]
        return Generation(max(taken) + 1, region, parent_hash.hex()[:PARENT_DIGITS])


def fold_candidates(records: Iterable[Candidacy]) -> Candidates:
    """Fold records in log order."""
    found = Candidates()
    for record in records:
        found = found.after(record)
    return found


def promotion_delay(candidate: Milestone | None, claim: Claim, last: Milestone | None) -> str | None:
    """Return why a candidate cannot be promoted yet after `last`, the newest milestone; None if it can. These
    reasons pass with time; those of `forbidden` do not."""
    if candidate is None:
        return "it has no milestone yet"
    if claim.rewinds_to or claim.origin or last is None:
        return None  # each of its milestones is past its parent: nothing to catch up with
    if not candidate.source_cut.covers(last.source_cut):
        return f"it is {events_behind(candidate, last):,} events behind milestone {last.token}"
    if candidate.watermark_ms < last.watermark_ms:
        return f"its watermark is {last.watermark_ms - candidate.watermark_ms} ms behind that of {last.token}"
    return None


def events_behind(candidate: Milestone, last: Milestone) -> int:
    """Return the number of events that a candidate must read to reach `last`."""
    return sum(max(0, offset - candidate.source_cut.offset(place)) for place, offset in last.source_cut)


def goes_back_to(claim: Claim, last: Milestone) -> int:
    """Return `rewinds_to` of the first milestone after `last`; 0 if the other region's line continues `last`."""
    return 0 if claim.origin and claim.rewinds_to >= last.sequence else claim.rewinds_to


def promotion_obstacle(candidate: Candidate, parent: Milestone, last: Milestone | None) -> str | None:
    """Return why a candidate must never be promoted after `last`; None if it may be."""
    claim = candidate.claim
    if candidate.withdrawn is not None:
        return f"{claim.generation} was given up: {candidate.withdrawn}"
    gone = _gone_from_stream(claim, parent, last)
    if gone or last is None:
        return gone
    if claim.generation.number <= last.generation.number:
        return f"{claim.generation} comes too late: {last.generation} was promoted meanwhile"
    if claim.origin and not claim.rewinds_to:
        return (
            f"{claim.generation} was claimed while this region had no milestone, but now it has {last.token}: "
            "give it up, and fail over again"
        )
    if not claim.rewinds_to and parent.generation != last.generation:
        return (
            f"{claim.generation} was started from {parent.token}, but {last.generation} was promoted meanwhile: "
            "give it up, and start one from a milestone of that"
        )
    return None


def _gone_from_stream(claim: Claim, parent: Milestone, last: Milestone | None) -> str | None:
    """Return that the stream has lost the milestone of this region that a claim continues; None if it has not."""
    if claim.origin or (last is not None and parent.sequence <= last.sequence):
        return None
    ends = f"ends with {last.token}" if last else "holds no milestone"
    return f"{parent.token} is gone from the commit stream, which {ends}"


class EarlierClaim(NamedTuple):
    """The claim of an earlier try."""

    claim: Claim
    done: bool
    """Whether it is promoted."""
