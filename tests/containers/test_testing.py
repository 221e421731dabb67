"""`cutwater.testing` in containers: the example project runs there unchanged."""

from __future__ import annotations

import pytest

from example_project import run_pytest

pytestmark = pytest.mark.usefixtures("images")


def test_the_example_project_passes_in_containers() -> None:
    ran = run_pytest("--cutwater", "containers")
    assert ran.returncode == 0, ran.stdout
    assert "2 passed" in ran.stdout
