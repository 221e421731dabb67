"""Which jars stand on Java's class path: those that an archive of classes was made with. It fits no other path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def jars_file(archive: Path) -> Path:
    """Return the file beside an archive that lists these jars, one a line."""
    return archive.with_name(f"{archive.name}.jars")


def jars_of(archive: str) -> list[str]:
    """Return the jars that an archive was made with, in its order; none without an archive."""
    if not archive:
        return []
    listed = jars_file(Path(archive))
    return listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []


def class_path(archive: str, jars: Sequence[str]) -> list[str]:
    """Return those of a driver's jars that belong on the class path. The others are Spark's to load.

    These are all that the archive was made with, or none if the driver lacks one of them.
    """
    made_with = jars_of(archive)
    return made_with if set(made_with) <= set(jars) else []
