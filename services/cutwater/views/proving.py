"""Is what was read for a milestone what the milestone proves, and can it be whole? For every reader of rows."""

from __future__ import annotations

from collections.abc import Mapping

from cutwater.core.digest import signed
from cutwater.core.errors import DivergenceError
from cutwater.core.proof import Writer
from cutwater.core.records import Milestone
from cutwater.core.restore import contained, fresh, mismatch
from cutwater.views.changelog import writer_headers


class Overtaken(Exception):
    """Compaction may have taken values below this milestone's cut; a later one must be read instead."""


def headers_of(milestone: Milestone) -> tuple[bytes, bytes, bytes]:
    """The headers that the rows of this milestone's own epoch and attempt carry."""
    return writer_headers(Writer(milestone.generation, milestone.attempt, milestone.epoch))


def require_whole(milestone: Milestone, first_above_ms: Mapping[int, int | None], now_ms: int) -> None:
    """Raises Overtaken. `first_above_ms` is empty where nobody looked above the cut."""
    looked = bool(first_above_ms) and contained(first_above_ms.values(), now_ms)
    if not (looked or fresh(milestone, now_ms)):
        raise Overtaken(str(milestone.token))


def require_schema(topic: str, milestone: Milestone, fingerprint: str) -> None:
    """Raises DivergenceError when the milestone's rows are of another schema than the job file's.

    A value that is framed with a registry's number is known by this alone: numbers differ from region to region,
    and a state that needs a registry to be read is lost with it.
    """
    if milestone.schema_fingerprint != fingerprint:
        raise DivergenceError(
            f"{topic}: the values of milestone {milestone.token} are of schema {milestone.schema_fingerprint}, "
            f"and the job file's measures say {fingerprint}; use the job file that the driver runs with"
        )


def prove(topic: str, milestone: Milestone, rows: int, digest: int) -> None:
    """Raises DivergenceError when count or digest (unsigned) are not those that the milestone says."""
    wrong = mismatch(milestone, rows, signed(digest))
    if wrong:
        raise DivergenceError(
            f"{topic}: {wrong}. Rows were lost, changed or added; what was shown before stays. Start a new "
            "generation from the last milestone that was shown."
        )
