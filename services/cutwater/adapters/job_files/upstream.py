"""A job file whose source is another job's output: topic, schema and format are those of that job's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cutwater.adapters.avro.codec import check_schema
from cutwater.adapters.job_files.document.yaml_reader import Document, Place
from cutwater.adapters.job_files.errors import JobErrors
from cutwater.adapters.job_files.models import MeasureModel, SourceModel
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import CONFLUENT, JSON, EventFormat
from cutwater.core.events.json_events import json_fields
from cutwater.core.job.job import FINAL, UPDATE, Job
from cutwater.core.protocol import topics
from cutwater.core.util.suggestions import value_text

LEVELS_MAX = 20
"""Jobs that read each other's output, one below the other."""
_JOB: Place = ("source", "job")
_CORRECTIONS: Place = ("source", "corrections")
_OF_A_TOPIC = ("topic", "schema", "format", "registry", "subject", "repeated_names")
_COUNTED_ONCE = frozenset({"min", "max", "first", "last", "distinct", "every", "any", "min_by", "max_by"})
"""Measures that do not change if a value is repeated."""


@dataclass(frozen=True)
class Upstream:
    """The job whose output is the source, and its file."""

    job: Job
    file: Path
    events: EventFormat


Load = Callable[[Path, tuple[Path, ...]], Job]


def find_upstream(
    path: Path, document: Document, above: tuple[Path, ...], load: Load, errors: JobErrors
) -> Upstream | None:
    """Return the upstream job of a job file, if `source.job` names one, and complete `source` by it.

    Raises UsageError, with the mistakes found so far, if that job cannot be read: the rest needs it.
    """
    source = document.values.get("source")
    named = source.get("job") if isinstance(source, dict) else None
    if not isinstance(source, dict) or not isinstance(named, str) or not named:
        return None
    for name in _OF_A_TOPIC:
        if name in source:
            errors.add(("source", name), "belongs to a topic of events: leave it out, source.job tells it")
    found = errors.attempt(_JOB, lambda: _upstream(path, named, above, load))
    if found is None:
        return errors.finish(None)
    told = {"topic": topics.output(found.job.name), "schema": found.file.name, "format": found.job.output.format}
    document.values["source"] = {**source, **told}
    return found


def _upstream(path: Path, named: str, above: tuple[Path, ...], load: Load) -> Upstream:
    file, here = path.parent / named, path.resolve()
    if "\0" in named:
        raise UsageError(f"{value_text(named)} is no name of a file")
    if file.resolve() in (here, *above):
        raise UsageError(f"{value_text(named)} reads this job's output, directly or by other jobs: a circle")
    if len(above) >= LEVELS_MAX:
        raise UsageError(f"more than {LEVELS_MAX} jobs read each other's output, one below the other")
    job = load(file, (here, *above))
    if job.output.mode == "none":
        raise UsageError(f"{value_text(named)} has no output: set output.mode there")
    kind = job.output.format
    check_schema(job.output_schema, named, own=True)
    if kind == JSON:
        json_fields(job.output_schema)
    subject = f"{topics.output(job.name)}-value" if kind == CONFLUENT else ""
    return Upstream(job, file, EventFormat(kind, subject=subject))


def check_corrections(source: SourceModel, upstream: Upstream | None, errors: JobErrors) -> None:
    if source.corrections and upstream is None and errors.sound(_CORRECTIONS):
        errors.add(_CORRECTIONS, "belongs to source.job: events of a topic have no corrections")


def counted_rows(source: SourceModel) -> str:
    """Return the condition of the rows that are events: the user's, and by default no correction."""
    if source.corrections == "count":
        return source.where
    first = f"kind in ('{UPDATE}', '{FINAL}')"
    return f"{first} and ({source.where}\n)" if source.where else first


def check_repeats(measures: Mapping[str, MeasureModel], upstream: Upstream | None, errors: JobErrors) -> None:
    """Report measures that would count a window once for each update of it."""
    if upstream is None or upstream.job.output.mode == "final":
        return
    for name, one in measures.items():
        place = ("measures", name, "measure")
        if one.measure not in _COUNTED_ONCE and errors.sound(place):
            errors.add(
                place,
                f"the output of job {upstream.job.name} is a window's new value at each update, so {one.measure} "
                f"would count the window several times: set output.mode: final in {upstream.file.name}; with "
                f"updates allowed are {', '.join(sorted(_COUNTED_ONCE))}",
            )
