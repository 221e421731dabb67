"""The files that `cutwater init` writes beside a job file: a .proto comes with what it imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutwater.adapters.job_files.event_schema import load_message
from cutwater.cli.job.init import _copies
from cutwater.core.errors import UsageError
from cutwater.operations.format_detection import DetectedFormat

ORDER = """syntax = "proto3";
package shop;
import "common/money.proto";
import "google/protobuf/timestamp.proto";
message Order { string id = 1; google.protobuf.Timestamp at = 2; common.Money paid = 3; }
"""
MONEY = """syntax = "proto3";
package common;
import "common/unit.proto";
message Money { int64 cents = 1; Unit unit = 2; }
"""
UNIT = """syntax = "proto3";
package common;
message Unit { string name = 1; }
"""


@pytest.fixture
def order(tmp_path: Path) -> Path:
    (tmp_path / "given" / "common").mkdir(parents=True)
    for name, text in {"order.proto": ORDER, "common/money.proto": MONEY, "common/unit.proto": UNIT}.items():
        (tmp_path / "given" / name).write_text(text)
    return tmp_path / "given" / "order.proto"


def copies(file: Path | None, target: Path | None) -> dict[Path, Path]:
    return _copies(DetectedFormat("confluent-protobuf", [], 0, {}, file), target)


def test_a_proto_is_copied_with_what_it_imports(order: Path, tmp_path: Path) -> None:
    """Without that the draft was refused when it had been written: its import was not there."""
    target = tmp_path / "jobs" / "shop_event.proto"
    found = copies(order, target)
    assert [one.relative_to(target.parent).as_posix() for one in found.values()] == [
        *("shop_event.proto", "common/money.proto", "common/unit.proto")
    ]
    for file, at in found.items():
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_bytes(file.read_bytes())
    assert load_message(target, "shop.Order") == load_message(order, "shop.Order")


def test_what_is_there_already_is_not_copied_again(order: Path, tmp_path: Path) -> None:
    """So it is no file that exists and would be overwritten."""
    target = tmp_path / "jobs" / "shop_event.proto"
    (tmp_path / "jobs" / "common").mkdir(parents=True)
    (tmp_path / "jobs" / "common" / "money.proto").write_text(MONEY)
    (tmp_path / "jobs" / "common" / "unit.proto").write_text("another")
    assert [at.name for at in copies(order, target).values()] == ["shop_event.proto", "unit.proto"]


def test_other_schemas_are_copied_alone(tmp_path: Path) -> None:
    assert copies(tmp_path / "e.avsc", tmp_path / "jobs" / "x.avsc") == {
        tmp_path / "e.avsc": tmp_path / "jobs" / "x.avsc"
    }
    assert copies(None, tmp_path / "x.avsc") == {}
    assert copies(tmp_path / "e.avsc", None) == {}


def test_an_import_that_is_nowhere_is_named(order: Path, tmp_path: Path) -> None:
    (order.parent / "common" / "unit.proto").unlink()
    with pytest.raises(UsageError, match=r"common/unit\.proto"):
        copies(order, tmp_path / "x.proto")
