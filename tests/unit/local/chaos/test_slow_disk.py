"""A slow disk, made by strace on a real process. Without strace, or where it is not allowed, these are skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cutwater.core.chaos.plan import SLOW_DISK, Fault
from cutwater.core.errors import MachineError
from cutwater.local.chaos import slow_disk as module
from cutwater.local.chaos.slow_disk import require_tracer, slow_disk, trace_command, tracer_of
from cutwater.local.chaos.span import Span
from support.file_writer import size, wait_for_bytes, writing

SYNCER = """
import os, sys
with open(sys.argv[1], "ab", buffering=0) as file:
    while True:
        file.write(b"x")
        os.fsync(file.fileno())
"""
"""Appends a byte, and syncs it before the next one."""
STRACE = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "written"


@pytest.fixture
def syncer(file: Path) -> Iterator[psutil.Process]:
    yield from writing(SYNCER, file)


def make(process: psutil.Process, by_s: float, for_s: float, ended: threading.Event | None = None) -> int:
    fault = Fault(SLOW_DISK, "watch", 0, for_s, by_s)
    span = Span(time.monotonic() + for_s, ended or threading.Event())
    try:
        return slow_disk(fault, lambda: [process] if process.is_running() else [], span)
    except MachineError as error:
        pytest.skip(str(error))


@STRACE
def test_each_sync_takes_at_least_the_delay(syncer: psutil.Process, file: Path) -> None:
    """No more syncs than delays fit into the time, and as many as ever behind it."""
    counted: list[int] = []
    looking = threading.Thread(target=lambda: (time.sleep(1.0), counted.append(size(file))))
    looking.start()
    assert make(syncer, 0.1, 3.0) == 1
    looking.join()
    between = size(file) - counted[0]
    assert between < 60, "in two seconds at most twenty, and what is written once strace has gone"
    assert tracer_of(syncer.pid) == 0
    before = size(file)
    wait_for_bytes(file, before + 100)


@STRACE
def test_a_run_that_is_ended_releases_the_process(syncer: psutil.Process, file: Path) -> None:
    ended = threading.Event()
    threading.Timer(0.7, ended.set).start()
    began = time.monotonic()
    make(syncer, 0.05, 600, ended)
    assert time.monotonic() - began < 60
    assert tracer_of(syncer.pid) == 0
    wait_for_bytes(file, size(file) + 50)


@STRACE
def test_a_process_that_strace_may_not_trace_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Here one that is traced already, by somebody else."""
    scope = tmp_path / "scope"
    scope.write_text("1\n")
    monkeypatch.setattr(module, "_YAMA", scope)
    monkeypatch.setattr(module, "tracer_of", lambda _pid: 0)
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(sleeper) as child, subprocess.Popen(trace_command([child.pid], 0.01, 30)) as other:
        deadline = time.monotonic() + 20
        while not tracer_of(child.pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        try:
            fault = Fault(SLOW_DISK, "watch", 0, 5, 0.05)
            with pytest.raises(MachineError, match="ptrace_scope") as error:
                slow_disk(
                    fault, lambda: [psutil.Process(child.pid)], Span(time.monotonic() + 5, threading.Event())
                )
            assert "strace ended" in str(error.value)
        finally:
            other.terminate()
            child.kill()


def test_a_machine_without_strace_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(MachineError, match="apt install strace"):
        require_tracer()


def test_the_command_ends_by_itself_and_knows_each_process() -> None:
    command = trace_command([7, 8], 0.05, 12.5)
    assert command[:4] == ["timeout", "--signal=INT", "--kill-after=5", "12.5"]
    assert [command[number + 1] for number, word in enumerate(command) if word == "-p"] == ["7", "8"]
    assert any(word.startswith("inject=") and word.endswith(":delay_enter=50000") for word in command)
    assert not any("write," in f"{word}," and "pwrite" not in word for word in command), "sockets are written, too"
