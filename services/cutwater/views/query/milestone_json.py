"""JSON values that describe a milestone, for answers and for the metadata of files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from cutwater.core.protocol.records import Milestone
from cutwater.core.state.selection import Selection
from cutwater.core.util.timestamps import iso

_OF_THE_MOMENT = ("age_ms", "standby", "origin")


def milestone_fields(milestone: Milestone, horizon_ms: int, lower_ms: int | None) -> dict[str, Any]:
    """Return the token and the main fields of a milestone; times as ISO 8601. `horizon_ms`: of windows,
    which may be above that of the stored rows. `lower_ms`: windows that end at or below it were evicted from the
    view; None if none were."""
    return {
        "token": str(milestone.token),
        "sequence": milestone.sequence,
        "generation": str(milestone.generation),
        "epoch": milestone.epoch,
        "watermark": iso(milestone.watermark_ms),
        "horizon": iso(horizon_ms),
        "lower_bound": None if lower_ms is None else iso(lower_ms),
        "committed": iso(milestone.committed_ms),
    }


def row_metadata(
    job: str, milestone: Mapping[str, Any], partitions: Iterable[int] | None, selection: Selection | None
) -> dict[str, str]:
    """Return the metadata of stored rows as text: job, milestone, partitions and selection. Leaves out fields
    that hold only at the time of the answer, such as its age."""
    held = "all" if partitions is None else ",".join(map(str, sorted(partitions)))
    named = {
        name: str(value) for name, value in milestone.items() if name not in _OF_THE_MOMENT and value is not None
    }
    kept = {} if selection is None else {"selection": json.dumps(selection.as_object())}
    return {"job": job, **named, "partitions": held, **kept}
