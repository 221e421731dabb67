"""Whether a generation may count events once more for its measures of `kept: state`.

Such measures are in no row of the parent. But the source may still hold the events of the rows that take more of
them. They are read up to the milestone's cut, without those that any generation has listed as late or rejected. So
what is counted is a part of what the parent has counted, and all of it if a row's number of events is the same.
That number is the proof, row by row: nothing depends on what the source has kept.
"""

from __future__ import annotations

from cutwater.core.job.job import Job
from cutwater.core.protocol.records import Milestone


def event_count(job: Job) -> str | None:
    """Return the column with the number of a row's events; None if the job does not keep one."""
    found = (one for one in job.measures if one.kind == "count" and one.field is None)
    return next((one.partials[0].column for one in found), None)


def recount_obstacle(job: Job, parent: Milestone, another_file: bool, reopened: bool) -> str:
    """Return why no row can be counted again; empty if nothing is in the way.

    `another_file`: whether the generation has a job file of its own. `reopened`: whether it counts late events.
    """
    if event_count(job) is None:
        return "the job has no {measure: count} in the changelog, which would prove that the events are the same"
    if another_file:
        return "the job file is another one, so the parent may have counted the events differently"
    if reopened:
        return "events that were late count now"
    if job.transform:
        return "a function of your own may have changed since the parent counted the events"
    if any(place.topic != job.topic for place, _ in parent.source_cut):
        return "the parent has read copies of another region's events, whose lists are there"
    return ""


def events_since_ms(job: Job, floor_ms: int) -> int:
    """Return the start of the oldest window that takes events, above a floor: older events are in no such row."""
    return max(0, floor_ms - job.row_windows.size_ms)
