"""What `status` names of a stack once a generation was promoted that the stack did not begin with."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cutwater.cli.stack.status_rows import repeated_failures
from cutwater.core.errors import MachineError, UsageError
from cutwater.core.monitoring.alerts import TEXT_MAX, plain
from cutwater.local import running_file
from cutwater.local.processes.restart_policy import Failure
from cutwater.local.running_file import RunningStack
from cutwater.local.stack.stack_record import StackRecord

FIRST, SECOND, THIRD = "g1-local-00000000", "g2-local-0badcafe", "g3-local-5f0c21aa"
STACK = RunningStack(
    pid=1,
    started=1.0,
    ready=True,
    job_file="job.yaml",
    job="counts",
    generation=FIRST,
    bootstrap_servers="127.0.0.1:1",
    api_url="",
    spark_ui_url="ui-1",
    data_dir="",
    logs={
        "broker": "b",
        "driver": "d1",
        "commit-signal": "c1",
        f"driver-{SECOND}": "d2",
        f"commit-signal-{SECOND}": "c2",
    },
    metrics={"driver": "m1", f"driver-{SECOND}": "m2", "publisher": "p"},
    spark_uis={SECOND: "ui-2"},
)


def test_before_a_promotion_a_candidate_stands_beside_the_one_at_work() -> None:
    """Each by its name."""
    assert STACK.for_generation(FIRST) == STACK


def test_the_promoted_ones_places_stand_for_those_that_it_has_replaced() -> None:
    """Dead ones are not named; a later candidate's are."""
    now = replace(STACK, logs={**STACK.logs, f"driver-{THIRD}": "d3"}).for_generation(SECOND)
    assert now.logs == {"broker": "b", "driver": "d2", "commit-signal": "c2", f"driver-{THIRD}": "d3"}
    assert (now.metrics, now.spark_ui_url) == ({"driver": "m2", "publisher": "p"}, "ui-2")


def test_of_a_generation_that_runs_elsewhere_nothing_is_known() -> None:
    """What was replaced goes all the same."""
    assert STACK.for_generation(THIRD).logs == {"broker": "b", "driver": "d1", "commit-signal": "c1"}


def test_what_fails_again_and_again_is_an_alert() -> None:
    """Which process, how often since when, its last words and where its log is; of the promoted generation."""
    again = Failure(4, "cutwater driver: no state store", 3, 0, 60_000, 30_000)
    failing = replace(
        STACK, failures={"driver": again, f"driver-{SECOND}": again, "watch": replace(again, times=1)}
    )
    found = [plain(one) for one in repeated_failures(failing.for_generation(SECOND), 61_000)]
    assert [(one["kind"], one["part"], one["value"], one["raised"]) for one in found] == [
        ("repeated-failure", "driver", 3, "1970-01-01T00:00:00.000Z")
    ]
    assert found[0]["text"].startswith(
        "driver has ended 3 times in the same way, the last time at 1970-01-01T00:01:00Z, with exit code 4: "
        "cutwater driver: no state store. "
    )
    assert found[0]["text"].endswith("log: d2")
    assert not repeated_failures(failing, 61_000 + 300_000)
    long = replace(STACK, failures={"driver": replace(again, said="x" * 2_000)})
    assert len(repeated_failures(long, 61_000)[0].text) <= TEXT_MAX


def test_a_stack_that_an_error_has_ended_says_so_until_the_next_one(tmp_path: Path) -> None:
    """Whoever asks what runs is told when and why; failures come back as they were. It runs no more."""
    pid, started = running_file.describe_self()
    again = Failure(4, "no topic", 2, 0, 5, 5)
    stack = replace(STACK, pid=pid, started=started, data_dir=str(tmp_path), failures={"driver": again})
    stack.write()
    assert running_file.require(tmp_path) == stack
    stack.mark_ended(
        UsageError("driver is not restarted.\nn was 4 and is 2\nLog of driver: d1\n  | a line of it"), 1_000
    )
    assert running_file.find(tmp_path) is None
    with pytest.raises(UsageError, match="start one with 'cutwater up'") as caught:
        running_file.require(tmp_path)
    assert str(caught.value).endswith(
        "An error has ended the last one, at 1970-01-01T00:00:01Z: driver is not restarted.\nn was 4 and is 2\n"
        "Log of driver: d1"
    )
    stack.write()
    assert running_file.require(tmp_path) == stack
    stack.mark_ended(None, 2_000)
    with pytest.raises(UsageError, match=r"CUTWATER_DATA_DIR$"):
        running_file.require(tmp_path)


def test_what_ran_last_is_found(tmp_path: Path) -> None:
    """For an incident: one that an error has ended, or that was killed."""
    assert running_file.last(tmp_path) is None
    killed = replace(STACK, data_dir=str(tmp_path))
    killed.write()
    assert running_file.last(tmp_path) == killed
    killed.mark_ended(UsageError("the job file is wrong"), 1_000)
    found = running_file.last(tmp_path, "counts")
    assert found is not None
    assert "the job file is wrong" in found.ended
    assert running_file.last(tmp_path, "orders") is None


def test_a_stack_that_ends_at_the_moment_it_is_stopped_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(20)
    alive = iter([True, False])
    monkeypatch.setattr(RunningStack, "alive", property(lambda _one: next(alive)))
    replace(STACK, pid=ended.pid).stop()


def test_a_stack_of_another_user_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_pid: int, _number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.kill", refused)
    monkeypatch.setattr(RunningStack, "alive", property(lambda _one: True))
    with pytest.raises(MachineError, match=r"process 1.*belongs to another user"):
        STACK.stop()


def test_a_file_that_is_no_text_is_no_stack(tmp_path: Path) -> None:
    (tmp_path / running_file.FILE).write_bytes(b"\xff\xfe")
    assert running_file.find(tmp_path) is None


def test_a_failure_that_cannot_be_noted_ends_no_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk may be its reason: the supervisor restarts the process, and the others go on."""
    said = list[str]()
    record = StackRecord({}, lambda: replace(STACK, data_dir=str(tmp_path / "no-such-folder")), said.append)
    monkeypatch.setattr(running_file, "find_at", lambda _folder: STACK)
    record.note_failure("driver", 1, "no space left")
    assert record.failures["driver"].said == "no space left"
    assert "stack.json" in said[0]
