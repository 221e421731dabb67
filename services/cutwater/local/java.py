"""Find a Java that is new enough for Kafka and Spark, or say in one line what to install."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from cutwater.core.errors import MachineError

VERSION_TIMEOUT_SECONDS = 30.0


def find_java(minimum: int = 17) -> Path:
    """The `java` to run: JAVA_HOME's when it is set, otherwise the first on PATH.

    JAVA_HOME decides alone, since Spark's own launcher follows it too. MachineError: none found, or older
    than `minimum` (a major version, such as 17).
    """
    java, origin = _candidate(minimum)
    version = java_version(java)
    if version is None:
        raise MachineError(_advice(minimum, f"{java} ({origin}) does not run"))
    if version < minimum:
        raise MachineError(_advice(minimum, f"{java} ({origin}) is Java {version}"))
    return java


def parse_major_version(output: str) -> int | None:
    """The major version in what `java -version` prints: 17 for "17.0.15", 8 for "1.8.0_392"."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    if match is None:
        return None
    first = int(match[1])
    return int(match[2] or 0) if first == 1 else first


def _candidate(minimum: int) -> tuple[Path, str]:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise MachineError(_advice(minimum, f"JAVA_HOME is {home}, where there is no bin/java"))
        return java, "from JAVA_HOME"
    found = shutil.which("java")
    if found is None:
        raise MachineError(_advice(minimum, "none was found"))
    return Path(found), "from PATH"


def java_version(java: Path) -> int | None:
    """Its major version; None when it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_major_version(done.stderr + done.stdout) if done.returncode == 0 else None


def _advice(minimum: int, found: str) -> str:
    return (
        f"Java {minimum} or newer is needed and {found}: install OpenJDK {minimum}, for example "
        f"'apt-get install openjdk-{minimum}-jre-headless' or 'brew install openjdk@{minimum}', or set JAVA_HOME"
    )
