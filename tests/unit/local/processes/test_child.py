"""A child ends with everything it started, whoever ends it. Real processes, real signals."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import psutil
import pytest

from cutwater.core.errors import FencedError, MachineError, UnavailableError
from cutwater.local.machine.disk_space import require_room
from cutwater.local.processes import orphan_guard
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import NEVER_RESTART, RestartPolicy
from cutwater.local.processes.supervisor import Supervised, Supervisor, stop_on_signals
from cutwater.local.stack.stack import BEHIND

WAIT_SECONDS = 20.0
QUICK = RestartPolicy(restarts_max=2, window_seconds=600, delay_seconds=0.01)

# A stand-in for a Spark driver: it ignores SIGTERM, has a child in the same group (as the JVM) and one in a
# process group of its own (as Python workers), all of which would run for long.
STUBBORN = """
    import os, signal, subprocess, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleeper = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"]
    subprocess.Popen(sleeper)
    subprocess.Popen(sleeper, preexec_fn=lambda: os.setpgid(0, 0))
    print("started", flush=True)
    time.sleep(600)
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def make(folder: Path, code: str, restart: RestartPolicy = NEVER_RESTART, name: str = "child") -> Child:
    return Child(name, [*python(code), str(folder)], {"GREETING": "hello"}, folder / f"{name}.log", restart)


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_up(child: Child) -> bool:
    return child.log_tail() == ["up"]


def alive(pids: Sequence[int]) -> list[int]:
    return [p for p in pids if psutil.pid_exists(p) and psutil.Process(p).status() != psutil.STATUS_ZOMBIE]


def watchers(mark: Path) -> list[int]:
    """The guards' watchers of this test's children: they run guard.py and have `mark` among their arguments."""
    commands = [(process.pid, process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    return [pid for pid, command in commands if orphan_guard.__file__ in command and str(mark) in command]


def test_output_goes_to_the_log_and_the_pid_is_the_commands_own(tmp_path: Path) -> None:
    """Both streams land in the log, additions to the environment arrive, and `pid` is the command itself."""
    code = "import os, sys; print(os.getpid(), os.environ['GREETING']); print('oops', file=sys.stderr)"
    child = make(tmp_path, code)
    child.start()
    assert eventually(lambda: child.poll() is not None)
    assert sorted(child.log_tail()) == sorted([f"{child.pid} hello", "oops"])
    assert child.stop(1) == 0


def test_what_a_child_writes_is_nothing_for_everybody(tmp_path: Path) -> None:
    """State, logs and offsets: whatever the user's own umask lets others do, a stack's processes do not."""
    child = make(tmp_path, "import os, sys; open(sys.argv[1] + '/written', 'w'); os.mkdir(sys.argv[1] + '/made')")
    before = os.umask(0o022)
    try:
        child.start()
        require_room(tmp_path / "data", "this test", 0)
    finally:
        os.umask(before)
    assert eventually(lambda: child.poll() is not None)
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("written", "made", "data")}
    assert modes == {"written": 0o640, "made": 0o750, "data": 0o750}


@pytest.mark.parametrize("niceness", [0, BEHIND])
def test_whatever_a_child_starts_gives_way_as_it_does(niceness: int, tmp_path: Path) -> None:
    """Sessions share a processor out among themselves, where the system does so; else processes do."""
    code = """
        import os, subprocess, sys
        asks = "import os, sys; print(os.nice(0), *sys.stdin.read().split()[2:])"
        group = "/proc/self/autogroup"
        subprocess.run([sys.executable, "-c", asks], stdin=open(group if os.path.exists(group) else os.devnull))
    """
    child = Child("one", python(code), {}, tmp_path / "one.log", NEVER_RESTART, niceness=niceness)
    child.start()
    assert eventually(lambda: child.poll() is not None)
    grouped = [str(niceness)] if Path("/proc/self/autogroup").exists() else []
    assert child.log_tail()[-1].split() == [str(min(19, os.nice(0) + niceness)), *grouped]


def test_the_command_finds_signals_and_files_as_usual(tmp_path: Path) -> None:
    """The guard in between leaves no trace: default SIGPIPE, only the standard files open."""
    child = make(tmp_path, "")
    child.argv = [
        "/bin/sh",
        "-c",
        "ls /proc/self/fd | tr '\\n' ' '; while read -r line; do echo $line; done </proc/self/status",
    ]
    child.start()
    assert eventually(lambda: child.poll() is not None)
    text = child.log_path.read_text(encoding="utf-8")
    assert text.split()[:3] == ["0", "1", "2"]
    (ignored,) = re.findall(r"SigIgn: (\w+)", text)
    assert int(ignored, 16) & (1 << (signal.SIGPIPE - 1)) == 0
    child.stop(1)


def test_a_command_that_does_not_exist_is_named_in_the_log(tmp_path: Path) -> None:
    """A command that cannot be run: a failed exit and its name in the log."""
    child = Child("lost", ["/no/such/program"], {}, tmp_path / "lost.log", NEVER_RESTART)
    child.start()
    assert eventually(lambda: child.poll() == 1)
    assert "/no/such/program cannot be started" in child.log_tail()[-1]
    child.stop(1)


def test_stop_lets_a_child_end_well(tmp_path: Path) -> None:
    """SIGTERM comes first, and a child that answers it within the grace ends with its own exit code."""
    child = make(
        tmp_path,
        """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(42))
        print("started", flush=True)
        time.sleep(600)
        """,
    )
    child.start()
    assert eventually(lambda: child.log_tail() == ["started"])
    assert child.stop(WAIT_SECONDS) == 42
    assert child.pids() == []


def test_stop_kills_grandchildren_even_in_their_own_process_group(tmp_path: Path) -> None:
    """A child and grandchildren that ignore SIGTERM are all gone when stop returns, and so is the watcher."""
    child = make(tmp_path, STUBBORN)
    child.start()
    assert eventually(lambda: child.log_tail() == ["started"] and len(child.pids()) == 3)
    pids = child.pids()
    assert len(watchers(tmp_path)) == 1
    assert child.stop(0.1) == -signal.SIGKILL
    assert alive(pids) == []
    assert eventually(lambda: watchers(tmp_path) == [])


def test_a_restart_waits_for_the_old_grandchildren(tmp_path: Path) -> None:
    """When only the leader was killed, no process of the old start lives once the new one runs."""
    child = make(tmp_path, STUBBORN)
    child.start()
    assert eventually(lambda: child.log_tail() == ["started"] and len(child.pids()) == 3)
    old = child.pids()
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    assert eventually(lambda: child.poll() is not None)
    assert len(alive(old)) == 2, "the fault has happened: the grandchildren outlived their leader"
    child.start()
    assert alive(old) == []
    child.stop(0.1)


def test_terminate_leader_only_spares_the_grandchildren_until_the_leader_is_gone(tmp_path: Path) -> None:
    """With terminate_leader_only, SIGTERM does not reach what the leader still needs to end well."""
    child = Child(
        "driver",
        python(
            """
            import signal, subprocess, sys, time
            helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            def end(*_):
                time.sleep(0.3)
                print("helper", "alive" if helper.poll() is None else "dead", flush=True)
                helper.kill()
                sys.exit(0)
            signal.signal(signal.SIGTERM, end)
            print("started", flush=True)
            time.sleep(600)
            """
        ),
        {},
        tmp_path / "driver.log",
        NEVER_RESTART,
        terminate_leader_only=True,
    )
    child.start()
    assert eventually(lambda: child.log_tail() == ["started"])
    assert child.stop(WAIT_SECONDS) == 0
    assert child.log_tail() == ["started", "helper alive"]


def test_a_large_log_is_moved_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log above its bound becomes `<name>.1` at the next start; below it, it is appended to."""
    monkeypatch.setattr("cutwater.local.processes.child.LOG_BYTES_MAX", 10)
    child = make(tmp_path, "print('0123456789abc')")
    for _ in range(2):
        child.start()
        assert eventually(lambda: child.poll() == 0)
        child.kill()
    assert child.log_path.read_text() == "0123456789abc\n"
    assert (tmp_path / "child.log.1").read_text() == "0123456789abc\n"


def test_the_log_of_a_process_that_runs_for_long_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor moves what is above the bound aside, and the process writes on; twice that is kept."""
    monkeypatch.setattr("cutwater.local.processes.child.LOG_BYTES_MAX", 1_000)
    # The last line comes by itself: one that is written while others are moved aside is lost.
    pause = "time.sleep(0.5 if number == 398 else 0.001)"
    lines = f"import time\nfor number in range(400):\n    print(f'{{number:09d}}', flush=True)\n    {pause}"
    child = make(tmp_path, lines)
    supervisor = Supervisor([Supervised(child)])
    child.start()
    sizes = []
    while child.poll() is None:
        supervisor.check()
        sizes.append(child.log_path.stat().st_size)
    child.bound_log()
    assert len([one for one, two in itertools.pairwise(sizes) if two < one]) > 1, "it must have been cut"
    kept = (tmp_path / "child.log.1").read_text() + child.log_path.read_text()
    assert kept.endswith("000000399\n")
    assert set(map(len, kept.splitlines())) == {9}, "lines are whole"
    child.kill()


def test_a_failed_start_names_the_log_and_ends_the_others(tmp_path: Path) -> None:
    """The second child fails: its last lines and its log's path are in the error, the first is ended."""
    first = make(tmp_path, "import time; time.sleep(600)", name="first")
    second = make(tmp_path, "import sys; print('the reason'); sys.exit(6)", name="second")
    supervisor = Supervisor([Supervised(first), Supervised(second, ready=lambda: False)])
    with pytest.raises(FencedError) as raised:
        supervisor.start(threading.Event())
    message = str(raised.value)
    assert "second ended with exit code 6 before it was ready" in message
    assert str(tmp_path / "second.log") in message
    assert "| the reason" in message
    assert first.poll() is not None
    assert first.pids() == []


def test_a_child_that_never_gets_ready_is_an_error_with_a_bound(tmp_path: Path) -> None:
    """Readiness has a time limit; after it everything is ended and the error names the log."""
    child = make(tmp_path, "print('thinking', flush=True); import time; time.sleep(600)")
    supervisor = Supervisor([Supervised(child, ready=lambda: False, ready_seconds_max=0.3)])
    with pytest.raises(UnavailableError, match=r"child was not ready within 0\.3 s.*child\.log"):
        supervisor.start(threading.Event())
    assert child.pids() == []


def test_a_start_that_takes_long_is_told(tmp_path: Path) -> None:
    """That it is under way after two seconds, and how long it took; of a quick one nothing."""
    seconds = iter([0.0, 0.0, *(0.5 * step for step in range(20))])
    looks = iter([False] * 6 + [True])
    quick, slow = (make(tmp_path, "import time; time.sleep(600)", name=name) for name in ("quick", "slow"))
    lines: list[str] = []
    members = [Supervised(quick), Supervised(slow, ready=lambda: next(looks))]
    with Supervisor(members, report=lines.append, clock=lambda: next(seconds)) as supervisor:
        assert supervisor.start(threading.Event())
    assert lines[0] == "starting slow …"
    assert re.fullmatch(r"slow is ready after [3-9]\.\d s", lines[1])
    assert len(lines) == 2


def test_a_crashing_child_is_restarted_within_bounds_then_given_up(tmp_path: Path) -> None:
    """Two restarts are allowed: the child runs three times, then all end and the error shows its log."""
    crashing = make(tmp_path, "print('run', flush=True); raise SystemExit(1)", QUICK, "crashing")
    steady = make(tmp_path, "import time; time.sleep(600)", name="steady")
    lines: list[str] = []
    supervisor = Supervisor([Supervised(steady), Supervised(crashing)], report=lines.append)
    supervisor.start(threading.Event())
    with pytest.raises(UnavailableError, match=r"not restarted: it was already restarted 2 times"):
        supervisor.run(threading.Event())
    assert crashing.log_path.read_text().split() == ["run"] * 3
    assert crashing.log_tail() == ["run"]
    assert len(lines) == 2
    assert str(crashing.log_path) in lines[0]
    assert steady.pids() == []


def test_each_failure_is_told_with_the_last_words_of_that_start(tmp_path: Path) -> None:
    """Its reason though more is logged behind it; else its last line. One line, escaped; of no start before it."""
    talks = """
        import os, sys
        runs = open(sys.argv[1] + "/runs", "ab+")
        runs.write(b".")
        run = runs.tell()
        if run == 1:
            print("cutwater child: no \\x1b[31mroom\\nSpark logs on", flush=True)
        if run == 2:
            print("Traceback\\nKeyError\\n\\n", flush=True)
        sys.exit(3 + run)
    """
    policy = RestartPolicy(restarts_max=2, window_seconds=600, delay_seconds=0.01, final_exit_codes=frozenset())
    told: list[tuple[str, int, str]] = []
    supervisor = Supervisor(
        [Supervised(make(tmp_path, talks, policy))],
        failed=lambda name, code, said: told.append((name, code, said)),
    )
    supervisor.start(threading.Event())
    with pytest.raises(FencedError):
        supervisor.run(threading.Event())
    assert told == [("child", 4, r"cutwater child: no \x1b[31mroom"), ("child", 5, "KeyError"), ("child", 6, "")]


@pytest.mark.parametrize("ready", [True, False])
def test_the_others_go_on_without_a_child_only_where_there_is_a_reason(ready: bool, tmp_path: Path) -> None:
    """The reason is told, whether it ended before it was ready or later; without one, all end."""
    leaving = make(tmp_path, "raise SystemExit(6)", name="leaving")
    steady = make(tmp_path, "import time; time.sleep(600)", name="steady")
    lines: list[str] = []
    without: list[int] = []

    def reason(exit_code: int) -> str | None:
        without.append(exit_code)
        return "another is at work" if len(without) == 1 else None

    member = Supervised(leaving, ready=lambda: ready, reason_to_continue=reason)
    with Supervisor([member, Supervised(steady)], report=lines.append) as supervisor:
        assert supervisor.start(threading.Event())
        assert eventually(lambda: supervisor.check() or member.finished)
        assert steady.poll() is None
        assert "exit code 6 and is not restarted: another is at work; the others continue" in lines[-1]
        member.finished = False
        with pytest.raises(FencedError, match="leaving ended with exit code 6"):
            supervisor.run(threading.Event())
    assert without == [6, 6]
    assert steady.pids() == []


def test_run_ends_when_all_have_finished(tmp_path: Path) -> None:
    """Children that exit with 0 are not restarted, and a supervisor with no child left returns."""
    child = make(tmp_path, "print('done')", QUICK)
    with Supervisor([Supervised(child)]) as supervisor:
        assert supervisor.start(threading.Event())
        supervisor.run(threading.Event())
    assert child.log_tail() == ["done"]


def test_a_start_that_cannot_succeed_is_refused_before_it_begins(tmp_path: Path) -> None:
    """before_start's error is the supervisor's error, and the command never ran."""

    def refuse() -> None:
        raise MachineError("no room")

    child = Child("full", python("print(1)"), {}, tmp_path / "full.log", QUICK, before_start=refuse)
    with pytest.raises(MachineError, match="no room"):
        Supervisor([Supervised(child)]).start(threading.Event())
    assert not child.log_path.exists()


def test_children_end_in_reverse_order(tmp_path: Path) -> None:
    """What was started last, and may need the others, ends first."""
    order = tmp_path / "order"
    code = f"""
        import signal, sys, time, os
        name = os.environ["GREETING"]
        def end(*_):
            with open({str(order)!r}, "a") as file: file.write(name)
            sys.exit(0)
        signal.signal(signal.SIGTERM, end)
        print("up", flush=True)
        time.sleep(600)
    """
    children = [make(tmp_path, code, name=name) for name in "abc"]
    for child in children:
        child.env["GREETING"] = child.name
    members = [Supervised(child, ready=partial(is_up, child)) for child in children]
    with Supervisor(members) as supervisor:
        supervisor.start(threading.Event())
    assert order.read_text() == "cba"


def test_a_pause_of_a_supervisor_ends_with_it(tmp_path: Path) -> None:
    """What a member waits for on the supervisor's thread must not keep it from ending."""
    stop = threading.Event()
    asked: list[bool] = []

    def pause(supervisor: Supervisor) -> None:
        stop.set()
        supervisor.pause(3_600)
        asked.append(True)

    unstarted = Supervised(make(tmp_path, ""))
    unstarted.restart_at = float("inf")
    with Supervisor([unstarted], requested=pause) as supervisor:
        supervisor.run(stop)
    assert asked == [True]


def test_signals_set_the_event_and_handlers_come_back() -> None:
    """SIGTERM and Ctrl-C become an event inside the block; afterwards they mean what they meant before."""
    before = signal.getsignal(signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGINT):
        with stop_on_signals() as stop:
            os.kill(os.getpid(), number)
            assert stop.wait(WAIT_SECONDS)
    assert signal.getsignal(signal.SIGTERM) is before


SUPERVISOR_PROGRAM = """
    import signal
    import sys
    from pathlib import Path
    # A test run in the background, or under nohup, hands down that these are ignored.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from cutwater.local.processes.child import Child
    from cutwater.local.processes.restart_policy import RestartPolicy
    from cutwater.local.processes.supervisor import Supervised, Supervisor, stop_on_signals
    folder = Path(sys.argv[1])
    child = Child("stubborn", sys.argv[2:], {}, folder / "stubborn.log", RestartPolicy())
    ready = lambda: child.log_tail() == ["started"] and len(child.pids()) == 3
    with stop_on_signals() as stop, Supervisor([Supervised(child, ready, grace_seconds=0.2)]) as supervisor:
        if supervisor.start(stop):
            print(*child.pids(), flush=True)
            supervisor.run(stop)
    print("ended in order", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_supervisor_that_is_ended_leaves_nobody_behind(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C, SIGTERM, a closed terminal, even kill -9 of the supervisor: nothing of its child lives on."""
    program = [*python(SUPERVISOR_PROGRAM), str(tmp_path), *python(STUBBORN), str(tmp_path)]
    supervisor = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    pids = [int(word) for word in supervisor.stdout.readline().split()]
    assert len(watchers(tmp_path)) == 1
    assert len(alive(pids)) == 3, "the stack is up before it is hit"
    supervisor.send_signal(number)
    said = supervisor.stdout.read()
    assert supervisor.wait(WAIT_SECONDS) == (-number if number == signal.SIGKILL else 0)
    assert ("ended in order" in said) == (number != signal.SIGKILL)
    assert eventually(lambda: alive(pids) == [])
    assert eventually(lambda: watchers(tmp_path) == [])


def test_the_end_is_told_by_what_this_start_has_said(tmp_path: Path) -> None:
    """The log is appended to, and an earlier stack had another reason; and Spark logs on behind it."""
    talks = """
        import sys
        print("cutwater driver: " + open(sys.argv[1] + "/why").read())
        print("\\n".join(f"Spark {number}" for number in range(20)))
        sys.exit(2)
    """
    for why in ("fenced by a newer one", "n was 4 and is 2"):
        (tmp_path / "why").write_text(why)
        child = make(tmp_path, talks)
        child.start()
        assert eventually(lambda child=child: child.poll() is not None)  # type: ignore[misc]
    first, *_, last = child.describe_end().splitlines()
    assert (first, last) == ("cutwater driver: n was 4 and is 2", "  | Spark 19")
    assert "fenced" not in child.describe_end(1_000)
