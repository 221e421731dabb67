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
from cutwater.operations.correction_order import CorrectionOrders

ROWS = [RowName("a\n", 0, 60), RowName("b", 60, 120)]
STACK = cast("Any", SimpleNamespace())


def test_an_order_is_executed_once(tmp_path: Path) -> None:
    """What one process has written another reads; afterwards there is none."""
    orders, reader = CorrectionOrders(tmp_path, "job"), CorrectionOrders(tmp_path, "job")
    assert reader.rows() == []
    path = orders.write(ROWS)
    assert path.exists()
    assert reader.rows() == ROWS
    reader.complete()
    assert not path.exists()
    reader.complete()
    assert reader.rows() == []
    assert CorrectionOrders(tmp_path, "other").rows() == []


def test_an_order_replaces_no_other(tmp_path: Path) -> None:
    """One that came before the publisher looked, and one that came while it was at work: each is executed once."""
    orders, reader = CorrectionOrders(tmp_path, "job"), CorrectionOrders(tmp_path, "job")
    rows = [RowName(f"{number}", 0, 60) for number in range(5)]
    later, found = iter(rows[2:]), list[RowName]()
    orders.write(rows[:1])
    orders.write(rows[1:2])
    while executed := reader.rows():
        found += executed
        if (new := next(later, None)) is not None:
            orders.write([new])
        reader.complete()
    assert sorted(found) == rows


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"rows": [["a", 1]]}', '{"rows": [["a", "x", 2]]}', '{"rows": 7}']
)
def test_what_is_no_order_is_refused(tmp_path: Path, text: str) -> None:
    orders = CorrectionOrders(tmp_path, "job")
    orders.write(ROWS).write_text(text)
    with pytest.raises(MachineError, match=r"\.json is no order of corrections"):
        orders.rows()


def test_a_folder_that_takes_no_order_is_named(tmp_path: Path) -> None:
    (tmp_path / "corrections").write_text("a file")
    with pytest.raises(MachineError, match="cannot be written"):
        CorrectionOrders(tmp_path, "job").write(ROWS)


def test_without_a_stack_the_verb_waits_for_nobody(tmp_path: Path) -> None:
    """The publisher may be on another machine, or away: the order is there for it."""
    said = OutputRepair(orders := CorrectionOrders(tmp_path, "job"), ROWS, None).run()
    assert orders.rows() == ROWS
    assert str(orders.folder) in said
    assert "publishes them with its next milestone" in said


def test_with_a_stack_the_verb_waits_for_its_publisher(tmp_path: Path) -> None:
    one = OutputRepair(CorrectionOrders(tmp_path, "job"), ROWS, STACK)
    assert one.plan.startswith("would publish corrections of 2 rows")
    executed = threading.Thread(target=_execute, args=[tmp_path])
    executed.start()
    said = one.run()
    executed.join()
    assert said == "corrections of 2 rows of the output were published"


def _execute(folder: Path) -> None:
    publisher = CorrectionOrders(folder, "job")
    while not publisher.rows():
        threading.Event().wait(0.01)
    publisher.complete()


def test_of_an_idle_job_the_verb_says_what_it_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "CORRECTED_S_MAX", 0.0)
    said = OutputRepair(orders := CorrectionOrders(tmp_path, "job"), ROWS, STACK).run()
    assert "has had no milestone since" in said
    assert orders.rows() == ROWS
