"""One version of a subject as files: a .proto with all that it imports, or an Avro schema in one piece."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cutwater.adapters.events.registry import MuteError, NotThereError, Registry
from cutwater.adapters.events.registry_references import (
    AVRO_SCHEMA,
    JSON_SCHEMA,
    PROTOBUF_SCHEMA,
    SchemaReader,
    require_references,
    schema_kind,
)
from cutwater.core.errors import UsageError
from cutwater.core.events.protobuf.message_index import is_descriptor, schema_messages
from cutwater.core.events.protobuf.proto_text import PROTO_BYTES_MAX, leaves_folder
from cutwater.core.events.registry_ids import REFERENCED_MAX
from cutwater.core.util.suggestions import value_text

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")
_SUFFIXES = {AVRO_SCHEMA: ".avsc", PROTOBUF_SCHEMA: ".proto"}


@dataclass(frozen=True)
class FetchedSchema:
    subject: str
    version: int
    id: int
    kind: str
    files: dict[str, bytes]
    """By their names below a folder, the schema itself first."""
    messages: tuple[str, ...]
    """Of Protobuf those that an event can be."""


def fetch_schema(registry: Registry, subject: str, version: int | None = None) -> FetchedSchema:
    """Return a version of a subject, None: the newest, with all that it refers to.

    Raises UsageError if there is none, or it cannot be a file; UnavailableError if the registry does not answer.
    """
    found = _answer(registry, subject, version)
    try:
        number, id_, kind = int(found["version"]), int(found["id"]), schema_kind(found)
    except (KeyError, TypeError, ValueError):
        raise MuteError(f"the registry at {registry.url} answers {found!r:.100}, which is no version") from None
    origin = f"version {number} of {subject}"
    if kind not in _SUFFIXES:
        remedy = ": draft the job with 'cutwater init', which infers a schema" if kind == JSON_SCHEMA else ""
        raise UsageError(f"{origin} is {kind}; Avro and Protobuf are fetched{remedy}")
    name = (_NOT_IN_NAMES.sub("_", subject).lstrip(".") or "schema") + _SUFFIXES[kind]
    if kind == AVRO_SCHEMA:
        schema = SchemaReader(lambda *at: _answer(registry, *at)).schema(found, origin)
        text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        return FetchedSchema(subject, number, id_, kind, {name: _encoded(text, origin)}, ())
    files = {name: _proto(found, origin)}
    _add_referenced(registry, found, origin, files)
    return FetchedSchema(subject, number, id_, kind, files, schema_messages(str(found["schema"])))


def write_files(folder: Path, files: dict[str, bytes], force: bool) -> dict[Path, bool]:
    """Write files below a folder, and return for each whether it was not there already.

    Raises UsageError for a file that is there with another content, if not `force`, before any is written.
    """
    targets = {folder / name: content for name, content in files.items()}
    try:
        missing = {one: not (one.is_file() and one.read_bytes() == content) for one, content in targets.items()}
        if other := [one for one, is_missing in missing.items() if is_missing and one.exists() and not force]:
            raise UsageError(
                f"{other[0]} is another file; nothing was written. Name another folder, or give --force"
            )
        for one, is_missing in missing.items():
            if is_missing:
                one.parent.mkdir(parents=True, exist_ok=True)
                one.write_bytes(targets[one])
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from None
    return missing


def _answer(registry: Registry, subject: str, version: int | None) -> Any:
    path = f"/subjects/{quote(subject, safe='')}/versions/{version or 'latest'}"
    try:
        found = registry.call("GET", path, subject, {"deleted": "true"} if version else None)
    except NotThereError:
        wanted = f"version {version} of subject" if version else "subject"
        raise NotThereError(f"the schema registry at {registry.url} has no {wanted} {subject}") from None
    if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
        raise MuteError(f"the registry at {registry.url} answers {found!r:.100}, which is not a schema")
    return found


def _add_referenced(registry: Registry, found: Any, origin: str, files: dict[str, bytes]) -> None:
    """Add the files that a .proto refers to, and those that they refer to."""
    waiting, seen = [(found, origin)], dict[str, tuple[str, int]]()
    while waiting:
        found, origin = waiting.pop()
        for name, subject, version in require_references(found, origin):
            at = f"version {version} of {subject}"
            if leaves_folder(name) or not name.endswith(".proto"):
                raise UsageError(f"{origin} imports {value_text(name)}, which is no .proto below a folder")
            if seen.get(name) == (subject, version):
                continue
            if name in files:
                raise UsageError(f"{origin} imports {at} as {value_text(name)}, which is another file's name too")
            if len(files) > REFERENCED_MAX:
                raise UsageError(f"{origin} imports {at}: at most {REFERENCED_MAX} files are fetched with one")
            seen[name] = subject, version
            inner = _answer(registry, subject, version)
            files[name] = _proto(inner, at)
            waiting.append((inner, at))


def _proto(found: Any, origin: str) -> bytes:
    if (kind := schema_kind(found)) != PROTOBUF_SCHEMA:
        raise UsageError(f"{origin} is {kind}, and a .proto imports it")
    text = found["schema"]
    if is_descriptor(text):
        raise UsageError(
            f"{origin} is registered as a descriptor: take the .proto from those who write the events"
        )
    if len(text) > PROTO_BYTES_MAX:
        raise UsageError(f"{origin} has more than {PROTO_BYTES_MAX:,} characters, which is not read")
    return _encoded(text, origin)


def _encoded(text: str, origin: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{origin} has half of a character, which is no text of UTF-8") from None
