"""An order of corrections: a file that stays until the publisher has executed just what it says."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cutwater.cli.state import repair
from cutwater.cli.state.repair import OutputRepair
from cutwater.core.checks.state_comparison import RowName
from cutwater.core.errors import MachineError
from cutwater.operations.correction_order import CorrectionOrder

ROWS = [RowName("a\n", 0, 60), RowName("b", 60, 120)]
STACK = cast("Any", SimpleNamespace())


def test_an_order_is_executed_once(tmp_path: Path) -> None:
    """What one process has written another reads; afterwards there is none."""
    order, reader = CorrectionOrder(tmp_path, "job"), CorrectionOrder(tmp_path, "job")
    assert reader.rows() == []
    order.write(ROWS)
    assert order.pending
    assert reader.rows() == ROWS
    reader.complete()
    assert not order.pending
    reader.complete()
    assert CorrectionOrder(tmp_path, "other").rows() == []


def test_a_newer_order_is_kept(tmp_path: Path) -> None:
    """It came while the one before was executed."""
    order, reader = CorrectionOrder(tmp_path, "job"), CorrectionOrder(tmp_path, "job")
    order.write(ROWS[:1])
    assert reader.rows() == ROWS[:1]
    order.write(ROWS)
    reader.complete()
    assert reader.rows() == ROWS


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"rows": [["a", 1]]}', '{"rows": [["a", "x", 2]]}', '{"rows": 7}']
)
def test_what_is_no_order_is_refused(tmp_path: Path, text: str) -> None:
    order = CorrectionOrder(tmp_path, "job")
    order.write(ROWS)
    order.path.write_text(text)
    with pytest.raises(MachineError, match=r"job\.json is no order of corrections"):
        order.rows()


def test_a_folder_that_takes_no_order_is_named(tmp_path: Path) -> None:
    (tmp_path / "corrections").write_text("a file")
    with pytest.raises(MachineError, match="cannot be written"):
        CorrectionOrder(tmp_path, "job").write(ROWS)


def test_without_a_stack_the_verb_waits_for_nobody(tmp_path: Path) -> None:
    """The publisher may be on another machine, or away: the order is there for it."""
    said = OutputRepair(order := CorrectionOrder(tmp_path, "job"), ROWS, None).run()
    assert order.rows() == ROWS
    assert str(order.path) in said
    assert "publishes them with its next milestone" in said


def test_with_a_stack_the_verb_waits_for_its_publisher(tmp_path: Path) -> None:
    one = OutputRepair(CorrectionOrder(tmp_path, "job"), ROWS, STACK)
    assert one.plan.startswith("would publish corrections of 2 rows")
    executed = threading.Thread(target=_execute, args=[tmp_path])
    executed.start()
    said = one.run()
    executed.join()
    assert said == "corrections of 2 rows of the output were published"


def _execute(folder: Path) -> None:
    publisher = CorrectionOrder(folder, "job")
    while not publisher.rows():
        threading.Event().wait(0.01)
    publisher.complete()


def test_of_an_idle_job_the_verb_says_what_it_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "CORRECTED_S_MAX", 0.0)
    said = OutputRepair(order := CorrectionOrder(tmp_path, "job"), ROWS, STACK).run()
    assert "has had no milestone since" in said
    assert order.pending
