"""What a process that starts Spark needs of this machine: its Java, its Python, a shell.

`python -m cutwater.local.spark_runtime FILE` writes the archive of Spark's classes
(`cutwater_spark.tools.classes`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from cutwater.core.errors import MachineError
from cutwater.local.java import java_home

CLASSES_SECONDS_MAX = 600


def spark_environment(java: Path | None = None) -> dict[str, str]:
    """The variables by which Spark's scripts find the very Java and the very Python that run here.

    Spark is started by scripts for bash. If PATH does not lead to one, the system's folders are added behind it.
    MachineError: there is no Java, or no bash.
    """
    found = {"JAVA_HOME": java_home(java), "PYSPARK_PYTHON": sys.executable}
    path = os.environ.get("PATH", os.defpath)
    if shutil.which("bash", path=path):
        return found
    if not shutil.which("bash", path=os.defpath):
        raise MachineError("Spark is started by scripts for bash, and there is none: install bash")
    return {**found, "PATH": f"{path}{os.pathsep}{os.defpath}"}


def write_classes(archive: Path) -> None:
    """Have Spark write the archive of its classes. MachineError: it could not; its last words are in the error."""
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


if __name__ == "__main__":
    try:
        write_classes(Path(sys.argv[1]).absolute())
    except MachineError as error:
        sys.exit(f"error: {error}")
