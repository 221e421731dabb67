"""What it costs where a measure is kept: bytes of each row, and what a generation takes over of it."""

from __future__ import annotations

from typing import NamedTuple

from cutwater.core.checks.capacity import partial_bytes, row_bytes_of, shown_bytes
from cutwater.core.checks.event_sample import RowSizes
from cutwater.core.checks.findings import Finding, ok
from cutwater.core.job.job import Job
from cutwater.core.job.measures import STORED, VALUE, Measure

CHANGELOG, STATE, DERIVED = "changelog", "state", "derived"
_LARGE_BYTES = 100
"""A measure of at least so many bytes is named by `doctor`."""
_TAKEN = "takes over every value"
_UNMERGED = "cannot start: attached.merges does not say how its values merge"
_STATE_LEFT = "takes over nothing; counts the events of open windows again, as far as the source has them"
_STORED_LEFT = "takes over the values of rows that take no more events; others need the events, or have none"
_COMPUTED = "needs nothing: readers compute it"


class MeasureCost(NamedTuple):
    """One measure or derived value. Bytes are of one row, at most if no sample tells."""

    name: str
    kept: str
    """`changelog`, `state`, `stored` (a derived value that rows have) or `derived`."""
    row_bytes: float
    """In changelog, views, snapshots and seeds."""
    output_bytes: float
    state_bytes: float
    """In Spark's state and its checkpoint."""
    restore: str
    """What a generation from a milestone has of it."""

    @property
    def bytes(self) -> tuple[float, float, float]:
        """In changelog and view, in the output, in Spark's state."""
        return self.row_bytes, self.output_bytes, self.state_bytes


def costs_of(job: Job, known: RowSizes | None = None) -> list[MeasureCost]:
    """Return the costs of each measure. `known`: sampled sizes of texts and sketches."""
    sizes = known or RowSizes()
    return [_cost(one, job, sizes) for one in job.measures] + [
        MeasureCost(one.name, STATE, 0.0, 0.0, partial_bytes(one, sizes), _STATE_LEFT)
        for one in job.state_measures
    ]


def _cost(one: Measure, job: Job, sizes: RowSizes) -> MeasureCost:
    in_row = partial_bytes(one, sizes)
    shown = 0.0 if job.output.mode == "none" else shown_bytes(one, sizes)
    if one.kind == STORED:
        return MeasureCost(one.name, STORED, in_row, shown, 0.0, _STORED_LEFT)
    if not one.partials:
        return MeasureCost(one.name, DERIVED, 0.0, shown, 0.0, _COMPUTED)
    lost = one.kind == VALUE and not one.merges_by
    return MeasureCost(one.name, CHANGELOG, in_row, shown, in_row, _UNMERGED if lost else _TAKEN)


def check_measures(job: Job) -> Finding:
    """Return what a row has, what is kept in state instead, and what that would cost the other way."""
    costs = costs_of(job)
    large = [one for one in costs if one.kept == CHANGELOG and one.row_bytes >= _LARGE_BYTES]
    named = f", of which {_listed(large)}" if large else ""
    found = f"a row of the changelog has up to {row_bytes_of(job):,.0f} bytes{named}"
    if not job.state_measures:
        return ok("measures", found)
    in_state = [one for one in costs if one.kept == STATE]
    stored = " or ".join(one.name for one in costs if one.kept == STORED)
    return ok(
        "measures",
        f"{found}. In Spark's state alone: {_listed(in_state)}; in the changelog they would add that to each "
        f"row. A generation counts the events of open windows again; where it cannot, {stored} has no value",
    )


def _listed(costs: list[MeasureCost]) -> str:
    return ", ".join(f"{one.name} {_bytes(one)}" for one in costs)


def _bytes(one: MeasureCost) -> str:
    return f"{one.row_bytes or one.state_bytes:,.0f} B"
