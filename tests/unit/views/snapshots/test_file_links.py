"""Files of snapshots in a folder on the same disk: linked where they can be, and looked at all the same."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from cutwater.core.state.snapshot_manifest import File, Unusable
from cutwater.views.snapshots.file_links import linked

BYTES = b"rows" * 1000


def file(name: str = "7.sst", data: bytes = BYTES) -> File:
    return File(name=name, size=len(data), sha256=hashlib.sha256(data).hexdigest(), object="one")


def nothing() -> None:
    """Does not stop."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    place = tmp_path / "object"
    place.write_bytes(BYTES)
    return place


def test_a_table_file_gets_another_name(source: Path, tmp_path: Path) -> None:
    """No byte is written; what an earlier try has left is no matter, and either name may go."""
    to = tmp_path / "7.sst"
    (tmp_path / "7.sst.part").write_bytes(b"left")
    assert linked(source, file(), to, nothing)
    assert to.stat().st_ino == source.stat().st_ino
    assert {path.name for path in tmp_path.iterdir()} == {"object", "7.sst"}
    source.unlink()
    assert to.read_bytes() == BYTES


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EMLINK])
def test_what_cannot_be_linked_is_to_be_copied(source: Path, tmp_path: Path, monkeypatch: Any, code: int) -> None:
    """Another disk, another user's file; a file that RocksDB goes on writing to; one that is no file here."""

    def refused(*_places: object) -> None:
        raise OSError(code, "no")

    to = tmp_path / "7.sst"
    assert not linked(source, file("CURRENT"), to, nothing)
    assert not linked(None, file(), to, nothing)
    assert not linked(tmp_path / "gone", file(), to, nothing)
    monkeypatch.setattr(os, "link", refused)
    assert not linked(source, file(), to, nothing)
    assert {path.name for path in tmp_path.iterdir()} == {"object"}


def test_damage_is_not_linked(source: Path, tmp_path: Path) -> None:
    """It is named, and nothing stays behind."""
    with pytest.raises(Unusable, match="object is damaged: its bytes are not those of"):
        linked(source, file(data=b"rowS" * 1000), tmp_path / "7.sst", nothing)
    assert {path.name for path in tmp_path.iterdir()} == {"object"}
