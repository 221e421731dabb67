"""A job file and the schemas that it names as texts, which travel with a claim to every process of the job.

A schema beside the job file keeps its name. One of the project's own schemas is put beside it, where it is found
first. So the texts give the same job in any folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from cutwater.adapters.job_files.document.yaml_reader import read_document
from cutwater.adapters.job_files.event_schema import PROTO, find_schema
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.job_files.schema_files import older_versions
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import AVRO
from cutwater.core.job.job import Job
from cutwater.core.protocol.records import FileText

FILES_MAX, BYTES_MAX = 50, 512 << 10
"""A broker takes records of 1 MB by default."""


def carried_files(path: Path) -> tuple[FileText, ...]:
    """Return the texts of a job file, which must be valid, and of its schemas. Raises UsageError for files that
    cannot travel: of a function, of another job, of a folder elsewhere, or too large ones."""
    values = read_document(path).values
    source = values.get("source") or {}
    if "transform" in source or "job" in source:
        what = "source.transform" if "transform" in source else "source.job"
        raise UsageError(f"{path}: a job file with {what} needs files that do not travel with a claim")
    files = [FileText(path.name, _text(path)), *_schemas(path, source)]
    size = sum(len(one.text.encode()) for one in files)
    if len(files) > FILES_MAX or size > BYTES_MAX:
        raise UsageError(
            f"{path}: with its schemas it has {len(files)} files of {size:,} bytes, but a claim carries at most "
            f"{FILES_MAX} files of {BYTES_MAX:,} bytes: leave fields out of the schema that the job does not use"
        )
    return tuple(files)


def load_carried(files: Sequence[FileText]) -> Job:
    """Return the job of such texts. Raises UsageError if this version of Cutwater does not accept the job file."""
    with TemporaryDirectory(prefix="cutwater-job-") as folder:
        for name, text in files:
            _require_plain(name)
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return load_job(Path(folder, files[0].name))


def _schemas(path: Path, source: dict[str, str]) -> Iterator[FileText]:
    named = source.get("schema")
    if not named:
        return
    _require_plain(named)
    kind = source.get("format", AVRO)
    found, _ = find_schema(path, named, kind, source.get("message", ""))
    folder = PurePosixPath(named).parent
    yield FileText(named, _text(found))
    if found.suffix == PROTO:
        # Imports are found beside it by their own names.
        others = (one for one in sorted(found.parent.rglob(f"*{PROTO}")) if one != found)
        yield from (FileText(str(folder / one.relative_to(found.parent)), _text(one)) for one in others)
    elif kind == AVRO:
        older = (found.parent / one.name for one in older_versions(found))
        yield from (FileText(str(folder / one.name), _text(one)) for one in older)


def _require_plain(name: str) -> None:
    place = PurePosixPath(name)
    if place.is_absolute() or ".." in place.parts:
        raise UsageError(
            f"'{name}' is no file beside the job file: put it there, since the job file travels with the claim"
        )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read as text, as a claim carries it: {error}") from None
