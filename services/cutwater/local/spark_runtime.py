"""The environment that a process needs to start Spark: Java, Python, a shell, an archive of Spark's classes.

`python -m cutwater.local.spark_runtime FILE` writes the archive of Spark's classes
(`cutwater_spark.tools.classes`). With `expressions` in place of a file it checks those of a job file
(`cutwater_spark.tools.expressions`), with `transform JOB_FILE` its function
(`cutwater_spark.tools.transform_check`).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from cutwater.adapters.runtime.cache_folder import cache_dir
from cutwater.core.errors import MachineError
from cutwater.local.jar_lock import lock_path
from cutwater.local.jars import SPECS, jars
from cutwater.local.java import find_java, java_home
from cutwater.local.processes.class_archives import archive_path, usable

CLASSES_SECONDS_MAX = 600
CLASSES = "CUTWATER_SPARK_CLASSES"
CHECKS = {"expressions": "cutwater_spark.tools.expressions", "transform": "cutwater_spark.tools.transform_check"}


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
    command = [sys.executable, "-m", "cutwater_spark.tools.classes", str(archive), *map(str, jars("spark"))]
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
    """Return the file of this Java, the installed Spark and the connectors' jars; it may not exist."""
    lock = lock_path(SPECS / "spark.toml").read_text(encoding="utf-8")
    return archive_path(java, version("pyspark"), sys.prefix, lock)


def found_archive(java: Path) -> str:
    """Return the path of the archive; empty if there is none, or if Spark cannot pass the path, for a blank."""
    return str(path) if usable(path := archive_of(java)) else ""


def become_check(module: str, arguments: list[str]) -> NoReturn:
    """Become a check of a job file by Spark. Raise MachineError as `spark_environment`."""
    command = [sys.executable, "-m", module, *arguments]
    found = {**os.environ, **spark_environment()}
    if not found.get(CLASSES):
        found[CLASSES] = found_archive(find_java())
    os.execve(command[0], command, found)  # noqa: S606  (a shell is not wanted)


if __name__ == "__main__":
    try:
        if check := CHECKS.get(sys.argv[1]):
            become_check(check, sys.argv[2:])
        write_classes(Path(sys.argv[1]).absolute())
    except MachineError as error:
        sys.exit(f"error: {error}")
