"""Ends the children of a supervisor that was killed.

Started as `python -I -S guard.py FD NICENESS COMMAND...` in a new session, it leaves a *watcher* behind and then
becomes the command (`exec`: the process id that the supervisor knows is the command's). The watcher reads a pipe
whose other end only the supervisor holds. One byte means "ended in order"; end of file means that the supervisor
is dead, and the watcher kills everything in the command's session, including grandchildren such as Spark's JVM. A
parent-death signal is not enough: it belongs to a thread, reaches one process only, and exists only on Linux. The
watcher has a session of its own, so a signal to the command's group does not reach it.

It uses only the standard library, runs without site-packages, and starts in 20 ms.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

SWEEP_SECONDS = 10.0
TRIES, TRY_SECONDS = 5, 0.15


def session_pids(session: int) -> list[int]:
    """Return the living processes of a session, in all its process groups; zombies are not living."""
    return [pid for pid, zombie in _processes() if not zombie and _session_of(pid) == session]


def kill_session(session: int) -> None:
    """Send SIGKILL to each process of a session, once. A process that forks meanwhile needs another call."""
    for pid in session_pids(session):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _processes() -> list[tuple[int, bool]]:
    if not os.path.isdir("/proc/self"):
        listed = subprocess.run(
            ["ps", "-axo", "pid=,stat="], capture_output=True, text=True, timeout=60, check=False
        )
        rows = (line.split() for line in listed.stdout.splitlines())
        return [(int(row[0]), row[1].startswith("Z")) for row in rows if len(row) > 1]
    return [(int(name), _is_zombie(name)) for name in os.listdir("/proc") if name.isdigit()]


def _is_zombie(name: str) -> bool:
    try:
        with open(f"/proc/{name}/stat", "rb") as file:
            # The command's name comes first, in brackets, and may contain brackets and spaces.
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except (OSError, IndexError):
        return True


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def _watch(pipe: int, session: int) -> None:
    if os.read(pipe, 1):
        return
    deadline = time.monotonic() + SWEEP_SECONDS
    while session_pids(session) and time.monotonic() < deadline:
        kill_session(session)
        time.sleep(0.02)


def _leave_watcher(pipe: int) -> None:
    """Fork twice, so that the watcher is not a child of the command."""
    session = os.getpid()
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return
    try:
        if not os.fork():
            os.setsid()
            os.chdir("/")  # keep no folder busy that may be unmounted
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            _watch(pipe, session)
    finally:
        os._exit(0)


def _step_back(niceness: int) -> None:
    """Raise the niceness of this process and its later children, but not of the watcher. If the system does not
    support it for sessions, the effect is smaller."""
    os.nice(niceness)
    # Linux first distributes CPU time among sessions; niceness counts within one session (sched(7), autogroup).
    for _ in range(TRIES):
        try:
            with open("/proc/self/autogroup", "wb", buffering=0) as session:
                session.write(str(niceness).encode())
            return
        except BlockingIOError:  # without root, one write per 0.1 s is accepted on the whole machine
            time.sleep(TRY_SECONDS)
        except OSError:
            return


def main(argv: list[str]) -> None:
    pipe, niceness, command = int(argv[0]), int(argv[1]), argv[2:]
    _leave_watcher(pipe)
    os.close(pipe)
    if niceness:
        _step_back(niceness)
    os.umask(os.umask(0o077) | 0o007)  # state, logs and offsets are not readable for other users
    # Python ignores these two signals, and ignored signals stay ignored across exec.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606  (a shell is not wanted)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be started: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
