"""The job files of one stack: whether they can run beside each other, in which order, and in which folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.local.running_file import JOBS

JOBS_MAX = 50
_OF_ONE = {"generation": "a generation", "peers": "the peers", "replica_of": "a region that is replicated"}
"""Settings that have a value for one job only."""


class JobFolder(NamedTuple):
    """A job of a stack, and the folder of its state and logs."""

    job: Job
    file: Path
    folder: Path


def job_folders(files: Sequence[Path], data_dir: Path) -> list[JobFolder]:
    """Return the jobs of a stack on a data folder in the order of their start: a job after those whose output it
    reads. Raise UsageError if a file is wrong or the jobs cannot run beside each other."""
    if len(files) > JOBS_MAX:
        raise UsageError(
            f"{len(files)} job files are given, and one stack runs at most {JOBS_MAX}: start two stacks"
        )
    jobs = [(load_job(one), one) for one in files]
    _require_apart(jobs)
    ordered = sorted(jobs, key=lambda one: _level(one[0], {job.name: job for job, _ in jobs}))
    found = [JobFolder(job, file, _folder(job.name, data_dir, len(files) == 1)) for job, file in ordered]
    at_top = [one.job.name for one in found if one.folder == data_dir]
    if len(at_top) > 1:
        raise UsageError(
            f"{' and '.join(at_top)} have run on {data_dir} one after the other, each as its only job: so they "
            f"cannot run there together. Move one's folders, such as checkpoints/{at_top[1]}, below "
            f"{data_dir / JOBS / at_top[1]}"
        )
    return found


def is_of_one(found: Sequence[JobFolder], data_dir: Path) -> bool:
    """Return whether this is one job on the data folder itself, so that the stack is that job's."""
    return [one.folder for one in found] == [data_dir]


def require_shareable(settings: Settings) -> None:
    """Raise UsageError for settings that several jobs cannot share."""
    for name, what in _OF_ONE.items():
        if name in settings.model_fields_set and getattr(settings, name):
            raise UsageError(f"CUTWATER_{name.upper()} names {what} of one job: unset it, or start it alone")


def _level(job: Job, jobs: Mapping[str, Job]) -> int:
    """Return how many jobs of the stack are above this one."""
    level, above = 0, jobs.get(job.upstream)
    while above is not None:
        level, above = level + 1, jobs.get(above.upstream)
        if level > len(jobs):  # by other files of their names: the files themselves cannot read each other
            raise UsageError(f"job {job.name} reads the output of {job.upstream}, which reads its own: a circle")
    return level


def _folder(job: str, data_dir: Path, alone: bool) -> Path:
    # A job that has run alone on the data folder keeps its state there.
    own = data_dir / JOBS / job
    if own.is_dir():
        return own
    stays = alone or any((data_dir / kind / job).is_dir() for kind in ("checkpoints", "views"))
    return data_dir if stays else own


def _require_apart(jobs: Sequence[tuple[Job, Path]]) -> None:
    files: dict[str, Path] = {}
    for job, file in jobs:
        if other := files.get(job.name):
            raise UsageError(
                f"{other} and {file} are both of job {job.name}, so both would write its topics: give one, or "
                "change the name of one"
            )
        files[job.name] = file
    outputs = {topics.output(job.name): job for job, _ in jobs}
    for job, file in jobs:
        writer = outputs.get(job.topic)
        if writer is None:
            continue
        if not job.upstream:
            raise UsageError(
                f"{file}: the source topic {job.topic} is the output of job {writer.name}, and has records that "
                f"are no events: name its file, source.job: {files[writer.name].name}, instead of the topic"
            )
        if (job.event_schema, job.format.kind) != (writer.output_schema, writer.output.format):
            raise UsageError(
                f"{file}: source.job is a file of job {writer.name}, but not of the same output as "
                f"{files[writer.name]}: name that one"
            )
