"""Snapshots as `prune` finds them by the names of objects."""

from __future__ import annotations

from pathlib import Path

from cutwater.adapters.object_store import Objects
from cutwater.operations.generations.prune import manifests


def test_an_object_that_is_no_manifest_is_left_alone(tmp_path: Path) -> None:
    """The console of an object store makes empty objects for folders, and people keep copies."""
    folder = tmp_path / "shop" / "g1-local-00000000" / "all" / "manifests"
    folder.mkdir(parents=True)
    for name in ("00000012.json", "folder", "00000012.json.bak", ".json"):
        (folder / name).write_text("{}", encoding="utf-8")
    assert list(manifests(Objects(str(tmp_path)), "shop")) == [("g1-local-00000000", 12)]
