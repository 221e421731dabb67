"""The file about an incident: whole, private and bounded, whatever its parts do."""

from __future__ import annotations

import json
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.core.errors import MachineError, UnavailableError, UsageError
from cutwater.core.monitoring.incident import PART_BYTES_MAX, SECONDS_MAX, Excerpt
from cutwater.core.util.redaction import MASK, Redactor
from cutwater.local.incident.archive import CONTENTS, ArchivePart, json_part, write_archive
from cutwater.local.incident.parts import log_parts

HIDDEN = "hunter2-hunter2"


def text(name: str, found: str) -> ArchivePart:
    return ArchivePart(name, lambda _max: Excerpt(found))


def failing(name: str, error: Exception) -> ArchivePart:
    def read(_max: int) -> Excerpt:
        raise error

    return ArchivePart(name, read)


def write(path: Path, *parts: ArchivePart, clock: Iterator[float] | None = None) -> dict[str, Any]:
    clock_s = (lambda: next(clock)) if clock else (lambda: 0.0)
    return write_archive(path, "flights", "now", parts, Redactor([HIDDEN]), lambda _name: None, clock_s)


def members(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {one: archive.read(one).decode() for one in archive.namelist()}


def test_a_part_that_fails_is_named_and_the_others_are_there(tmp_path: Path) -> None:
    """Whatever it raises, and its reason has no secret either."""
    told = write(
        tmp_path / "a.zip",
        failing("one", UnavailableError(f"no answer at http://me:{HIDDEN}@host")),
        text("two", "found"),
        failing("three", KeyError("x")),
        json_part("four", lambda: {"password": "open", "n": 1}, Redactor()),
    )
    found = members(tmp_path / "a.zip")
    assert json.loads(found[CONTENTS]) == told
    assert [bool(one["problem"]) for one in told["parts"]] == [True, False, True, False]
    assert "UnavailableError: no answer" in told["parts"][0]["problem"]
    assert found["two"] == "found"
    assert json.loads(found["four"]) == {"password": MASK, "n": 1}
    assert set(found) == {"two", "four", CONTENTS}
    assert not told["complete"]
    assert HIDDEN not in str(found)


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    write(tmp_path / "a.zip", text("one", "x"))
    assert stat.S_IMODE((tmp_path / "a.zip").stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["a.zip"]


def test_a_file_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_text("mine")
    with pytest.raises(UsageError, match="--out"):
        write(tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_text() == "mine"


def test_a_folder_that_is_not_there_is_the_machines_problem(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="--out"):
        write(tmp_path / "none" / "a.zip", text("one", "x"))


def test_a_part_that_is_too_long_keeps_its_end(tmp_path: Path) -> None:
    line = "x" * 99 + "\n"
    told = write(tmp_path / "a.zip", text("one", line * (PART_BYTES_MAX // 50)))
    (one,) = told["parts"]
    assert PART_BYTES_MAX - 200 < one["bytes"] <= PART_BYTES_MAX
    assert one["bytes"] + one["left_out_bytes"] == 100 * (PART_BYTES_MAX // 50)


def test_of_a_document_the_newest_entries_are_kept(tmp_path: Path) -> None:
    """It stays a document. One that is no list is not cut."""
    many = [{"number": number, "text": "x" * 1_000} for number in range(8_000)]
    whole = json_part("one", lambda: {"a": many}, Redactor())
    told = write(tmp_path / "a.zip", json_part("many", lambda: many, Redactor()), whole)
    kept = json.loads(members(tmp_path / "a.zip")["many"])
    assert kept == many[-len(kept) :]
    assert len(kept) > 1_000
    assert [bool(one["left_out_bytes"]) for one in told["parts"]] == [True, False]
    assert "room" in told["parts"][1]["problem"]


def test_after_the_time_no_part_is_begun(tmp_path: Path) -> None:
    clock = iter([0.0, 1.0, SECONDS_MAX + 1])
    told = write(tmp_path / "a.zip", text("one", "x"), failing("two", AssertionError("begun")), clock=clock)
    assert "over" in told["parts"][1]["problem"]


def test_the_end_of_each_log_is_taken(tmp_path: Path) -> None:
    """From a whole line on: half of a secret could not be recognised."""
    first, other = tmp_path / "a", tmp_path / "b"
    for folder in (first, other):
        folder.mkdir()
        (folder / "driver.log").write_text(f"{folder.name} {HIDDEN}\n" * 50)
        (folder / "driver.log.1").write_text("older\n")
        (folder / "notes.txt").write_text("no log")
    elsewhere = tmp_path / "broker.out"
    elsewhere.write_text("broker\n")
    found = log_parts([first, other], [str(elsewhere), str(first / "driver.log")])
    assert sorted(one.name for one in found) == [
        "logs/broker.out",
        "logs/driver-2.log",
        "logs/driver-2.log.1",
        "logs/driver.log",
        "logs/driver.log.1",
    ]
    (log,) = [one for one in found if one.name == "logs/driver.log"]
    kept = log.read(40)
    assert set(kept.text.splitlines()) <= {f"a {HIDDEN}", f"b {HIDDEN}"}
    assert len(kept.text) + kept.left_out_bytes == 50 * len(f"a {HIDDEN}\n")
