"""`schemas`: checks the evolution of schema files, shows, registers and fetches the schemas of a job."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from cutwater.adapters.avro.codec import crc64
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.events.fetched_schema import FetchedSchema, fetch_schema, write_files
from cutwater.adapters.events.registry import Registry, registry_at, registry_for
from cutwater.adapters.events.value_headers import written_subjects
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.job_files.models import registry_url
from cutwater.adapters.job_files.schema_files import schema_files, schema_files_at
from cutwater.adapters.topics.generation_jobs import working_for
from cutwater.cli.action_audit import audit_action
from cutwater.cli.options import BootstrapOption, DataDirOption, JobNameOption, cluster_for, settings_for
from cutwater.cli.report import out, print_json, print_note, report_errors
from cutwater.core.access.actions import REGISTER
from cutwater.core.errors import CutwaterError, UsageError
from cutwater.core.events.formats import REGISTRY_FORMATS, WriterSchema
from cutwater.core.events.schema_compatibility import BACKWARD, reading, refusal
from cutwater.core.events.schema_versions import SchemaFile, changes_problems, problems
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.local import running_file

JobFile = Annotated[Path, typer.Argument(help="The job file.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.")]

app = typer.Typer(
    help="""Schemas: check their evolution, show those of a job, register one, fetch one.

    Examples:  cutwater schemas check  ·  cutwater schemas show deploy/jobs/flights.yaml
    """,
    no_args_is_help=True,
)


@app.command()
@report_errors
def check(
    folder: Annotated[Path, typer.Argument(help="Folder with .avsc files.")] = Path("schemas"),
    against: Annotated[
        str | None, typer.Option(help="The earlier state: a folder, or a commit of the folder's git repository.")
    ] = None,
    rule: Annotated[str, typer.Option(help="backward, forward or full (schemas/README.md).")] = BACKWARD,
    as_json: JsonFlag = False,
) -> int:
    """Check that each schema may follow its older versions. Exit 1 with one line per problem if not.

    Examples:  cutwater schemas check schemas  ·  cutwater schemas check schemas --against HEAD~1
    """
    files = schema_files(folder)
    if not files:
        raise UsageError(f"{folder} contains no schema (*.avsc)")
    found = problems(files, rule)
    if against is not None:
        found += changes_problems(_earlier_schemas(folder, against), files, against, rule)
    if as_json:
        print_json({"files": [one.name for one in files], "rule": rule, "problems": found})
    else:
        for line in found:
            print_note(line)
        out.print(f"{len(files)} schemas, rule {rule}: {len(found) or 'no'} problem{'s'[: len(found) != 1]}")
    return 1 if found else 0


def _earlier_schemas(folder: Path, against: str) -> list[SchemaFile]:
    path = Path(against)
    # A folder takes precedence over a commit of the same name.
    return schema_files(path) if path.is_dir() else schema_files_at(folder, against)


@app.command()
@report_errors
def show(
    job_file: Annotated[Path | None, typer.Argument(help="The job file. Default: the running stack's.")] = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
) -> None:
    """Print a job's schemas and fingerprints as JSON: events (all versions), state key, state, output.

    'writers' lists each schema that events may be written with; for format confluent, all versions of the subject
    in the registry. 'refused' is the reason why all of its events are rejected, and 'unfit' lists what an event
    must not contain. It is null if the registry does not answer.

    Exit 2: the job file is wrong, or none is named and no stack runs.

    Examples:  cutwater schemas show deploy/jobs/flights.yaml
    """
    job = load_job(job_file or Path(running_file.require(settings_for(data_dir).data_dir, job_name).job_file))
    print_json(
        {
            "job": job.name,
            "format": job.format.kind,
            "event": _describe_schema(job.event_schema),
            "older": [_describe_schema(one) for one in job.format.older],
            "writers": _writers(job, settings_for(data_dir)),
            "key": _describe_schema(WINDOW_KEY_SCHEMA),
            "state": _describe_schema(job.state_schema),
            "output": _describe_schema(job.output_schema),
        }
    )


def _describe_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"fingerprint": crc64(schema).hex(), "schema": schema}


def _writers(job: Job, settings: Settings) -> list[dict[str, Any]] | None:
    try:
        with registry_at(job, settings) if job.format.kind in REGISTRY_FORMATS else nullcontext() as registry:
            known = known_schemas(job, registry)
    except CutwaterError as error:
        print_note(f"the schemas of the events' writers are not known: {error}")
        return None
    return [_writer(one, job.event_schema) for one in known]


def _writer(one: WriterSchema, reader: dict[str, Any]) -> dict[str, Any]:
    if not one.schema:
        return {"name": one.name, "refused": one.problem or None, "unfit": [], "schema": {}}
    unfit = reading(one.schema, reader).unfit
    return {"name": one.name, "refused": refusal(one, reader), "unfit": list(unfit), "schema": one.schema}


@app.command("register")
@report_errors
def register_schemas(
    job_file: JobFile,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Register a job's schemas for events, changelog and output, if their format is confluent, in its registry.

    The changelog's subject is that of the promoted generation. If no brokers are named and no stack runs, it is
    that of the region's first generation (CUTWATER_REGION).

    Exit 2: no format of the job is confluent, or the registry refuses a schema. 4: registry or brokers do not
    answer.

    Examples:  cutwater schemas register job.yaml  ·  cutwater schemas register job.yaml --json
    """
    job, settings = load_job(job_file), settings_for(data_dir, bootstrap_servers)
    registry = registry_for(job, settings) if written_subjects(job, settings.generation) else None
    if registry is None:
        raise UsageError(f"{job_file}: no format is confluent, so no schema of the job is registered")
    with registry:
        cluster = cluster_for(settings, bootstrap_servers)
        if cluster:
            _, settings = working_for(job, settings, cluster)
        # Without brokers there is no job yet, and no log of it.
        with audit_action(REGISTER, settings, cluster, job.name) if cluster else nullcontext():
            made = [
                {"subject": subject, "id": registry.register(subject, schema)}
                for subject, schema in written_subjects(job, settings.generation)
            ]
    if as_json:
        print_json({"registered": made})
    else:
        for one in made:
            out.print(f"{one['subject']}: id {one['id']}")


@app.command()
@report_errors
def fetch(
    subject: Annotated[str, typer.Argument(help="The subject in the registry.")],
    into: Annotated[Path, typer.Option(help="The folder to write to, such as that of the job file.")],
    registry: Annotated[
        str | None, typer.Option(help="The registry's URL. Default: CUTWATER_REGISTRY_URL.")
    ] = None,
    version: Annotated[int | None, typer.Option(min=1, help="The version. Default: the newest.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that differ.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write a subject's schema as a file: a .proto with all files that it imports, or an .avsc in one piece.

    The file has the subject's name. Imported files have the names in the imports. For Protobuf the messages are
    printed that source.message may name.

    Exit 2: no such subject or version, a JSON Schema, or a file with another content. 4: the registry does not
    answer.

    Examples:  cutwater schemas fetch orders-value --into jobs
    ·  cutwater schemas fetch orders-value --into jobs --registry http://registry:8081 --version 3
    """
    with _registry(registry) as asked:
        found = fetch_schema(asked, subject, version)
    _show_fetched(found, write_files(into, found.files, force), as_json)


def _registry(url: str | None) -> Registry:
    settings = settings_for(None)
    try:
        named = registry_url(url) if url else settings.registry_url
    except ValueError as error:
        raise UsageError(f"--registry: {error}") from None
    if not named:
        raise UsageError("no schema registry is configured: give --registry, or set CUTWATER_REGISTRY_URL")
    return Registry(named, settings.registry_username, settings.registry_password.get_secret_value())


def _show_fetched(found: FetchedSchema, files: dict[Path, bool], as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "subject": found.subject,
                "version": found.version,
                "id": found.id,
                "kind": found.kind,
                "files": [{"file": str(path), "written": written} for path, written in files.items()],
                "messages": list(found.messages),
            }
        )
        return
    out.print(f"{found.subject}: version {found.version}, id {found.id}")
    for path, written in files.items():
        out.print(f"{'written' if written else 'unchanged'}: {path}", whole=True)
    if found.messages:
        out.print("source.message may be:")
        for one in found.messages:
            out.print(f"  {one}")


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="schemas")
