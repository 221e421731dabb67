"""A generation with a job file of its own: what differs from its parent's, and the records that carry both."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from cutwater.adapters.kafka.admin import descriptions
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import parent_of, with_partitions
from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.core.generations.job_change import JobChange, compare_jobs, complete_from_ms
from cutwater.core.generations.start_state import require_parent_definition
from cutwater.core.job.job import Job
from cutwater.core.protocol.records import Claim, FileText, Redefinition
from cutwater.operations.generations.parent_changelog import changelog_problem
from cutwater.views.changelog.record_reader import KeyReader


@dataclass(frozen=True)
class Redefined:
    """The job file of a generation that is asked for."""

    files: tuple[FileText, ...]
    job: Job
    own_files: tuple[FileText, ...]
    """The job file of the process that asks: mostly the parent's."""
    own: Job

    @staticmethod
    def read(wanted: Path, own: Path, own_job: Job) -> Redefined:
        """Read both. Raises UsageError for files that cannot travel with a claim."""
        # It reads job files, which most verbs do not.
        from cutwater.adapters.job_files.carried_files import carried_files, load_carried

        files, own_files = carried_files(wanted), carried_files(own)
        return Redefined(files, load_carried(files), own_files, own_job)

    def of(self, claim: Claim) -> Job:
        """Return the generation's job, with its partitions."""
        return with_partitions(self.job, claim.partitions)

    def change(self, cluster: Cluster, claim: Claim) -> Change:
        """Return what differs from the parent's job, and from when on the windows are complete."""
        parent, after = parent_of(claim), self.of(claim)
        before = GenerationJobs.on(cluster, self.own).at(parent)
        require_parent_definition(before, parent)
        found = compare_jobs(before, after)
        newest = newest_row_end_ms(cluster, claim, before) if found.has_new and not found.obstacles else 0
        return Change(found, complete_from_ms(found, before, after, parent, newest))

    def records(self, cluster: Cluster, claim: Claim, at_ms: int) -> list[Redefinition]:
        """Return the records that go with the claim: the parent's job file, if it is this process's, and its own.
        Raises UsageError if the generation cannot differ so."""
        parent, change = parent_of(claim), self.change(cluster, claim)
        change.found.require_possible()
        made = [(claim.generation, self.job.fingerprint, self.files, change.complete_from_ms)]
        if parent.definition == self.own.fingerprint:
            made.insert(0, (parent.generation, parent.definition, self.own_files, 0))
        return [
            Redefinition(claim.job, generation, definition, files, complete, at_ms)
            for generation, definition, files, complete in made
        ]


@dataclass(frozen=True)
class Change:
    found: JobChange
    complete_from_ms: int
    """The start of the first window that is complete in everything new; 0 if nothing is."""


def state_change(cluster: Cluster, claim: Claim, own: Job) -> Change | None:
    """Return what a generation with its parent's job file leaves behind, and from when on it is complete; None if
    nothing. `own`: the job of this process. Raises UsageError if the parent's job file is not known."""
    parent = parent_of(claim)
    job = GenerationJobs.on(cluster, own).at(parent)
    found = compare_jobs(job, job)
    if not found.has_new:
        return None
    return Change(found, complete_from_ms(found, job, job, parent, newest_row_end_ms(cluster, claim, job)))


def newest_row_end_ms(cluster: Cluster, claim: Claim, before: Job) -> int:
    """Return the end of the newest row of the parent's state, or a later time; 0 without rows.

    Every key is read. If compaction may have removed a row below the cut for a newer one, the keys above the cut
    count, too; if the changelog is gone, the bound of every event's time.
    """
    parent = parent_of(claim)
    if not descriptions(cluster, [place.topic for place, _ in parent.changelog_cut][:1]):
        return parent.written_ms + before.max_ahead_ms + before.row_windows.size_ms
    whole = not changelog_problem(cluster, claim.job, parent, claim.generation.region, now_ms)
    keys, newest = KeyReader(), 0
    with closing(make_consumer(cluster)) as consumer:
        for place, cut in parent.changelog_cut:
            low, high = bounds(consumer, place.topic, place.partition)
            end = min(cut, high) if whole else high
            for message in read_range(consumer, place.topic, place.partition, low, end) if low < end else ():
                newest = max(newest, keys.window(message.key()).end_ms)
    return newest
