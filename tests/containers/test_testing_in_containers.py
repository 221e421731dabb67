"""`cutwater.testing` in containers: the example project runs unchanged, and an ended container is told of."""

from __future__ import annotations

import pytest
from compose import docker

from cutwater.core.errors import MachineError, UnavailableError
from cutwater.testing import containers
from support.example_project import EXAMPLE, run_pytest

pytestmark = [pytest.mark.usefixtures("images"), pytest.mark.needs("docker")]
OURS = "label=org.testcontainers=true"


def test_the_example_project_passes_in_containers() -> None:
    ran = run_pytest("--cutwater", "containers")
    assert ran.returncode == 0, ran.stdout
    assert "2 passed" in ran.stdout


def test_a_container_that_has_ended_is_named_and_nothing_stays() -> None:
    """Killed while a test waits: the error has its name and its log, and the others are gone afterwards."""
    with pytest.raises(UnavailableError, match=r"(?s)container commit-signal is exited: .*service"):
        kill_and_wait()
    assert docker("ps", "-a", "-q", "--filter", OURS) == ""


def kill_and_wait() -> None:
    with containers(EXAMPLE / "orders.yaml", settings={"CUTWATER_REGION": "east"}) as job:
        for one in docker("ps", "-q", "--filter", OURS).split():
            if "cutwater.commit_signal" in docker("inspect", "-f", "{{.Args}}", one):
                docker("kill", one)
        job.produce([{"customer": "ada", "placed_at": 1_700_049_600_000, "amount": 5}])
        job.wait()


def test_a_missing_image_is_an_error_with_what_makes_it() -> None:
    with pytest.raises(MachineError, match="make images"), containers(EXAMPLE / "orders.yaml", tag="none"):
        pass
    assert docker("ps", "-a", "-q", "--filter", OURS) == ""
