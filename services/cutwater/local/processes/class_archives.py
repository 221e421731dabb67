"""Archives of the classes that a JVM loads: with one, Spark and Kafka start in half the time.

An archive fits one Java and one class path, so each pair has its own file in the cache. Java ignores an archive
that does not fit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from cutwater.adapters.runtime.cache_folder import cache_dir
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy

SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""Options by which Java says nothing about an archive, as about one that does not fit."""
IDLE = 19
"""The niceness of the writer: a stack that has just started comes first."""


def archive_path(java: Path, *fits: str) -> Path:
    """Return the file for this Java and for `fits`, what it loads classes from; it may not exist."""
    home = java.resolve().parent.parent
    release = home / "release"
    told = release.read_text("utf-8") if release.is_file() else ""
    name = sha256("\n".join([str(home), told, *fits]).encode()).hexdigest()[:16]
    return cache_dir() / "classes" / f"{name}.jsa"


def usable(path: Path) -> bool:
    """Return whether the archive exists, under a name without a blank, which Spark could not pass on."""
    return path.is_file() and " " not in str(path)


def archive_options(path: Path) -> list[str]:
    """Return the options of a JVM that is to use the archive; none if it is not usable."""
    return [*SILENT, f"-XX:SharedArchiveFile={path}"] if usable(path) else []


@contextmanager
def archives_written(archives: Mapping[str, Path], environment: Mapping[str, str], logs: Path) -> Iterator[None]:
    """Let each module write its archive meanwhile, if there is none.

    The end of the block ends an unfinished writer.
    """
    writers = [
        _writer(module, path, environment, logs)
        for module, path in archives.items()
        if not path.exists() and " " not in str(path)
    ]
    for one in writers:
        one.start()
    try:
        yield
    finally:
        for one in writers:
            one.kill()


def _writer(module: str, path: Path, environment: Mapping[str, str], logs: Path) -> Child:
    name = f"classes-{module.rpartition('.')[2]}"
    command = [sys.executable, "-m", module, str(path)]
    return Child(name, command, dict(environment), logs / f"{name}.log", RestartPolicy(1, 1.0), niceness=IDLE)
