"""Faults on real processes: each happens, and is over when it should be."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cutwater.core.chaos.plan import FULL_DISK, KILL, SLOW, STOP, Fault
from cutwater.core.errors import UnavailableError
from cutwater.local.chaos.faults import make_fault
from cutwater.local.chaos.span import Span
from support.file_writer import size, wait_for_bytes, writing

WRITER = """
import sys, time
failed = 0
with open(sys.argv[1], "ab", buffering=0) as file:
    while True:
        try:
            file.write(b"x")
            if failed:
                open(sys.argv[1] + ".error", "w").write(str(failed))
                failed = 0
        except OSError as error:
            failed = error.errno
        time.sleep(0.01)
"""
"""Appends a byte every ten milliseconds. If it could not, it notes the error as soon as it can."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "written"


@pytest.fixture
def writer(file: Path) -> Iterator[psutil.Process]:
    yield from writing(WRITER, file)


def made(fault: Fault, process: psutil.Process) -> int:
    span = Span(time.monotonic() + fault.for_s, threading.Event())
    return make_fault(fault, lambda: [process] if process.is_running() else [], span)


def test_a_kill_ends_the_process(writer: psutil.Process) -> None:
    assert made(Fault(KILL, "watch", 0), writer) == 1
    assert writer.wait(10) == -9 or not writer.is_running()


def test_a_stopped_process_does_nothing_and_goes_on(writer: psutil.Process, file: Path) -> None:
    sizes: list[int] = []

    def find() -> list[psutil.Process]:
        return [writer]

    began = time.monotonic()
    writer.suspend()
    before = size(file)
    writer.resume()
    assert make_fault(Fault(STOP, "watch", 0, 1), find, Span(began + 1, threading.Event())) == 1
    assert time.monotonic() - began >= 1
    sizes.append(size(file))
    assert sizes[0] - before < 50, "at most what it wrote between two lines of this test"
    wait_for_bytes(file, sizes[0] + 20)


def test_a_slow_process_goes_on_slowly(writer: psutil.Process, file: Path) -> None:
    before = size(file)
    assert made(Fault(SLOW, "watch", 0, 2.2), writer) == 1
    assert 1 <= size(file) - before < 110, "half of what it writes without the fault"
    wait_for_bytes(file, size(file) + 20)


def test_a_full_disk_fails_writes_and_has_room_again(writer: psutil.Process, file: Path) -> None:
    limits = writer.rlimit(psutil.RLIMIT_FSIZE)
    assert made(Fault(FULL_DISK, "watch", 0, 1), writer) == 1
    assert writer.rlimit(psutil.RLIMIT_FSIZE) == limits
    wait_for_bytes(file, size(file) + 20)
    assert (file.parent / "written.error").read_text() == "27", "EFBIG"


def test_a_fault_on_nobody_is_an_error() -> None:
    with pytest.raises(UnavailableError, match="driver does not run"):
        make_fault(Fault(KILL, "driver", 3), list, Span(0.0, threading.Event()))


@pytest.mark.parametrize("kind", [STOP, SLOW, FULL_DISK])
def test_a_run_that_is_ended_leaves_no_fault(writer: psutil.Process, file: Path, kind: str) -> None:
    """As by Ctrl-C: the process goes on at once, and not when the fault would be over."""
    ended = threading.Event()
    fault = Fault(kind, "watch", 0, 600)
    thread = threading.Thread(
        target=make_fault, args=(fault, lambda: [writer], Span(time.monotonic() + 600, ended))
    )
    thread.start()
    time.sleep(0.3)
    ended.set()
    thread.join(10)
    assert not thread.is_alive()
    wait_for_bytes(file, size(file) + 20)


PARENT = """
import subprocess, sys, time
time.sleep(0.5)
subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"])
"""


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_process_that_is_started_on_a_full_disk_has_room_again(is_seen: bool) -> None:
    """It inherits the limit of the one that starts it, whose own is set back."""
    with subprocess.Popen([sys.executable, "-c", PARENT]) as child:
        parent = psutil.Process(child.pid)
        limits = parent.rlimit(psutil.RLIMIT_FSIZE)
        span = Span(time.monotonic() + 1.2, threading.Event())

        def find() -> list[psutil.Process]:
            return [parent, *(parent.children() if is_seen or span.is_over else ())]

        make_fault(Fault(FULL_DISK, "watch", 0, 1.2), find, span)
        (started,) = parent.children()
        try:
            assert (parent.rlimit(psutil.RLIMIT_FSIZE), started.rlimit(psutil.RLIMIT_FSIZE)) == (limits, limits)
        finally:
            started.kill()
            child.kill()
