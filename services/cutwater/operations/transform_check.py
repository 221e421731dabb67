"""A check of the function of `source.transform`, by Spark in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from cutwater.core.checks.findings import Finding, error, ok, skipped, warning
from cutwater.core.job.job import Job

CHECKER = ("cutwater.local.spark_runtime", "transform")
TIMEOUT_S = 300
_CHECK = "transform"
_REFUSED = 2


def check_transform(job: Job, job_file: Path) -> Finding | None:
    """Return whether a driver can use the job's function; None without one."""
    if job.transform is None:
        return None
    if find_spec("pyspark") is None:
        return skipped(_CHECK, "Spark is not installed here", "run doctor where the driver runs")
    command = [sys.executable, "-m", *CHECKER, str(job_file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return warning(_CHECK, f"Spark has no answer after {TIMEOUT_S} s", "the machine may be busy: try again")
    if done.returncode == 0:
        return ok(_CHECK, f"{job.transform.function} can be used")
    said = done.stderr.strip().splitlines() or ["no reason given"]
    if done.returncode == _REFUSED:
        return error(_CHECK, said[-1], "correct the function or the file; docs/JOBFILE.md says what is allowed")
    return warning(_CHECK, f"Spark does not run: {said[-1][:300]}", "see the checks of Java above")
