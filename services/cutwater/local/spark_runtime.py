"""The environment that a process needs to start Spark: Java, Python, a shell, an archive of Spark's classes.

An archive fits one Java and one Spark, so each pair has its own file in the cache.

`python -m cutwater.local.spark_runtime FILE` writes the archive of Spark's classes
(`cutwater_spark.tools.classes`).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from cutwater.core.errors import MachineError
from cutwater.local.java import java_home
from cutwater.local.machine.download_cache import cache_dir
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy

CLASSES_SECONDS_MAX = 600
IDLE = 19
"""The niceness of the writer: a stack that has just started comes first."""


def spark_environment(java: Path | None = None) -> dict[str, str]:
    """Return the variables by which Spark's scripts find the Java and the Python that run here.

    Spark is started by bash scripts. If PATH has no bash, the system's folders are appended. Raise MachineError if
    there is no Java, or no bash.
    """
    found = {"JAVA_HOME": java_home(java), "PYSPARK_PYTHON": sys.executable, **_configuration()}
    path = os.environ.get("PATH", os.defpath)
    if shutil.which("bash", path=path):
        return found
    if not shutil.which("bash", path=os.defpath):
        raise MachineError("Spark is started by bash scripts, and there is no bash: install bash")
    return {**found, "PATH": f"{path}{os.pathsep}{os.defpath}"}


def _configuration() -> dict[str, str]:
    """Return an empty folder for Spark's configuration, if there is none.

    It is the first entry of Spark's class path. Java 21 takes no archive of classes if an entry does not exist.
    """
    if "SPARK_CONF_DIR" in os.environ or "SPARK_HOME" in os.environ or _has_configuration():
        return {}
    folder = cache_dir() / "spark-conf"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return {}  # drivers start slower
    return {"SPARK_CONF_DIR": str(folder)}


def _has_configuration() -> bool:
    spark = importlib.util.find_spec("pyspark")
    return any((Path(folder) / "conf").is_dir() for folder in (spark and spark.submodule_search_locations) or ())


def write_classes(archive: Path) -> None:
    """Let Spark write the archive of its classes. Raise MachineError, with its last output, if that fails."""
    command = [sys.executable, "-m", "cutwater_spark.tools.classes", str(archive)]
    env = {**os.environ, **spark_environment()}
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, check=False, timeout=CLASSES_SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        raise MachineError(f"Spark wrote no archive of its classes within {CLASSES_SECONDS_MAX} s") from None
    if done.returncode:
        told = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
        raise MachineError(f"The archive of Spark's classes was not written to {archive}:\n{told}")


def archive_of(java: Path) -> Path:
    """Return the file of this Java and the installed Spark; it may not exist."""
    home = java.resolve().parent.parent
    release = home / "release"
    told = release.read_text("utf-8") if release.is_file() else ""
    name = sha256(f"{home}\n{told}\n{version('pyspark')}\n{sys.prefix}".encode()).hexdigest()[:16]
    return cache_dir() / "classes" / f"{name}.jsa"


def found_archive(java: Path) -> str:
    """Return the path of the archive; empty if there is none, or if Spark cannot pass the path, for a blank."""
    path = archive_of(java)
    return str(path) if path.is_file() and " " not in str(path) else ""


@contextmanager
def archive_written(java: Path, logs: Path) -> Iterator[None]:
    """Write the archive meanwhile, if there is none. The end of the block ends an unfinished writer."""
    path = archive_of(java)
    command = [sys.executable, "-m", "cutwater.local.spark_runtime", str(path)]
    log = logs / "spark-classes.log"
    writer = Child("spark-classes", command, spark_environment(java), log, RestartPolicy(1, 1.0), niceness=IDLE)
    if not path.exists() and " " not in str(path):
        writer.start()
    try:
        yield
    finally:
        writer.kill()


if __name__ == "__main__":
    try:
        write_classes(Path(sys.argv[1]).absolute())
    except MachineError as error:
        sys.exit(f"error: {error}")
