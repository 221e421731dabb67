"""The frame of a process: errors that nobody foresaw, and what it leaves on the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.views.changelogs import make_job

SERVICE = """
import os, sys
from cutwater.operations.service_main import run_service

def build(*_):
    open("written", "w")
    raise LookupError("nobody thought of this")

sys.exit(run_service("watch", build, found=lambda job, settings, log: (job, settings)))
"""
VERB = """
import sys
from cutwater.cli import main
def app():
    raise LookupError("nobody thought of this")
main.app = app
main.main()
"""


def ended(code: str, folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """With the umask that most people have."""
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        umask=0o022,
    )


@pytest.mark.parametrize("log_json", ["false", "true"])
def test_what_nobody_foresaw_is_no_finding_of_a_check(tmp_path: Path, log_json: str) -> None:
    """A service ends with a code of its own and tells all of it; what it wrote is not for everybody."""
    _, job_file = make_job(tmp_path)
    done = ended(SERVICE, tmp_path, str(job_file), CUTWATER_LOG_JSON=log_json)
    assert done.returncode == 70
    assert "nobody thought of this" in done.stdout + done.stderr
    assert "in build" in done.stdout + done.stderr
    assert ("Traceback" in done.stderr) == (log_json == "false")
    assert (tmp_path / "written").stat().st_mode & 0o777 == 0o640


def test_a_verb_ends_so_too(tmp_path: Path) -> None:
    done = ended(VERB, tmp_path)
    assert done.returncode == 70
    assert "LookupError: nobody thought of this" in done.stderr
