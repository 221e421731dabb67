"""What `cutwater up --detach` says while the stack starts."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from cutwater.cli.stack.up import _last_error, _relay


@pytest.mark.slow
def test_the_steps_of_a_start_are_told_as_they_come(capsys: pytest.CaptureFixture[str]) -> None:
    """Downloads, slow members and warnings, each once and whole; the table of what runs is not repeated."""
    log = StringIO()
    told = [
        "fetching 5 jars for spark, once: 9.5 MB to download …",
        "spark: 4.0 of 9.5 MB, 2.0 MB/s, about 3 s left",
    ]
    log.write("\n".join(told) + "\nstarting dri")
    log.seek(0)
    _relay(log)
    assert capsys.readouterr().err.splitlines() == told
    at = log.tell()
    log.seek(0, 2)
    log.write("ver …\ndriver is ready after 9.1 s\njob flights, generation g1\nAPI http://127.0.0.1:1\n")
    log.seek(at)
    _relay(log)
    assert capsys.readouterr().err.splitlines() == ["starting driver …", "driver is ready after 9.1 s"]


def test_the_reason_of_a_start_that_failed_is_what_the_process_said(tmp_path: Path) -> None:
    """Not a line of a service's log that is shown below it, and speaks of an error, too."""
    log = tmp_path / "up.log"
    log.write_text(
        "starting driver …\nerror: driver ended.\ncutwater driver: n was 4\n  | error: fenced\n  | at Spark\n"
    )
    assert _last_error(log) == "driver ended.\ncutwater driver: n was 4\n  | error: fenced\n  | at Spark"
    log.write_text("Traceback\nKilled\n")
    assert _last_error(log) == "Traceback\nKilled"
