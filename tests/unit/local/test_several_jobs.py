"""Several jobs in one stack: which can run together, in which folders, and that one ends without the others."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.cli.options import find_job
from cutwater.cli.state.repair import MODULE, _rehydrators
from cutwater.core.errors import CutwaterError, UsageError
from cutwater.local import running_file
from cutwater.local.jobs.job_files import is_of_one, job_folders, require_shareable
from cutwater.local.jobs.jobs_stack import JobsStack
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy
from cutwater.local.processes.supervisor import Supervised, Supervisor
from cutwater.local.running_file import RunningStack
from support.harness import wait_until
from support.views.changelogs import make_job


def running(folder: Path, job: str, job_file: str = "job.yaml", **fields: Any) -> RunningStack:
    """A job of this process, as if it were a stack."""
    folder.mkdir(parents=True, exist_ok=True)
    pid, started = running_file.describe_self()
    made = RunningStack(
        pid=pid,
        started=started,
        ready=True,
        job_file=job_file,
        job=job,
        generation="g1-local-00000000",
        bootstrap_servers="127.0.0.1:1",
        api_url="http://127.0.0.1:2",
        spark_ui_url="",
        data_dir=str(folder),
        logs={},
    )
    made = replace(made, **fields)
    made.write()
    return made


def test_one_job_has_the_data_folder_itself(tmp_path: Path) -> None:
    """As before there were several, and its file is that of before."""
    _, file = make_job(tmp_path)
    found = job_folders([file], tmp_path)
    assert [one.folder for one in found] == [tmp_path]
    assert is_of_one(found, tmp_path)


def test_each_of_several_jobs_has_its_folder_and_keeps_it(tmp_path: Path) -> None:
    """Also when it is later started alone: else its state would be looked for elsewhere."""
    (one, first), (other, second) = make_job(tmp_path), make_job(tmp_path)
    found = job_folders([first, second], tmp_path)
    assert [each.folder for each in found] == [tmp_path / "jobs" / one.name, tmp_path / "jobs" / other.name]
    found[1].folder.mkdir(parents=True)
    alone = job_folders([second], tmp_path)
    assert [each.folder for each in alone] == [found[1].folder]
    assert not is_of_one(alone, tmp_path)


def test_a_job_that_ran_alone_keeps_its_folder_among_several(tmp_path: Path) -> None:
    """Two of them cannot share the folder: they would write one file."""
    (one, first), (other, second) = make_job(tmp_path), make_job(tmp_path)
    (tmp_path / "checkpoints" / one.name).mkdir(parents=True)
    found = job_folders([first, second], tmp_path)
    assert [each.folder for each in found] == [tmp_path, tmp_path / "jobs" / other.name]
    (tmp_path / "views" / other.name).mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot run there together"):
        job_folders([first, second], tmp_path)


def test_what_cannot_run_together_is_refused(tmp_path: Path) -> None:
    """One name twice, an output as if it were events, too many files, and settings of one job."""
    (one, first), (_, second) = make_job(tmp_path), make_job(tmp_path)
    twice = tmp_path / "twice.yaml"
    twice.write_text(first.read_text())
    with pytest.raises(UsageError, match=f"both of job {one.name}"):
        job_folders([first, second, twice], tmp_path)
    reads = tmp_path / "reads.yaml"
    text = second.read_text()
    topic = next(line for line in text.splitlines() if "topic:" in line).split("topic:")[1].split(",")[0].strip()
    reads.write_text(text.replace(topic, f"{one.name}.output"))
    with pytest.raises(UsageError, match=f"is the output of job {one.name}"):
        job_folders([first, reads], tmp_path)
    with pytest.raises(UsageError, match="at most 50"):
        job_folders([first] * 51, tmp_path)
    require_shareable(Settings())
    with pytest.raises(UsageError, match="CUTWATER_PEERS"):
        require_shareable(Settings(peers="http://a:1,http://b:1"))


def test_of_several_jobs_one_must_be_named(tmp_path: Path) -> None:
    """By its name or by its file; the message says which there are."""
    (one, first), (other, second) = make_job(tmp_path), make_job(tmp_path)
    for job, file in ((one, first), (other, second)):
        running(tmp_path / "jobs" / job.name, job.name, str(file))
    names = ", ".join(sorted([one.name, other.name]))
    with pytest.raises(UsageError, match=f"several jobs run on .*: {names}. Name one with --job"):
        running_file.require(tmp_path)
    assert running_file.require(tmp_path, other.name).job == other.name
    assert find_job(None, None, tmp_path, one.name).settings.data_dir == tmp_path / "jobs" / one.name
    assert find_job(second, None, tmp_path).job.name == other.name
    with pytest.raises(UsageError, match=rf"job no-such does not run on .*, but {names}"):
        running_file.require(tmp_path, "no-such")
    assert running_file.require(tmp_path / "jobs" / one.name).job == one.name


def test_a_job_that_has_ended_is_told_as_long_as_others_run(tmp_path: Path) -> None:
    """It is not chosen, and its error is in the answer to who asks for it."""
    running(tmp_path / "jobs" / "a", "a")
    running(tmp_path / "jobs" / "b", "b", ready=False, ended="2026-01-01T00:00:00Z: no disk")
    assert [(one.job, bool(one.ended)) for one in running_file.stacks(tmp_path)] == [("a", False), ("b", True)]
    assert running_file.require(tmp_path).job == "a"
    with pytest.raises(UsageError, match=r"job b does not run on .*, but a\. An error has ended .*no disk"):
        running_file.require(tmp_path, "b")


def test_a_file_of_one_job_has_the_fields_of_before(tmp_path: Path) -> None:
    """An earlier version reads it: it refuses fields that it does not know."""
    running(tmp_path, "a")
    assert set(json.loads((tmp_path / "stack.json").read_text())) == {
        *("pid", "started", "ready", "job_file", "job", "generation", "bootstrap_servers", "api_url"),
        *("spark_ui_url", "data_dir", "logs", "security_protocol", "watch_url", "snapshots", "program"),
        *("metrics", "spark_uis", "key_columns", "failures", "ended"),
    }


def test_a_repair_restarts_the_rehydrator_of_its_job_alone(tmp_path: Path) -> None:
    """All jobs' processes are below the one process."""
    sleep = [sys.executable, "-c", "import time; time.sleep(60)", MODULE]
    mine, others = (subprocess.Popen([*sleep, f"{name}.yaml"]) for name in ("mine", "others"))
    try:
        stack = running(tmp_path, "mine", "mine.yaml")
        wait_until(lambda: [one.pid for one in _rehydrators(stack)] == [mine.pid], 20)
        assert _rehydrators(replace(stack, job_file="none.yaml")) == []
    finally:
        for process in (mine, others):
            process.kill()
            process.wait()


class JobProcess:
    """A job whose only process sleeps, or ends for good at a word."""

    def __init__(self, folder: Path, name: str) -> None:
        self.data_dir, self.job = folder / "jobs" / name, SimpleNamespace(name=name)
        self.fails = folder / f"{name}.fails"
        code = f"import os,sys,time\nwhile not os.path.exists({str(self.fails)!r}): time.sleep(0.02)\nsys.exit(2)"
        self.child = Child(name, [sys.executable, "-c", code], {}, folder / f"{name}.log", RestartPolicy())
        self.supervisor = Supervisor([Supervised(self.child)])
        self.described = running(self.data_dir, name)

    def describe(self) -> RunningStack:
        return self.described

    def prepare(self) -> None:
        """Nothing to create."""

    def close(self) -> None:
        """No connection."""

    @property
    def lives(self) -> bool:
        return self.child.poll() is None


class Jobs:
    """Two such jobs, supervised in a thread."""

    def __init__(self, folder: Path, together: bool) -> None:
        self.folder, self.said = folder, list[str]()
        self.one, self.other = (JobProcess(folder, name) for name in ("one", "other"))
        stacks: Any = [self.one, self.other]
        self.stack = JobsStack(stacks, (), folder, self.said.append, together)
        self.stop = threading.Event()
        self.error: CutwaterError | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            with self.stack.start(self.stop) as found:
                assert found is not None
                assert [one.job for one in found] == ["one", "other"]
                self.stack.run(self.stop)
        except CutwaterError as error:
            self.error = error

    def jobs(self) -> list[tuple[str, bool]]:
        return [(one.job, bool(one.ended)) for one in running_file.stacks(self.folder)]


@contextmanager
def started(folder: Path, together: bool = False) -> Iterator[Jobs]:
    jobs = Jobs(folder, together)
    jobs.thread.start()
    try:
        wait_until(lambda: jobs.one.child.pid and jobs.other.child.pid and jobs.other.lives, 20)
        yield jobs
    finally:
        jobs.stop.set()
        jobs.thread.join(30)


def test_a_job_that_ends_for_good_ends_alone(tmp_path: Path) -> None:
    """Its error is in its file and reported; the end of the last one is the stack's."""
    with started(tmp_path) as jobs:
        jobs.one.fails.touch()
        wait_until(lambda: jobs.jobs() == [("one", True), ("other", False)], 20)
        assert jobs.other.lives
        assert ["The other jobs continue" in line and "job one has ended" in line for line in jobs.said] == [True]
        jobs.other.fails.touch()
        jobs.thread.join(20)
        assert not jobs.thread.is_alive()
        assert "other ended with exit code 2" in str(jobs.error)
    kept = json.loads((tmp_path / "jobs/one/stack.json").read_text())
    assert "one ended with exit code 2" in kept["ended"]


def test_together_the_end_of_one_ends_all(tmp_path: Path) -> None:
    """No process is left, and the error is the one's."""
    with started(tmp_path, together=True) as jobs:
        jobs.one.fails.touch()
        jobs.thread.join(20)
        assert "one ended with exit code 2" in str(jobs.error)
        assert not jobs.other.lives


def test_one_job_is_stopped_by_its_file(tmp_path: Path) -> None:
    """As `down --job` does; the others continue, and a later start is not stopped by the same request."""
    with started(tmp_path) as jobs:
        running_file.require(tmp_path, "one").stop_job()
        wait_until(lambda: not jobs.one.lives, 20)
        assert jobs.jobs() == [("other", False)]
        time.sleep(0.3)
        assert jobs.other.lives
        assert not (tmp_path / "jobs/one/stop").exists()
    assert jobs.error is None
    assert jobs.jobs() == []
