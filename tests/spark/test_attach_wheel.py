"""The package as users get it: a wheel, installed into a folder, run by spark-submit outside the clone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import shop as example
from support.shop import Shop

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[2]


def pip(*arguments: str, cwd: Path) -> None:
    command = [sys.executable, "-m", "pip", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_wheel_runs_the_example_outside_the_clone(
    broker: Any, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """Built and installed without a network, only that folder on PYTHONPATH: schemas and jar lists are inside."""
    pip("wheel", str(ROOT), "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path / "wheel"), cwd=tmp_path)
    (wheel,) = (tmp_path / "wheel").glob("cutwater-*.whl")
    target = tmp_path / "installed"
    pip("install", "-q", "--no-deps", "--no-index", "--target", str(target), str(wheel), cwd=tmp_path)
    said = subprocess.run(
        [sys.executable, "-c", PLACES],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert len(said) == 5
    assert all(Path(one).is_relative_to(target) for one in said), said

    flow = Shop(broker.cluster, tmp_path, unique("wheel"))
    try:
        made = example.orders(1_500)
        flow.orders(made)
        flow.start("cutwater.commit_signal", PYTHONPATH=str(target))
        flow.program(PYTHONPATH=str(target))
        assert flow.state(flow.wait_committed()) == example.expected(made)
    finally:
        flow.close()


PLACES = """
import cutwater, cutwater_spark
from cutwater.adapters.avro.codec import schema_folder
from cutwater.local.jars import SPECS
print(cutwater.__file__, cutwater_spark.__file__, schema_folder() / "barrier.avsc")
print(*[one for one in SPECS.glob("*.lock.toml") if one.is_file()][:2])
"""
