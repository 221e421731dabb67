"""A job whose driver is played, for tests of views, and a store for their snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.object_store import Objects
from support.views.changelogs import Writing, make_job


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    """In their own region. Modules that need another one have one of this name."""
    one = Writing(broker.cluster, make_job(tmp_path)[0])
    yield one
    one.close()


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return Objects(str(tmp_path / "objects"))
