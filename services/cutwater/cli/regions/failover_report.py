"""The report of `failover` and `switchover`: the parent milestone, the loss, the duration of each step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cutwater.adapters.runtime.terminal import WaitStatus
from cutwater.adapters.topics.candidates import origin_parent
from cutwater.cli.report import err, iso, out, print_json
from cutwater.core.failover.failover import Loss, copied_up_to, known_loss
from cutwater.core.job.job import Job
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.records import Claim, Milestone
from cutwater.operations.generations.seed_source import SeedSource
from cutwater.operations.regions.failover import OriginCopies


class Steps:
    """The steps done, including a failed one, with their durations in seconds."""

    def __init__(self) -> None:
        self.took: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[WaitStatus]:
        began = time.monotonic()
        try:
            with err.status(name) as status:
                yield status
        finally:
            self.took[name] = round(time.monotonic() - began, 3)


@dataclass(frozen=True)
class TakeoverReport:
    job: Job
    found: OriginCopies
    claim: Claim
    source: SeedSource | None = None
    """Where its state will be read."""
    awaits_release: bool = False
    """Whether the live region must first release the job, and its last milestone arrive."""

    @property
    def parent(self) -> Milestone:
        """Return the milestone that the claim continues from, even if others have arrived since."""
        return origin_parent(self.claim)

    @property
    def loss(self) -> Loss:
        """Return the known loss; none while `to_come`. Events copied since the claim are read here, not lost."""
        parent, found = self.parent, self.found
        newest = parent if self.awaits_release else max(parent, found.newest, key=lambda one: one.sequence)
        since = copied_up_to(found.copied, self.job.source, self.claim.origin)
        copied = {
            TopicPartition(self.job.source, place.partition): max(at, since.offset(place))
            for place, at in self.claim.origin_cut
        }
        return known_loss(parent, newest, copied, found.heard_ms)

    @property
    def closed_by(self) -> str | None:
        """Return the end up to which windows take no event here; None for none, and while `to_come`.

        That is the parent's floor: behind it, up to the watermark, events amend their windows (late.amend_for).
        """
        floor_ms = 0 if self.awaits_release else self.parent.floor_ms
        return iso(floor_ms) if floor_ms > 0 else None

    @property
    def planned(self) -> bool:
        return self.awaits_release or self.found.released_behind(self.parent.token)

    def print_parent(self) -> None:
        """Print the parent and the loss before the later steps, which may take long or fail."""
        if self.source is not None:
            out.print(str(self.source))
        if self.awaits_release:
            out.print(
                f"{self.claim.origin} releases the job first, and it continues here from the last milestone "
                f"there: nothing is lost. The newest arrival is {self.parent.token} now, the newest known "
                f"milestone is {self.found.newest.token}",
            )
            return
        out.print(f"{self.claim.generation} continues from {self.parent.token}")
        if self.planned:
            out.print("nothing is lost: the job was released after that milestone")
            return
        loss = self.loss
        out.print(
            f"lost at least, as of {iso(loss.as_of_ms)}: {loss.milestones} milestones after it (up to "
            f"{loss.newest}), and {loss.offsets} offsets of events that they had read",
        )
        if self.closed_by is not None:
            out.print(
                f"windows that end by {self.closed_by} are closed, and later ones close as events are read here. "
                f"Events that are copied from {self.claim.origin} later for a closed window are listed as late"
            )

    def print_result(self, first: Milestone | None, steps: Steps, as_json: bool) -> None:
        """Print the result and the steps. `first`: the newest milestone here, or None if not promoted."""
        if as_json:
            print_json(self._as_object(first, steps))
            return
        if first is not None:
            out.print(f"promoted: the newest milestone here is {first.token}")
        for name, took in steps.took.items():
            out.print(f"  {name}: {took:.1f} s")

    def print_report(self, first: Milestone | None, steps: Steps, as_json: bool) -> None:
        if not as_json:
            self.print_parent()
        self.print_result(first, steps, as_json)

    def _as_object(self, first: Milestone | None, steps: Steps) -> dict[str, Any]:
        loss = self.loss
        return {
            "generation": str(self.claim.generation),
            "parent": str(self.parent.token),
            "first": str(first.token) if first else None,
            "rewinds_to": self.claim.rewinds_to,
            "planned": self.planned,
            "closed_by": self.closed_by,
            "seed": self.source.as_object() if self.source else None,
            "loss": {
                "milestones": loss.milestones,
                "newest": str(loss.newest),
                "offsets": loss.offsets,
                "as_of": iso(loss.as_of_ms),
            },
            "steps": steps.took,
        }
