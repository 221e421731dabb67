"""The job of a generation: that of this process's job file, or one that travelled with a claim.

A job file is one of the generation's if its rows mean the same. A process may have another one that the job's
candidates topic knows: that of the generation before, or of a candidate. Then it works with the right one. So a
running process follows a promotion, and a new job file may be deployed before or after it.
"""

from __future__ import annotations

from collections.abc import Callable

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import candidates, parent_of, promoted, with_partitions
from cutwater.core.errors import UsageError
from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.job.job import Job, differences
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone


class GenerationJobs:
    """The jobs of a job's generations, by the meaning of their rows."""

    def __init__(self, job: Job, known: Callable[[], Candidates]) -> None:
        """`job`: of the process's own job file. `known`: reads the candidates topic."""
        self._own, self._known = job, known

    @staticmethod
    def on(cluster: Cluster, job: Job) -> GenerationJobs:
        return GenerationJobs(job, lambda: candidates(cluster, job.name))

    def at(self, milestone: Milestone) -> Job:
        """Return the job of a milestone's rows. Raises UsageError if it is not known."""
        found = self.of(milestone.generation, milestone.definition)
        return with_partitions(found, len(milestone.changelog_cut))

    def of_candidate(self, candidate: Candidate) -> Job:
        """Return the job of a candidate. Raises UsageError if it is not known."""
        claim = candidate.claim
        return with_partitions(self.of(claim.generation, definition_of(candidate)), claim.partitions)

    def by_id(self, generation: Generation) -> Job:
        """Return the job of a generation, with the job file's partitions. Raises UsageError as `of`."""
        try:
            known = self._known()
        except UsageError:
            return self._own  # no topic yet, or no permission
        if (candidate := known.by_id.get(generation)) is not None:
            return self.of(generation, definition_of(candidate))
        files = [one.definition for one in known.job_files.values() if one.generation == generation]
        return self.of(generation, files[0]) if files else self._own

    def of(self, generation: Generation, definition: str) -> Job:
        """Return the job of a generation whose rows mean `definition`, with the job file's partitions. If no claim
        carries that job file, it is the process's own: its users find what differs."""
        from cutwater.adapters.job_files.carried_files import load_carried  # reads job files: most verbs do not

        if definition == self._own.fingerprint:
            return self._own
        try:
            known = self._known()
        except UsageError:
            return self._own  # no topic yet, or no permission
        found = known.job_file(generation, definition)
        if found is None:
            return self._own
        job = load_carried(found.files)
        if self._own.fingerprint not in known.job_files:
            raise UsageError(
                f"the job file is of none of the generations of {job.name}; beside that of {generation} "
                f"{differences(job.meaning, self._own.meaning)}. 'cutwater generation job-file {generation}' "
                "prints that one; 'cutwater generation start --job-file FILE' starts a generation with another one"
            )
        return job


def carried_jobs(cluster: Cluster, job: str) -> list[Job]:
    """Return the jobs that claims carry, the newest first. Raises UsageError without the topic or the right."""
    from cutwater.adapters.job_files.carried_files import load_carried  # reads job files: most verbs do not

    return [load_carried(one.files) for one in reversed(list(candidates(cluster, job).job_files.values()))]


def definition_of(candidate: Candidate) -> str:
    """Return what a candidate's rows mean: its parent's, or that of its own job file."""
    own = candidate.redefinition
    return own.definition if own else parent_of(candidate.claim).definition


def working_for(job: Job, settings: Settings, cluster: Cluster | None = None) -> tuple[Job, Settings]:
    """Return job and settings of a process with its generation, and that generation's job file and partitions.

    The generation is that of CUTWATER_GENERATION, else the promoted one, else the first. The job file has the
    partitions of the first one; later ones have their own. Uses the brokers of `cluster`, else of the settings.
    """
    cluster = cluster or settings.cluster
    try:
        last = promoted(cluster, job.name)
    except UsageError:
        return job, settings  # no topic yet, or no permission: its user reports that
    jobs = GenerationJobs.on(cluster, job)
    if "generation" in settings.model_fields_set:
        if last and last.generation == settings.generation:
            return jobs.at(last), settings
        if settings.generation == first(settings):
            return job, settings
        return jobs.of_candidate(candidates(cluster, job.name).require(settings.generation)), settings
    if last is None:
        return job, settings
    if last.generation.region != settings.region:
        raise UsageError(
            f"{topics.milestones(job.name)} belongs to region {last.generation.region}, but CUTWATER_REGION is "
            f"{settings.region}: use the brokers of that region, or correct the setting"
        )
    return jobs.at(last), settings.model_copy(update={"generation": last.generation})


def first(settings: Settings) -> Generation:
    return Generation(1, settings.region)
