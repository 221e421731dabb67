"""Tests of containers: the images are built once, and an engine is started where there is none."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START_S = 60
BUILD_S = 900


def answers() -> bool:
    """Is there an engine?"""
    asked = ["docker", "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(asked, capture_output=True, timeout=30, check=False).returncode == 0


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Docker engine: the one that answers, else one that is started here and ended with the tests."""
    if answers():
        yield
        return
    log = tmp_path_factory.mktemp("engine") / "dockerd.log"
    with log.open("wb") as output:
        started = subprocess.Popen(["dockerd"], stdout=output, stderr=output, start_new_session=True)
    try:
        deadline = time.monotonic() + START_S
        while not answers():
            waits = started.poll() is None and time.monotonic() < deadline
            assert waits, log.read_text()[-2000:]
            time.sleep(0.2)
        yield
    finally:
        started.terminate()
        try:
            started.wait(60)
        finally:
            started.kill()


@pytest.fixture(scope="session")
def images(engine: None) -> None:
    """`make images METRICS=1`: bases too where they are missing."""
    built = subprocess.run(
        [ROOT / "deploy/images/build"],
        cwd=ROOT,
        env={**os.environ, "METRICS": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert built.returncode == 0, built.stderr[-4000:]
    # Whoever runs these tests may have no image of testcontainers' helper.
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
