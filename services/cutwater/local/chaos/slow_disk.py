"""A disk that seems slow to a process: each of its calls about a file is delayed, by strace.

Delayed are calls that open, sync, read or write at a place, rename, cut and delete. So is not a plain write: on a
slow disk, too, it ends in the kernel's memory at once. A process that is traced also has every other call a little
later, some microseconds each. strace needs no root for processes of its own user, unless the kernel forbids to
trace them (Yama).
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from cutwater.core.chaos.plan import Fault
from cutwater.core.errors import MachineError
from cutwater.local.chaos.span import Find, Span

CALLS = (
    *("open", "openat", "creat", "fsync", "fdatasync", "sync_file_range", "ftruncate", "fallocate"),
    *("pread64", "preadv", "pwrite64", "pwritev", "rename", "renameat", "renameat2"),
    *("unlink", "unlinkat", "mkdir", "mkdirat", "link", "linkat"),
)
LOOK_S = 0.2
ATTACH_S = 10.0
_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")


def require_tracer() -> None:
    """Raise MachineError if this machine has no strace."""
    if not (shutil.which("strace") and shutil.which("timeout")):
        raise MachineError(
            "a slow disk needs the program strace, which delays a process's calls about files, and it is not "
            "installed: install it (apt install strace), or leave slow_disk out of the plan"
        )


def trace_command(pids: Sequence[int], delay_s: float, longest_s: float) -> list[str]:
    """Return the command that delays these processes' calls. It ends by itself after `longest_s`."""
    names = ",".join(f"?{one}" for one in CALLS)
    delay = f"inject={names}:delay_enter={int(delay_s * 1_000_000)}"
    limits = ["timeout", "--signal=INT", "--kill-after=5", f"{longest_s:.1f}"]
    traced = [word for pid in pids for word in ("-p", str(pid))]
    return [*limits, "strace", "-qq", "-f", "-o", "/dev/null", "-e", f"trace={names}", "-e", delay, *traced]


def slow_disk(fault: Fault, find: Find, span: Span) -> int:
    """Delay the calls of the processes, and of those that are started meanwhile. Returns how many had it.

    Raises MachineError if they cannot be traced.
    """
    require_tracer()
    had: set[int] = set()
    tracers: list[subprocess.Popen[str]] = []
    try:
        while not span.is_over:
            fresh = _untraced(find())
            if fresh:
                command = trace_command(fresh, fault.by_s, span.rest_s + ATTACH_S)
                tracer = subprocess.Popen(
                    command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
                )
                tracers.append(tracer)
                had |= _wait_until_traced(tracer, fresh)
            span.rest(LOOK_S)
    finally:
        for one in tracers:
            _end(one)
    return len(had)


def tracer_of(pid: int) -> int:
    """Return the process that traces this one; 0 for none, and for a process that has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("TracerPid:"):
                return int(line.split()[1])
    return 0


def _untraced(processes: Iterable[psutil.Process]) -> list[int]:
    return [one.pid for one in processes if one.is_running() and not tracer_of(one.pid)]


def _wait_until_traced(process: subprocess.Popen[str], pids: Sequence[int]) -> set[int]:
    """Return the processes that are traced now. Raises MachineError if strace has ended without any."""
    deadline = time.monotonic() + ATTACH_S
    while process.poll() is None and time.monotonic() < deadline:
        traced = {pid for pid in pids if tracer_of(pid)}
        if traced and all(pid in traced or not psutil.pid_exists(pid) for pid in pids):
            return traced
        time.sleep(0.02)
    traced = {pid for pid in pids if tracer_of(pid)}
    if process.poll() is not None and not traced and any(map(psutil.pid_exists, pids)):
        raise MachineError(_refused(process.stderr.read() if process.stderr else ""))
    return traced


def _refused(said: str) -> str:
    scope = _YAMA.read_text(encoding="ascii").strip() if _YAMA.exists() else "0"
    last = said.strip().splitlines()[-1] if said.strip() else "without a word"
    allow = (
        f"The kernel lets no process trace another of its user ({_YAMA} is {scope}): "
        "'sudo sysctl kernel.yama.ptrace_scope=0' allows it until the next start, or run the command as root"
        if scope != "0"
        else "Run the command as the user that has started the stack, or as root"
    )
    return f"a slow disk cannot be made: strace ended ({last}). {allow}"


def _end(tracer: subprocess.Popen[str]) -> None:
    """Let strace release its processes, which continue."""
    with suppress(ProcessLookupError):
        tracer.send_signal(signal.SIGINT)
    try:
        tracer.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        tracer.kill()
        tracer.communicate(timeout=10)
