"""The job for the tests of this folder. Run `pytest`, or `pytest --cutwater containers`."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cutwater_job_file() -> Path:
    return Path(__file__).with_name("orders.yaml")
