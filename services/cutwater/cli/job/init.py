"""`init`: a job file drafted from the records of a topic."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cutwater.adapters.avro.codec import schema_folder
from cutwater.adapters.job_files.event_schema import imported_protos
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client import partition_count, wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.cli.options import BootstrapOption, DataDirOption, JsonOption, cluster_for, settings_for
from cutwater.cli.report import err, out, print_json, report_errors
from cutwater.core.errors import UsageError
from cutwater.core.job.drafts.draft_file import NOT_JUDGED, Draft, job_name, rejection_text, render
from cutwater.core.job.usable_events import Rejected
from cutwater.operations.event_draft import Choice, draft_event, list_rejected
from cutwater.operations.format_detection import DetectedFormat, detect_format
from cutwater.operations.topic_sample import Sample, sample

ANSWER_S = 10.0


@report_errors
def init(
    from_topic: Annotated[str, typer.Option(help="The topic to sample.")],
    bootstrap_servers: BootstrapOption = None,
    key: Annotated[
        list[str] | None, typer.Option(help="The field to group by; several: repeat it. Default: proposed.")
    ] = None,
    event_time: Annotated[
        str | None, typer.Option(help="The field with the event time. Default: proposed.")
    ] = None,
    explode: Annotated[
        str | None, typer.Option(help="The array whose elements are the events, as in cart.items.")
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(help="Avro: the writers' schema (.avsc). Protobuf: a .proto or a descriptor file."),
    ] = None,
    message: Annotated[
        str | None, typer.Option(help="Protobuf: the full name of the events' message, as in shop.Order.")
    ] = None,
    job: Annotated[str | None, typer.Option(help="The job's name. Default: made from the topic's.")] = None,
    file: Annotated[Path | None, typer.Option("--out", help="The file to write. Default: JOB.yaml here.")] = None,
    records: Annotated[int, typer.Option(min=1, max=100_000, help="How many records to sample.")] = 1_000,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draft a job file from a topic: format, schema, key, event time, window, lateness and measures.

    Only reads the newest records. Avro in single-object encoding is recognised by the schemas in the folder of
    --out, in its schemas/ and among Cutwater's own. For JSON a schema is inferred and written beside the job file.
    Protobuf needs --schema and --message. Lists the records that the driver would reject with this job file, by
    field and rule. A field inside of a record, map or array is named by its path, and the draft has a computed
    column for it. With --explode each element of an array is an event, whose fields are named as in item.sku.

    Exit 2: the topic does not exist, no format or field fits, or a file exists already. 4: no broker answers.

    Examples:  cutwater init --from-topic orders --bootstrap-servers kafka-1:9092
    ·  cutwater init --from-topic orders --key customer --event-time created_at --out jobs/orders.yaml
    ·  cutwater init --from-topic clicks --key page --key payload.user.id
    ·  cutwater init --from-topic orders --explode cart.items --key item.sku
    ·  cutwater init --from-topic orders --key "tags['region']" --schema orders.proto --message shop.Order
    """
    settings = settings_for(data_dir, bootstrap_servers)
    cluster = cluster_for(settings, bootstrap_servers) or settings.cluster
    name = job or job_name(from_topic)
    target = file or Path(f"{name}.yaml")
    _refuse_to_overwrite([target], force)
    wait_for_broker(cluster, ANSWER_S)
    samples = _samples(cluster, from_topic, records, as_json)
    found = detect_format(samples, from_topic, schema, (target.parent, target.parent / "schemas"), message)
    event = draft_event(found, name, Choice(key or [], event_time, explode))
    # That of a .proto says how it is read.
    suffix = found.schema_file.suffix if message and found.schema_file else ".avsc"
    schema_target = target.with_name(f"{name}_event{suffix}") if _writes_schema(found, target) else None
    copies = _copies(found, schema_target)
    _refuse_to_overwrite([*copies.values()] or [one for one in (schema_target,) if one], force)
    draft = Draft(
        job=name,
        topic=from_topic,
        schema_file=schema_target.name if schema_target else _name_of(found),
        format=found.format,
        samples=len(found.rows),
        unreadable=found.unreadable,
        partitions=partition_count(cluster, from_topic),
        left_out=event.left_out,
        proposal=event.proposal,
        message=message or "",
    )
    _write(draft, event.schema, target, schema_target, copies)
    made = load_job(target)  # fail now if 'cutwater up' would refuse the draft
    draft = replace(draft, rejected=list_rejected(made, samples))
    _write_job(draft, target)
    _show(draft, target, schema_target, settings.show_payloads, as_json)


def _samples(cluster: Cluster, topic: str, records: int, quiet: bool) -> list[Sample]:
    with err.task("reading", "records", records, quiet=quiet) as progress:
        return sample(cluster, topic, records, progress)


def _writes_schema(found: DetectedFormat, target: Path) -> bool:
    """Return whether a schema must be written or copied beside the job file, to be found by its name."""
    file = found.schema_file
    return file is None or file.resolve().parent not in (target.resolve().parent, schema_folder().resolve())


def _copies(found: DetectedFormat, schema_target: Path | None) -> dict[Path, Path]:
    """Return the files to copy beside the job file, with their places: a given schema, and what it imports."""
    file = found.schema_file
    if file is None or schema_target is None:
        return {}
    imported = {file.parent / name: schema_target.parent / name for name in imported_protos(file)}
    new = {one: at for one, at in imported.items() if not at.is_file() or at.read_bytes() != one.read_bytes()}
    return {file: schema_target, **new}


def _name_of(found: DetectedFormat) -> str:
    return found.schema_file.name if found.schema_file else ""


def _refuse_to_overwrite(files: list[Path], force: bool) -> None:
    for one in files:
        if one.exists() and not force:
            raise UsageError(f"{one} exists; nothing was written. Name another file with --out, or give --force")


def _write(
    draft: Draft, schema: dict[str, Any], target: Path, schema_target: Path | None, copies: Mapping[Path, Path]
) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for file, at in copies.items():
            at.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, at)
        if schema_target and not copies:
            schema_target.write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{schema_target} cannot be written: {error.strerror or error}") from None
    _write_job(draft, target)


def _write_job(draft: Draft, target: Path) -> None:
    try:
        target.write_text(render(draft), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror or error}") from None


def _show(draft: Draft, target: Path, schema_target: Path | None, examples: bool, as_json: bool) -> None:
    one = draft.proposal
    if as_json:
        print_json(
            {
                "job_file": str(target),
                "schema_file": str(schema_target) if schema_target else draft.schema_file,
                "job": draft.job,
                "format": draft.format,
                "samples": draft.samples,
                "unreadable": draft.unreadable,
                "left_out": dict(draft.left_out),
                "rejected": draft.rejected
                and [
                    {**one.flaw._asdict(), "count": one.records, "example": _example(one, examples)}
                    for one in draft.rejected
                ],
                "key": one.key[0] if len(one.key) == 1 else list(one.key),
                "event_time": one.event_time,
                "window_ms": one.window_ms,
                "lateness_ms": one.lateness_ms,
                "measures": {
                    name: {"measure": kind, "field": field} for name, (kind, field) in one.measures.items()
                },
            }
        )
        return
    out.print(render(draft), whole=True)
    if draft.rejected is None:
        out.print(NOT_JUDGED, whole=True)
    if draft.rejected:
        count = sum(found.records for found in draft.rejected)
        out.print(f"the driver would reject {count:,} of {draft.samples + draft.unreadable:,} records", whole=True)
    for rejected in draft.rejected or ():
        example = _example(rejected, examples)
        out.print(
            f"  {rejection_text(rejected)}{'' if example is None else f'; the first begins with {example}'}",
            whole=True,
        )
    written = f"{target} and {schema_target}" if schema_target else str(target)
    out.print(f"written: {written}; next: cutwater doctor {target}", whole=True)


def _example(one: Rejected, shown: bool) -> str | None:
    return one.example.decode("utf-8", "backslashreplace") if shown and one.example is not None else None


def register(app: typer.Typer) -> None:
    app.command()(init)
