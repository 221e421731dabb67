"""What `cutwater.testing.containers` copies to its containers: whatever a job file may name beside it."""

from __future__ import annotations

from pathlib import Path

from cutwater.testing.containers import _files_of


def test_a_job_finds_its_files_in_the_containers_too(tmp_path: Path) -> None:
    """A .proto, a function's module and a table were not there: the driver ended at its start."""
    wanted = ["event.avsc", "event.proto", "event.desc", "function.py", "table.csv"]
    for name in ("job.yaml", "notes.txt", *wanted):
        (tmp_path / name).write_text("")
    (tmp_path / "folder.py").mkdir()
    first, *others = _files_of(tmp_path / "job.yaml")
    assert first.name == "job.yaml"
    assert sorted(one.name for one in others) == sorted(wanted)
