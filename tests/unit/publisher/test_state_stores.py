"""When a hand-over's states are loaded ahead: never at the cost of the disk's last room."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from cutwater.publisher.handover.state_stores import StateStores
from cutwater.publisher.handover.store_folders import FREE_BYTES, FREE_SHARE
from support.views.changelogs import make_job

GIB = 1 << 30


@pytest.mark.parametrize(
    ("total", "free", "roomy"),
    [
        (20 * GIB, 2 * GIB, True),
        (20 * GIB, 2 * GIB - 1, False),
        (10_000 * GIB, FREE_BYTES, True),  # a tenth of a large disk is more than anything needs
        (10_000 * GIB, FREE_BYTES - 1, False),
    ],
)
def test_preloading_leaves_a_tenth_of_the_disk_or_ten_gibibytes_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total: int, free: int, roomy: bool
) -> None:
    assert FREE_SHARE == 0.1
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=total, free=free))
    assert StateStores(tmp_path / "not there yet", make_job(tmp_path)[0]).roomy() is roomy
