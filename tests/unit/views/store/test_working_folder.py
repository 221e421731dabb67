"""The folder in which a command builds states: nothing stays of it, however the command ends."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.core.errors import MachineError
from cutwater.operations.service_main import interrupt_on_signals
from cutwater.past import diff
from cutwater.views.store.working_folder import TRIES, remove_left_over, working_folder


@pytest.fixture
def killed(tmp_path: Path) -> Callable[[Path], None]:
    """Leaves in a folder what a command that was killed leaves."""

    def make(parent: Path) -> None:
        child = os.fork()
        if not child:
            with working_folder(parent) as folder:
                (folder / "older").mkdir()
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        assert any((one / "older").is_dir() for one in parent.iterdir())

    return make


def test_the_folder_is_removed_whatever_happens(tmp_path: Path) -> None:
    def interrupted() -> None:
        with working_folder(tmp_path / "replay") as folder:
            (folder / "broker").mkdir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [*(tmp_path / "replay").iterdir()] == []


def test_what_a_killed_command_has_left_is_removed_and_what_runs_is_not(
    tmp_path: Path, killed: Callable[[Path], None]
) -> None:
    (tmp_path / "notes").mkdir()
    with working_folder(tmp_path) as one, working_folder(tmp_path) as other:
        killed(tmp_path)
        remove_left_over(tmp_path)
        assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"notes", one.name, other.name}
    remove_left_over(tmp_path / "nothing")


def test_a_diff_removes_what_a_killed_one_has_left(
    tmp_path: Path, killed: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two whole states: each that stayed would fill the disk a bit more."""

    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    planned = SimpleNamespace(job=None)
    monkeypatch.setattr(diff, "with_carried_jobs", lambda request: request)
    monkeypatch.setattr(diff, "planned_state", lambda *_: planned)
    monkeypatch.setattr(diff, "RowComparer", lambda *_: None)
    monkeypatch.setattr(diff, "StateViews", interrupted)
    killed(tmp_path / diff.FOLDER)
    request: Any = SimpleNamespace(
        settings=SimpleNamespace(data_dir=tmp_path), before=None, after=None, tolerance=0.0
    )
    with pytest.raises(KeyboardInterrupt):
        diff.diff_states_at(request)
    assert [*(tmp_path / diff.FOLDER).iterdir()] == []


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EWOULDBLOCK])
def test_a_disk_without_locks_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The command tried for ever, and each try left a file."""
    tries = []

    def refused(*_: object) -> None:
        tries.append(None)
        if len(tries) > 10:
            pytest.fail("it tries on and on")
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(MachineError, match="CUTWATER_DATA_DIR"), working_folder(tmp_path / "diff"):
        pass
    assert len([*(tmp_path / "diff").iterdir()]) <= (TRIES if number == errno.EWOULDBLOCK else 0)


@pytest.fixture
def default_signals() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_DFL) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("default_signals")
def test_a_signal_ends_a_command_as_ctrl_c_does(tmp_path: Path, number: signal.Signals) -> None:
    """Without it the process ends at once, and its folder stays."""
    interrupt_on_signals()
    with pytest.raises(KeyboardInterrupt), working_folder(tmp_path):
        signal.raise_signal(number)
    assert [*tmp_path.iterdir()] == []
