"""The file of a stack that seems to run: this process, with an API that a test serves."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from cutwater.local.running_file import RunningStack
from support.views.changelogs import GENERATION


def write_stack(
    folder: Path,
    url: str,
    key_columns: list[str] | None = None,
    job_file: str = "job.yaml",
    bootstrap: str = "127.0.0.1:9",
    job: str = "job",
) -> None:
    """Write the file to `folder`. `url`: the API's address."""
    RunningStack(
        pid=os.getpid(),
        started=psutil.Process().create_time(),
        ready=True,
        job_file=job_file,
        job=job,
        generation=str(GENERATION),
        bootstrap_servers=bootstrap,
        api_url=url,
        spark_ui_url="",
        data_dir=str(folder),
        logs={},
        key_columns=key_columns,
    ).write()
