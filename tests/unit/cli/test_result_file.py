"""The place of a file that a long command writes: told before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutwater.cli.result_file import require_place, write_result
from cutwater.core.errors import MachineError, UsageError


def test_a_place_that_cannot_be_written_is_refused_with_its_reason(tmp_path: Path) -> None:
    """A new file and one that is replaced are both accepted; neither is touched."""
    there = tmp_path / "there.html"
    there.write_text("old")
    require_place(tmp_path / "new.html", "--report")
    require_place(there, "--report")
    assert there.read_text() == "old"
    assert not (tmp_path / "new.html").exists()
    with pytest.raises(UsageError, match=r"--report: the folder .*/missing does not exist"):
        require_place(tmp_path / "missing" / "new.html", "--report")
    with pytest.raises(UsageError, match=r"--report: .* is a folder"):
        require_place(tmp_path, "--report")


def test_a_file_that_cannot_be_written_later_is_an_error_of_the_machine(tmp_path: Path) -> None:
    """Its folder may be gone by then, or its disk full."""
    write_result(tmp_path / "new.html", "done")
    assert (tmp_path / "new.html").read_text() == "done"
    with pytest.raises(MachineError, match="cannot be written: No such file"):
        write_result(tmp_path / "gone" / "new.html", "done")
