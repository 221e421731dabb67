"""Where a verb looks for a job: at named brokers with its job file, else at the running stack."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cutwater.cli.options import find_job
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.local import running_file
from cutwater.local.running_file import RunningStack
from support.views.changelogs import make_job


@pytest.fixture
def stack(tmp_path: Path) -> RunningStack:
    """This process, as if it were a stack."""
    job, file = make_job(tmp_path)
    pid, started = running_file.describe_self()
    one = RunningStack(
        pid=pid,
        started=started,
        ready=True,
        job_file=str(file),
        job=job.name,
        generation="g1-local-00000000",
        bootstrap_servers="127.0.0.1:1",
        api_url="http://127.0.0.1:2",
        spark_ui_url="",
        data_dir=str(tmp_path),
        logs={},
    )
    one.write()
    return one


def test_a_stack_knows_its_brokers_and_its_job(stack: RunningStack, tmp_path: Path) -> None:
    """The settings name its brokers and its folder, so whoever takes them looks at the same place."""
    found = find_job(None, None, tmp_path)
    assert (found.job.name, found.cluster.bootstrap, found.settings.cluster) == (
        stack.job,
        stack.bootstrap_servers,
        stack.cluster,
    )
    assert (found.settings.data_dir, found.stack, str(found.job_file)) == (tmp_path, stack, stack.job_file)
    replace(stack, ready=False).write()
    with pytest.raises(UnavailableError, match="is starting"):
        find_job(None, None, tmp_path)


def test_named_brokers_count_before_a_stack(stack: RunningStack, tmp_path: Path) -> None:
    """With the job file, which nothing else would name."""
    _, other = make_job(tmp_path / "other")
    found = find_job(other, "127.0.0.1:3", tmp_path)
    assert (found.cluster.bootstrap, found.job.name, found.stack) == ("127.0.0.1:3", other.stem, None)
    with pytest.raises(UsageError, match="needs the job file"):
        find_job(None, "127.0.0.1:3", tmp_path)


def test_nowhere_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cutwater up"):
        find_job(None, None, tmp_path / "empty")
