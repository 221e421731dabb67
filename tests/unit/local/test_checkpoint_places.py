"""What follows from where a checkpoint lies: tests never use a job's own, and S3 needs more jars."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.runtime.cache_folder import CACHE_VARIABLE
from cutwater.core.errors import UsageError
from cutwater.local.jars import jars
from cutwater.local.processes.supervisor import Supervised, Supervisor
from cutwater.testing import embedded
from support.cli.commandline import Cli
from support.example_project import EXAMPLE

IN_EARNEST = "s3a://in-earnest/orders"


@pytest.fixture
def members(monkeypatch: pytest.MonkeyPatch) -> list[Supervised]:
    """The processes that would be started; none is."""
    found: list[Supervised] = []

    def start(self: Supervisor, _stop: threading.Event) -> bool:
        found.extend(self.members)
        return True

    monkeypatch.setattr(Supervisor, "start", start)
    monkeypatch.setattr(Supervisor, "run", lambda _self, stop: stop.wait(60))
    return found


def test_a_test_never_uses_the_checkpoint_that_the_environment_names(
    members: list[Supervised], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a job's in earnest: each process of `embedded()` is told one below the test's own folder."""
    monkeypatch.setenv("CUTWATER_CHECKPOINT", IN_EARNEST)
    with embedded(EXAMPLE / "orders.yaml", folder=tmp_path):
        assert "driver" in {one.child.name for one in members}
    for one in members:
        if one.child.name != "broker":
            # A child has the environment of this process, and what it is given on top.
            assert load_settings(one.child.env).checkpoint == str(tmp_path / "checkpoint"), one.child.name
            assert "hadoop-aws" not in one.child.env["CUTWATER_SPARK_JARS"], one.child.name


def test_nor_can_a_test_be_given_one(tmp_path: Path) -> None:
    """By the settings of `embedded()`: it is chosen there."""
    given = {"CUTWATER_CHECKPOINT": IN_EARNEST}
    said = "CUTWATER_CHECKPOINT is set by cutwater.testing"
    with (
        pytest.raises(UsageError, match=said),
        embedded(EXAMPLE / "orders.yaml", folder=tmp_path, settings=given),
    ):
        pass


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache of jars with all that a stack needs whose checkpoint is on a disk, and nothing for S3."""
    (tmp_path / "cache" / "jars").mkdir(parents=True)
    for name in ("kafka", "spark"):
        folder = jars(name)[0].parent
        (tmp_path / "cache" / "jars" / folder.name).symlink_to(folder)
    return tmp_path / "cache"


def test_the_doctor_looks_for_the_jars_of_s3_where_the_checkpoint_is_there(cache: Path, tmp_path: Path) -> None:
    """Only there: whoever keeps it on a disk needs none of their hundreds of megabytes."""

    def found(**env: str) -> Any:
        done = Cli(tmp_path, **{CACHE_VARIABLE: str(cache)}, **env).run("doctor", "--json")
        (one,) = [each for each in json.loads(done.stdout)["findings"] if each["check"] == "jars"]
        return one

    assert found(CUTWATER_CHECKPOINT=str(tmp_path / "kept"))["level"] == "ok"
    missing = found(CUTWATER_CHECKPOINT=IN_EARNEST)
    assert (missing["level"], missing["found"]) == ("warning", "not in the cache yet")
    assert "'cutwater up' downloads them" in missing["remedy"]
