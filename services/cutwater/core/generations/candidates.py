"""Candidates: generations that were claimed and are not promoted yet, as a fold over the candidates topic.

A claim reserves a number, which is never used twice in a region, and names the parent milestone. What is asked
afterwards (promote, give up) stands on the same topic; whether a candidate was promoted does not: the commit
stream alone says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Candidacy, Claim, Decision, Milestone, Promotion

PARENT_DIGITS = 8


@dataclass(frozen=True)
class Candidate:
    """One claim, and what has become of it but for the promotion itself."""

    claim: Claim
    newest: Milestone | None = None
    """The newest milestone of its own, before it is promoted: numbered within the candidate."""
    before: Milestone | None = None
    """Its milestone before the newest."""
    promoting: bool = False
    """Somebody asked for its promotion."""
    withdrawn: str | None = None
    """Why it was given up."""
    withdrawn_ms: int = 0
    """When that was."""
    decision: Decision | None = None
    """Of one that went on from another region's milestone: which line counts, as an operator said last."""

    @property
    def open(self) -> bool:
        return self.withdrawn is None


@dataclass(frozen=True)
class Candidates:
    """All that the topic says of a job, in the order of the claims."""

    by_id: Mapping[Generation, Candidate] = field(default_factory=dict)

    def after(self, record: Candidacy) -> Candidates:
        """With the next record of the topic. What names no claim is passed over: nobody can have meant it."""
        known = self.by_id.get(record.generation)
        if isinstance(record, Claim):
            # A second claim of the same id repeats the first: a writer that did not hear that it was heard.
            return self if known else self._with(Candidate(record))
        if known is None:
            return self
        if isinstance(record, Milestone):
            again = known.newest is not None and known.newest.epoch == record.epoch
            return self._with(replace(known, newest=record, before=known.before if again else known.newest))
        if isinstance(record, Promotion):
            return self._with(replace(known, promoting=True))
        if isinstance(record, Decision):
            return self._with(replace(known, decision=record))
        return self._with(replace(known, withdrawn=record.reason, withdrawn_ms=record.at_ms))

    def _with(self, candidate: Candidate) -> Candidates:
        return Candidates({**self.by_id, candidate.claim.generation: candidate})

    @property
    def promoting(self) -> Candidate | None:
        """The newest one whose promotion was asked for and not taken back."""
        asked = [one for one in self.by_id.values() if one.promoting and one.open]
        return asked[-1] if asked else None

    def promoting_behind(self, last: Milestone | None) -> Candidate | None:
        """The one that is to follow `last`, the newest milestone of the commit stream."""
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
        """Which one will follow `last`, of those that may and have come to a milestone; none of `but`.

        That which was asked for; else the one that is `kept`, while it may still follow; else the newest.
        """
        may = [
            one
            for generation, one in self.by_id.items()
            if one.newest and generation not in but and forbidden(one, parent_of(one.claim), last) is None
        ]
        asked = self.promoting
        return max(
            may,
            key=lambda one: (one is asked, one.claim.generation == kept, one.claim.generation.number),
            default=None,
        )

    def coming(self, last: Milestone | None) -> list[Claim]:
        """The claims of those that may still be promoted behind `last`, the newest milestone."""
        behind = last.generation.number if last else 0
        return [one.claim for generation, one in self.by_id.items() if one.open and generation.number > behind]

    def contests(self, generation: Generation) -> bool:
        """May somebody have taken its place for a moment who leaves it again?

        Whoever promotes a later one, or gives one up; and of one that was promoted itself, the signaller of that
        before, which had begun a moment too early to know.
        """
        later = any(
            one.promoting and one.claim.generation.number > generation.number for one in self.by_id.values()
        )
        return later or generation in self.by_id

    def require(self, generation: Generation) -> Candidate:
        """Raises UsageError for one that was never claimed."""
        try:
            return self.by_id[generation]
        except KeyError:
            known = ", ".join(map(str, self.by_id)) or "none"
            raise UsageError(
                f"{generation} was never claimed; claimed are: {known}. "
                "'cutwater generation start --from TOKEN' claims one"
            ) from None

    def before(self, generation: Generation, most: int) -> list[Generation]:
        """The newest generations of a lower number, promoted once or not."""
        known = {one for one in self.by_id if one.number < generation.number}
        return sorted(known, key=lambda one: one.number)[-most:]

    def next_id(self, region: str, parent_hash: bytes, *before: Generation) -> Generation:
        """The id of the next claim in a region: above every number that was claimed, promoted or its parent's."""
        taken = [one.number for one in (*before, *self.by_id)]
        return Generation(max(taken) + 1, region, parent_hash.hex()[:PARENT_DIGITS])


def folded(records: Iterable[Candidacy]) -> Candidates:
    """From records in log order."""
    found = Candidates()
    for record in records:
        found = found.after(record)
    return found


def delayed(candidate: Milestone | None, claim: Claim, last: Milestone | None) -> str | None:
    """Why a candidate cannot be promoted behind `last`, the newest milestone of the commit stream; None: it can.

    Time mends what is named here. `forbidden` says what time does not mend.
    """
    if candidate is None:
        return "it has no milestone yet"
    if claim.rewinds_to or claim.origin or last is None:
        return None  # each of its milestones is past its parent, and no other is to be reached
    if not candidate.source_cut.covers(last.source_cut):
        return f"it is {events_behind(candidate, last):,} events behind milestone {last.token}"
    if candidate.watermark_ms < last.watermark_ms:
        return f"its watermark is {last.watermark_ms - candidate.watermark_ms} ms behind that of {last.token}"
    return None


def events_behind(candidate: Milestone, last: Milestone) -> int:
    """How many events a candidate has to read up to what `last` has read."""
    return sum(max(0, offset - candidate.source_cut.offset(place)) for place, offset in last.source_cut)


def goes_back_to(claim: Claim, last: Milestone) -> int:
    """What the first milestone behind `last` says in `rewinds_to`.

    Where another region went on from the newest one here, nothing was gone back behind.
    """
    return 0 if claim.origin and claim.rewinds_to >= last.sequence else claim.rewinds_to


def forbidden(candidate: Candidate, parent: Milestone, last: Milestone | None) -> str | None:
    """Why a candidate must never be promoted behind `last`; None where it may be."""
    claim = candidate.claim
    if candidate.withdrawn is not None:
        return f"{claim.generation} was given up: {candidate.withdrawn}"
    if last is None:
        return None if claim.origin else f"{parent.token} is gone from the commit stream, which holds no milestone"
    if claim.generation.number <= last.generation.number:
        return f"{claim.generation} comes too late: {last.generation} was promoted meanwhile"
    if claim.origin and not claim.rewinds_to:
        return (
            f"{claim.generation} was claimed while this region had no milestone, and {last.token} stands here "
            "now: give it up, and fail over again"
        )
    if not claim.rewinds_to and parent.generation != last.generation:
        return (
            f"{claim.generation} was started from {parent.token}, and {last.generation} was promoted meanwhile: "
            "give it up, and start one from a milestone of that"
        )
    return None
