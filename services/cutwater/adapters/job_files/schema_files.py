"""Schema files in folders: the versions of a family, and the same files at another commit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from cutwater.adapters.avro.codec import check_schema, crc64, load_schema
from cutwater.core.errors import MachineError, UsageError
from cutwater.core.events.schema_versions import NEWEST, SchemaFile, place

FILES_MAX = 1_000
GIT_SECONDS_MAX = 60.0


def schema_files(folder: Path) -> list[SchemaFile]:
    """Return every schema of a folder; raises UsageError naming an invalid file."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    paths = sorted(folder.glob("*.avsc"))
    if len(paths) > FILES_MAX:
        raise UsageError(f"{folder}: more than {FILES_MAX:,} schemas; name a folder with fewer")
    return [_file(path) for path in paths]


def older_versions(path: Path) -> list[SchemaFile]:
    """Return the earlier versions beside a newest schema file, latest first."""
    placed = place(path.name)
    if placed is None or placed[1] != NEWEST:
        return []
    beside = [one for one in path.parent.glob("*.avsc") if (place(one.name) or ("", NEWEST))[0] == placed[0]]
    found = [_file(one) for one in beside[:FILES_MAX] if one.name != path.name]
    return sorted(found, key=lambda one: -one.version)


def schema_files_at(folder: Path, ref: str) -> list[SchemaFile]:
    """Return the schemas of a folder at a commit of its git repository.

    Raises UsageError if `ref` is no commit or holds no schema there; MachineError without git.
    """
    if ref.startswith("-"):
        raise UsageError(f"'{ref}' is no commit")
    names = [name for name in _git(folder, "ls-tree", "--name-only", ref, "--", ".").splitlines() if place(name)]
    if not names:
        raise UsageError(f"{folder} holds no schemas at {ref}")
    found = []
    for name in names[:FILES_MAX]:
        text = _git(folder, "show", f"{ref}:./{name}")
        try:
            schema = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{ref}:{name}: not an Avro schema: {error!r:.300}") from None
        found.append(_described(name, check_schema(schema, f"{ref}:{name}")))
    return found


def _file(path: Path) -> SchemaFile:
    return _described(path.name, load_schema(path))


def _described(name: str, schema: dict[str, object]) -> SchemaFile:
    family, version = place(name) or (name, NEWEST)
    return SchemaFile(name, family, version, schema, crc64(schema).hex())


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS_MAX,
            check=False,
        )
    except FileNotFoundError:
        raise MachineError("git is not installed; compare with a folder instead: --against FOLDER") from None
    except subprocess.TimeoutExpired:
        raise MachineError(f"git did not answer within {GIT_SECONDS_MAX:.0f} s in {folder}") from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UsageError(f"git in {folder}: {reason}")
    return done.stdout
