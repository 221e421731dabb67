"""What the tests of `benchmarks` share."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def part() -> Iterator[Any]:
    """Imports a module of `benchmarks`, which lies at the root and is in no package that gets installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2]))
        yield lambda name: importlib.import_module(f"benchmarks.{name}")
