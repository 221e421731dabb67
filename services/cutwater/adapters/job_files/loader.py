"""Job files: YAML, checked by field and by the rules between fields, compiled to a `cutwater.core.job.job.Job`.

All mistakes are reported in one error, a line each: file, line, field, what is wrong and what is allowed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cutwater.adapters.job_files.attached_query import compile_attached
from cutwater.adapters.job_files.document.yaml_reader import Place, read_document
from cutwater.adapters.job_files.errors import JobErrors
from cutwater.adapters.job_files.event_schema import event_format, field_types, find_schema
from cutwater.adapters.job_files.expressions import compile_columns
from cutwater.adapters.job_files.field_checks import check_fields, is_attached
from cutwater.adapters.job_files.models import AttachedModel, JobModel, MeasureModel, SourceModel, parse_duration
from cutwater.adapters.job_files.rule_checks import STATE, check_kept, frame
from cutwater.adapters.job_files.source_fields import (
    ARRAY,
    COLUMNS,
    ELEMENTS,
    TRANSFORMED,
    KeyOfFile,
    Types,
    check_time,
    compile_key,
    no_field,
)
from cutwater.adapters.job_files.transform_function import compile_transform
from cutwater.adapters.job_files.upstream import (
    Upstream,
    check_corrections,
    check_repeats,
    counted_rows,
    find_upstream,
)
from cutwater.adapters.sketches import HllSketches, ThetaSketches
from cutwater.core.events.formats import (
    CONFLUENT,
    CONFLUENT_JSON,
    CONFLUENT_PROTOBUF,
    REGISTRY_FORMATS,
    EventFormat,
)
from cutwater.core.job.columns import ComputedColumn, Explode, Transform
from cutwater.core.job.derived_values import DERIVED, derived_measure, names_in
from cutwater.core.job.job import TAKEN_COLUMNS, Job, Objectives
from cutwater.core.job.kinds.stored_values import stored_measure
from cutwater.core.job.measure_kinds import KINDS, PARAMETERS, SYNONYMS, By, build
from cutwater.core.job.measures import HLL, THETA, Measure
from cutwater.core.job.row_room import require_room
from cutwater.core.util.suggestions import value_text

__all__ = ["load_job", "parse_duration"]

_SCHEMA, _MESSAGE = ("source", "schema"), ("source", "message")
_PARAMETERS = tuple(dict.fromkeys(PARAMETERS.values()))


def load_job(path: Path) -> Job:
    """Read and check a job file. Raises UsageError with a line per mistake: file, line, field, problem, remedy."""
    return _load(path, ())


def _load(path: Path, above: tuple[Path, ...]) -> Job:
    """`above`: the files that read this one's output, directly or by others between them."""
    document = read_document(path)
    errors = JobErrors(path, document)
    if is_attached(document.values):
        return errors.finish(compile_attached(path, check_fields(AttachedModel, document, errors), errors))
    upstream = find_upstream(path, document, above, _load, errors)
    return errors.finish(_compile(path, check_fields(JobModel, document, errors), upstream, errors))


def _compile(path: Path, model: JobModel, upstream: Upstream | None, errors: JobErrors) -> Job | None:
    source = model.source
    check_corrections(source, upstream, errors)
    _check_message(source, errors)
    found = (
        (upstream.file, upstream.job.output_schema)
        if upstream
        else errors.attempt(
            _SCHEMA,
            lambda: find_schema(path, source.schema_, source.format, source.message),
            _SCHEMA,
            _MESSAGE,
        )
    )
    types = errors.attempt(_SCHEMA, lambda: field_types(found[1])) if found else None
    columns: tuple[ComputedColumn, ...] = ()
    explode: Explode | None = None
    transform: Transform | None = None
    key = KeyOfFile()
    if found is not None and types is not None:
        columns, explode = compile_columns(source, found[1], types, errors)
        of_record = {**types, **{one.name: one.type for one in columns}}
        of_elements = {one.name: one.type for one in (explode.columns if explode else ())}
        transform = compile_transform(source, path, {**of_record, **of_elements}, errors)
        of_record |= {one.name: one.type for one in (transform.columns if transform else ())}
        types = {**of_record, **of_elements}
        key = compile_key(model, types, errors)
        check_time(of_record, types, source.event_time, errors)
    events = upstream.events if upstream else _events(source, found, errors)
    measures = _measures(model, types, errors)
    check_repeats(model.measures, upstream, errors)
    shared = frame(model, errors)
    if found is None or types is None or events is None or shared is None or errors:
        return None
    return Job(
        name=model.job,
        topic=source.topic,
        event_schema=found[1],
        format=events,
        key_field=key.field,
        key_kind=key.kind,
        key_columns=key.columns,
        time_field=source.event_time,
        time_micros=types[source.event_time].name == "timestamp-micros",
        where=counted_rows(source) if upstream else source.where,
        upstream=upstream.job.name if upstream else "",
        columns=columns,
        explode=explode,
        transform=transform,
        window=shared.window,
        lateness_ms=model.lateness,
        retention_ms=model.retention,
        shards=shared.shards,
        measures=measures.shown,
        state_measures=measures.in_state,
        max_ahead_ms=model.max_ahead,
        max_behind_ms=model.max_behind,
        max_jump_ms=model.max_jump,
        amend_for_ms=model.late.amend_for or None,
        lists_retention_ms=model.lists_retention,
        repeated_names=source.repeated_names,
        max_event_bytes=model.max_event_bytes,
        max_events_per_epoch=model.max_events_per_epoch,
        max_bytes_per_epoch=model.max_bytes_per_epoch,
        objectives=Objectives(model.objectives.readable_p99, model.objectives.recovery),
        shuffle_partitions=model.shuffle_partitions,
        output=shared.output,
        changelog_format=model.changelog.format,
        registry=shared.registry,
        max_bytes=model.max_bytes,
    )


def _events(
    source: SourceModel, found: tuple[Path, dict[str, Any]] | None, errors: JobErrors
) -> EventFormat | None:
    kind = ("source", "format")
    named = ("source", "registry" if source.registry else "subject")
    if errors.sound(kind, named) and (source.registry or source.subject) and source.format not in REGISTRY_FORMATS:
        formats = f"{CONFLUENT}, {CONFLUENT_JSON} and {CONFLUENT_PROTOBUF}"
        text = f"source.registry and source.subject belong to the formats {formats}; this one is {source.format}"
        errors.add(named, text)
    if found is None:
        return None
    path, schema = found
    return errors.attempt(
        _SCHEMA, lambda: event_format(source.format, path, schema, source.subject_of_topic), kind, _SCHEMA
    )


def _check_message(source: SourceModel, errors: JobErrors) -> None:
    if not errors.sound(("source", "format"), _MESSAGE):
        return
    if source.format == CONFLUENT_PROTOBUF and not source.message:
        errors.add(
            _MESSAGE, f"is required by the format {CONFLUENT_PROTOBUF}: the full name of the events' message"
        )
    if source.message and source.format != CONFLUENT_PROTOBUF:
        errors.add(_MESSAGE, f"belongs to the format {CONFLUENT_PROTOBUF}; this one is {source.format}")


class _Measures(NamedTuple):
    shown: tuple[Measure, ...]
    """What rows have, and derived values."""
    in_state: tuple[Measure, ...]


def _measures(model: JobModel, types: Types | None, errors: JobErrors) -> _Measures:
    """Return the valid measures, after checking that no two of them share a column."""
    tried = [_measure(name, one, model, types, errors) for name, one in model.measures.items()]
    built = tuple(one for one in tried if one is not None)
    _check_columns(built, errors)
    check_kept(model, errors)
    in_state = tuple(one for one in built if model.measures[one.name].kept == STATE)
    shown = tuple(one for one in built if model.measures[one.name].kept != STATE)
    shown += _derived(model, built, errors)
    errors.attempt(("measures",), lambda: require_room(shown))
    return _Measures(shown, in_state)


def _measure(
    name: str, one: MeasureModel, model: JobModel, types: Types | None, errors: JobErrors
) -> Measure | None:
    place = ("measures", name)
    kind, field = (*place, "measure"), (*place, "field")
    if errors.sound(kind) and one.measure not in KINDS:
        text = f"{value_text(one.measure)} is no measure; allowed: {', '.join(KINDS)}"
        errors.add(kind, text, errors.meant(one.measure, KINDS, SYNONYMS))
    if not _check_parameters(place, one, errors):
        return None
    # A column with a mistake is not among the types, which is no second mistake.
    named_fields = [named for named in (one.field, one.by) if named is not None]
    if types and not types.keys() >= set(named_fields) and not errors.sound(ARRAY, TRANSFORMED):
        return None  # it may be a column of the array's elements or of the function
    if not errors.sound(
        *((*place, named) for place in (COLUMNS, ELEMENTS, TRANSFORMED) for named in named_fields)
    ):
        return None
    for at, named in ((field, one.field), ((*place, "by"), one.by)):
        if types is not None and named is not None and errors.sound(at) and named not in types:
            no_field(types, at, named, errors)
    if types is None and (one.field is not None or one.by is not None):
        return None
    of = types[one.field] if types and one.field in types else None
    by = By(one.by, types[one.by]) if types and one.by in types else None
    sketches = ThetaSketches() if one.sketch == THETA else HllSketches()
    more = by, one.bounds or (), one.ranks or (), one.items, model.source.explode is not None, one.scale
    built = errors.attempt(
        place, lambda: build(name, one.measure, one.field, of, sketches, *more, one.sketch or HLL)
    )
    return replace(built, renamed_from=one.renamed_from or "") if built else None


def _derived(model: JobModel, built: tuple[Measure, ...], errors: JobErrors) -> tuple[Measure, ...]:
    """Return the valid derived values. One that needs an invalid measure or derived value is not checked."""
    known = {one.name: one for one in built}
    taken = {one.lower(): one for one in (*TAKEN_COLUMNS, *model.measures)}
    found: list[Measure] = []
    unknown = set(model.measures.keys() - known.keys())
    for name, text in model.derived.items():
        place = (DERIVED, name)
        if other := taken.get(name.lower()):
            errors.add(place, f"the column {other} would exist twice; choose another name")
        taken[name.lower()] = name
        one = None
        if not names_in(text) & unknown:
            stored = any(model.measures[of].kept == STATE for of in names_in(text) & model.measures.keys())
            one = errors.attempt(place, partial(stored_measure if stored else derived_measure, name, text, known))
        if one is None:
            unknown.add(name)
        else:
            known[name] = one
            found.append(one)
    return tuple(found)


def _check_parameters(place: Place, one: MeasureModel, errors: JobErrors) -> bool:
    """Report a parameter of another kind, and return whether there was none."""
    others = [
        name for name in _PARAMETERS if getattr(one, name) is not None and PARAMETERS.get(one.measure) != name
    ]
    for name in others:
        if errors.sound((*place, "measure"), (*place, name)):
            kinds = " and ".join(kind for kind, needed in PARAMETERS.items() if needed == name)
            errors.add((*place, name), f"belongs to {kinds}; this one is {one.measure}")
    return not others


def _check_columns(measures: tuple[Measure, ...], errors: JobErrors) -> None:
    # Spark's column names are case-insensitive.
    owners: dict[str, Place] = {}
    for measure in measures:
        place = ("measures", measure.name)
        columns = {partial.column.lower() for partial in measure.partials}
        taken = TAKEN_COLUMNS & {*columns, measure.name.lower()}
        if twice := sorted(taken | (columns & owners.keys())):
            others = sorted({owners[one] for one in twice if one in owners})
            of = "".join(f" ('{other[-1]}' on line {errors.line(other)} has them)" for other in others)
            text = f"the columns {', '.join(twice)} would exist twice; rename a measure: '{measure.name}'{of}"
            errors.add(("measures",), text, at=place)
        for column in columns:
            owners.setdefault(column, place)
