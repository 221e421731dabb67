"""The event schema of a job file: the file, its older versions, its fields' types, the events' format."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cutwater.adapters.avro.codec import check_schema, load_schema, schema_folder
from cutwater.adapters.job_files.schema_files import older_versions
from cutwater.core.errors import UsageError
from cutwater.core.events.avro_types import Schema
from cutwater.core.events.formats import AVRO, CONFLUENT_PROTOBUF, JSON_FORMATS, EventFormat
from cutwater.core.events.json_events import json_fields
from cutwater.core.events.schema_compatibility import obstacles
from cutwater.core.events.schema_inference import alike_but_for_case
from cutwater.core.job.field_paths import type_of
from cutwater.core.job.measures import FieldType
from cutwater.core.util.suggestions import closest, listed, value_text

SCHEMAS_MAX = 200
"""Files beside a job file that are searched for a misspelt name."""
PROTO = ".proto"
DESCRIPTOR_BYTES_MAX = 4_000_000


def find_schema(job_path: Path, name: str, kind: str, message: str = "") -> tuple[Path, dict[str, Any]]:
    """Return the schema file beside the job file, else from the project's schemas, with the events' schema.

    `kind`: the events' format. `message`: of Protobuf, whose file is a .proto or a descriptor.
    """
    for candidate in (job_path.parent / name, schema_folder() / name):
        if is_file(candidate) and kind == CONFLUENT_PROTOBUF:
            return candidate, load_message(candidate, message)
        if is_file(candidate):
            return candidate, load_schema(candidate, plain_names=kind not in JSON_FORMATS, own=True)
    suffixes = (PROTO, ".desc") if kind == CONFLUENT_PROTOBUF else (".avsc",)
    files = sorted(one for suffix in suffixes for one in job_path.parent.glob(f"*{suffix}"))
    beside = [one.name for one in files[:SCHEMAS_MAX]]
    meant = closest(name, beside)
    advice = f"; did you mean '{meant}'?" if meant else ""
    raise UsageError(f"{value_text(name)} is neither beside the job file nor in schemas/{advice}")


def load_message(path: Path, message: str) -> dict[str, Any]:
    """Return the event schema of a message of a .proto or descriptor; raises UsageError as `check_schema` does."""
    # Not above: most jobs have no Protobuf, and verbs of a running stack begin with little.
    from cutwater.core.events.protobuf.descriptors import event_schema_of
    from cutwater.core.events.protobuf.proto_text import proto_schema

    if path.suffix == PROTO:
        made = proto_schema(_proto(path), message, path.name, partial(_beside, path.parent))
    else:
        made = event_schema_of(_bytes(path, "a descriptor file", DESCRIPTOR_BYTES_MAX), message, path.name)
    return check_schema(made, path.name, own=True)


def imported_protos(path: Path) -> list[str]:
    """Return the names of the files beside a .proto that it imports, directly or by others; none of another file.
    Raises UsageError as `load_message`."""
    from cutwater.core.events.protobuf.proto_text import imported_files

    return imported_files(_proto(path), path.name, partial(_beside, path.parent)) if path.suffix == PROTO else []


def _beside(folder: Path, name: str) -> str | None:
    return _proto(file) if is_file(file := folder / name) else None


def _proto(file: Path) -> str:
    from cutwater.core.events.protobuf.proto_text import PROTO_BYTES_MAX

    return _bytes(file, "a .proto file", PROTO_BYTES_MAX).decode("utf-8-sig", "surrogateescape")


def _bytes(path: Path, what: str, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            found = file.read(most + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(found) > most:
        raise UsageError(f"{path}: {what} may have {most:,} bytes")
    return found


def is_file(path: Path) -> bool:
    """Return whether the file exists; False for a folder without permission."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def event_format(kind: str, path: Path, schema: dict[str, Any], subject: str) -> EventFormat:
    """Return the event format. Raises UsageError if the schema cannot read an older version."""
    if kind in JSON_FORMATS:
        json_fields(schema)
    if kind != AVRO:
        return EventFormat(kind, subject=subject)
    older = older_versions(path)
    found = [f"{one.name}: {problem}" for one in older for problem in obstacles(one.schema, schema)]
    if found:
        raise UsageError(f"{path.name} cannot read its older versions: {'; '.join(found)}")
    return EventFormat(kind, tuple(one.schema for one in older))


def field_types(schema: Mapping[str, Any]) -> dict[str, FieldType]:
    """Return the types of a schema's fields as measures see them; raises UsageError for reserved names."""
    reserved = sorted(field["name"] for field in schema["fields"] if field["name"].startswith("__"))
    if reserved:
        raise UsageError(f"the schema's fields {listed(reserved)} begin with two underscores, which is reserved")
    if alike := alike_but_for_case(field["name"] for field in schema["fields"]):
        raise UsageError(
            f"the schema's fields {listed(alike)} differ in case alone, which Spark does not distinguish: leave "
            "all but one out of the schema (fields that it does not name are ignored), or rename them there with "
            "an alias"
        )
    found = Schema.of(schema)
    return {field["name"]: type_of(found, field["type"]) for field in found.named[found.root]["fields"]}
