"""The pytest plugin: the fixture `cutwater_job`, on this machine or in containers (docs/TESTING.md).

Every pytest of an environment with Cutwater loads it, so it imports next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cutwater.testing.deployment import Deployment

EMBEDDED, CONTAINERS = "embedded", "containers"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --cutwater and --cutwater-tag."""
    group = parser.getgroup("cutwater", "Cutwater: a job's processes for your tests")
    group.addoption(
        "--cutwater",
        choices=(EMBEDDED, CONTAINERS),
        default=EMBEDDED,
        help="Where the fixture cutwater_job runs: processes of this machine (default), or containers.",
    )
    group.addoption("--cutwater-tag", default="latest", help="Tag of the images cutwater-kafka, -spark, -service.")


@pytest.fixture(scope="session")
def cutwater_job_file() -> Path:
    """The job file of `cutwater_job`: define a fixture of this name in your conftest.py."""
    pytest.fail("define the fixture cutwater_job_file in your conftest.py: it returns the path of your job file")


@pytest.fixture(scope="session")
def cutwater_job(
    request: pytest.FixtureRequest, cutwater_job_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """The job of `cutwater_job_file`, running: produce events, wait for a milestone, read whole milestones."""
    from cutwater.testing import containers, embedded  # not before a test asks for it

    if request.config.getoption("--cutwater") == CONTAINERS:
        with containers(cutwater_job_file, tag=request.config.getoption("--cutwater-tag")) as job:
            yield job
    else:
        with embedded(cutwater_job_file, folder=tmp_path_factory.mktemp("cutwater")) as job:
            yield job
