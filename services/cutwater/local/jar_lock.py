"""Lock files of jar sets: the jars of a jgo specification, each with its SHA-256.

`python -m cutwater.local.jar_lock SPEC.toml` resolves a specification and writes `SPEC.lock.toml` beside it.
Maintainers run it after a version change. No Maven is needed.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutwater.core.errors import MachineError

DOWNLOAD_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class LockedJar:
    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str
    size: int = 0
    """In bytes; 0 if the lock file has no size."""

    @property
    def coordinate(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}" + (f":{self.classifier}" if self.classifier else "")

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}" + (f"-{self.classifier}" if self.classifier else "") + ".jar"


def lock_path(spec: Path) -> Path:
    return spec.with_name(f"{spec.stem}.lock.toml")


def read_lock(path: Path) -> list[LockedJar]:
    """Read the jars of a lock file. Each must have a SHA-256."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["dependencies"]
        return [
            LockedJar(
                e["groupId"], e["artifactId"], e["version"], e.get("classifier", ""), e["sha256"], e.get("size", 0)
            )
            for e in entries
        ]
    except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
        raise MachineError(
            f"The lock file {path} is missing or damaged ({error!r}): reinstall Cutwater, "
            f"or recreate it with 'python -m cutwater.local.jar_lock {path.name.replace('.lock', '')}'"
        ) from error


def write_lock(spec: Path) -> Path:
    _resolve(spec)
    _add_sizes(lock_path(spec))
    return lock_path(spec)


def _resolve(spec: Path) -> None:
    from jgo.env import EnvironmentBuilder, EnvironmentSpec
    from jgo.env._lockfile import LockFile
    from jgo.maven import MavenContext

    with tempfile.TemporaryDirectory() as temp:
        context = MavenContext(repo_cache=Path(temp), timeout=DOWNLOAD_TIMEOUT_SECONDS)
        wanted = EnvironmentSpec.load(spec)
        if wanted.exclusions == ["*:*"]:
            # The listed jars are the whole set, so no POM is read: jgo cannot read those of the AWS SDK.
            LockFile([_locked(context, one) for one in wanted.coordinates], wanted.name).save(lock_path(spec))
            return
        roots = EnvironmentBuilder(context, cache_dir=Path(temp)).spec_to_dependencies(wanted)
        inputs, transitive = context.resolver.resolve(roots)
        kept = [*inputs, *(d for d in transitive if d.scope in ("compile", "runtime"))]
        LockFile.from_resolved_dependencies(kept, environment_name=wanted.name).save(lock_path(spec))


def _add_sizes(path: Path) -> None:
    """Add each jar's size beside its hash, for the progress of downloads. jgo's files have none."""
    from jgo.maven import MavenContext

    text = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as temp:
        context = MavenContext(repo_cache=Path(temp), timeout=DOWNLOAD_TIMEOUT_SECONDS)
        for jar in read_lock(path):
            line = f'sha256 = "{jar.sha256}"\n'
            text = text.replace(line, f"{line}size = {_file(context, jar.coordinate).stat().st_size}\n")
    path.write_text(text, encoding="utf-8")


def _file(context: Any, coordinate: str) -> Path:
    group, artifact, version, *classifier = coordinate.split(":")
    return Path(context.project(group, artifact).at_version(version).artifact(*classifier).resolve())


def _locked(context: Any, coordinate: str) -> Any:
    from jgo.env._lockfile import LockedDependency

    group, artifact, version, *classifier = coordinate.split(":")
    digest = hashlib.sha256(_file(context, coordinate).read_bytes()).hexdigest()
    return LockedDependency(group, artifact, version, classifier=next(iter(classifier), None), sha256=digest)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(write_lock(Path(argument)))
