"""The events between two cuts that the running job has read and left out: late ones, and those of a time jump.

Which events are late depends on when each was read, and so does a time jump. A replay reads all at once. So it
leaves out what the job has left out, by the job's own lists: then it counts the same events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.rejected_events import dead_letters, late_pairs
from cutwater.core.driver.rejected_events import EventPosition
from cutwater.core.events.rejection import JUMPS_AHEAD
from cutwater.core.job.job import Job
from cutwater.core.past.replay_range import SourceRange
from cutwater.core.protocol.generation import Generation


@dataclass
class ExcludedEvents:
    offsets: Mapping[int, Set[int]]
    """By partition: events that are not replayed."""
    late: int = 0
    """Late events that are not replayed."""
    late_counted: int = 0
    """Late events that are replayed nevertheless."""
    windows: Sequence[tuple[str, int, int]] = ()
    """Key, start and end of the rows that these belong to."""
    jumps: int = 0
    notes: list[str] = field(default_factory=list)
    """Why a list may not be complete."""


def exclude_events(
    cluster: Cluster, job: Job, generation: Generation, ranges: Sequence[SourceRange], count_late: bool
) -> ExcludedEvents:
    """Return what the job has left out, in the line of this generation. `count_late`: late events are replayed.

    Of a record with several events (source.explode) some may be late: such a record is replayed. Raises UsageError
    for lists that do not fit into memory, UnavailableError if brokers do not answer.
    """
    known = {one.partition: one for one in ranges if one.offsets}
    offsets: dict[int, set[int]] = defaultdict(set)

    def is_within(event: EventPosition) -> bool:
        own = known.get(event.partition)
        return event.topic == job.topic and own is not None and own.first <= event.offset < own.end

    listed = late_pairs(cluster, job.name, generation)
    late = [one for one in listed.entries if is_within(one.event)]
    counts = count_late or job.explode is not None
    if not counts:
        for one in late:
            offsets[one.event.partition].add(one.event.offset)
    found = ExcludedEvents(offsets, late=0 if counts else len(late), late_counted=len(late) if counts else 0)
    if counts:
        found.windows = [(one.key, one.window_start_ms, one.window_end_ms) for one in late]
    found.notes += [f"the list of late events: {one}" for one in (*listed.problems, *listed.elsewhere)]
    if job.max_jump_ms is not None:
        letters = dead_letters(cluster, job.name, generation)
        jumps = {one.event for one in letters.entries if one.reason == JUMPS_AHEAD and is_within(one.event)}
        for event in jumps:
            offsets[event.partition].add(event.offset)
        found.jumps = len(jumps)
        found.notes += [f"the list of dead letters: {one}" for one in (*letters.problems, *letters.elsewhere)]
    return found
