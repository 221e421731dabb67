"""The file about an incident: each part read, redacted and bounded, one after the other.

A part that cannot be read is named with the reason. Nothing that fails here is fatal but the file itself.
"""

from __future__ import annotations

import json
import os
import time
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cutwater.core.errors import MachineError, UnavailableError, UsageError
from cutwater.core.monitoring.incident import Contents, Excerpt, newest_lines
from cutwater.core.util.redaction import Redactor

CONTENTS = "contents.json"
_ONLY_OWNER = 0o600


class ArchivePart(NamedTuple):
    """One part of the file, and how to get it."""

    name: str
    read: Callable[[int], Excerpt]
    """Called with the most bytes that are of use. May raise anything."""
    is_redacted: bool = False


def json_part(name: str, read: Callable[[], Any], redactor: Redactor) -> ArchivePart:
    """Return a part that is a JSON document. Its values are redacted by their names, too."""

    def text(bytes_max: int) -> Excerpt:
        value = redactor.redact_value(read())
        whole = made = _document(value)
        while len(made) > bytes_max and isinstance(value, list) and len(value) > 1:
            value = value[len(value) // 2 :]  # the newest are last
            made = _document(value)
        if len(made) > bytes_max:
            raise UnavailableError(f"it has {len(made):,} bytes, and there is room for {bytes_max:,}")
        return Excerpt(made.decode(), len(whole) - len(made))

    return ArchivePart(name, text, is_redacted=True)


def write_archive(
    path: Path,
    job: str,
    created: str,
    parts: Iterable[ArchivePart],
    redactor: Redactor,
    note: Callable[[str], None],
    clock_s: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Write the parts to a zip file that only its owner can read, and return its table of contents.

    Raises UsageError if the file exists, MachineError if it cannot be written.
    """
    if path.exists():
        raise UsageError(f"{path} exists already: name another file with --out")
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.unlink(missing_ok=True)
        with open(temporary, "wb", opener=_open_private) as file, zipfile.ZipFile(file, "w") as archive:
            contents = _gather(archive, parts, redactor, note, clock_s)
            document: dict[str, Any] = redactor.redact_value(contents.as_json(job, created))
            _add(archive, CONTENTS, _document(document))
        temporary.replace(path)
    except OSError as error:
        raise MachineError(f"{path} cannot be written ({error}): name another file with --out") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return document


def _gather(
    archive: zipfile.ZipFile,
    parts: Iterable[ArchivePart],
    redactor: Redactor,
    note: Callable[[str], None],
    clock_s: Callable[[], float],
) -> Contents:
    contents, begun_s = Contents(), clock_s()
    for part in parts:
        name = redactor.redact(part.name)
        if refusal := contents.refusal(clock_s() - begun_s):
            contents = contents.lack(name, refusal)
            continue
        note(name)
        try:
            found = part.read(contents.bytes_left)
            text = found.text if part.is_redacted else redactor.redact(found.text)
            kept = newest_lines(text, contents.bytes_left)
        except Exception as error:  # any: an incident's file must not lack all parts because of one
            contents = contents.lack(name, f"{type(error).__name__}: {error}")
            continue
        data = kept.text.encode()
        _add(archive, name, data)
        contents = contents.add(name, len(data), found.left_out_bytes + kept.left_out_bytes)
    return contents


def _document(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    # Without the names and times of this machine's files.
    archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL | os.O_NOFOLLOW, _ONLY_OWNER)
