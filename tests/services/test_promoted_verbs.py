"""Verbs speak of the promoted generation, with its partitions, whatever the job file says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from changelogs import Sold, Writing, make_job
from generations_played import Next
from typer.testing import CliRunner

from cutwater.cli.main import app
from cutwater.core import topics
from registries import StandIn


class Promoted:
    """A job whose second generation, with six partitions instead of three, is promoted."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        job, self.file = make_job(folder)
        before = Writing(cluster, job)
        before.epoch([Sold("a", 1, 5)])
        self.after = Next(before, 1)
        self.after.promoted([Sold("b", 1, 5)])
        self._on = ("--bootstrap-servers", cluster.bootstrap, "--data-dir", str(folder / "data"))

    def json(self, *verb: str) -> Any:
        done = CliRunner().invoke(app, [*verb, *self._on, "--json"])
        return json.loads(done.stdout)


@pytest.fixture
def job(broker: Any, tmp_path: Path) -> Promoted:
    return Promoted(broker.cluster, tmp_path)


def test_plan_and_doctor_look_at_its_topics(job: Promoted) -> None:
    """Its changelog is there with six partitions; the lists keep those that they were made with."""
    changelog, lists = job.after.topic, topics.late(job.after.job.name)
    planned = {one["name"]: one for one in job.json("plan", str(job.file))["topics"]}
    assert (planned[changelog]["exists"], planned[changelog]["partitions"]) == (True, 6)
    told = {one["check"]: one for one in job.json("doctor", str(job.file))["findings"]}
    assert told[f"topic {changelog}"]["found"].startswith("6 partitions")
    assert told[f"topic {lists}"]["found"].startswith("3 partitions")
    assert "generation" not in told


def test_another_regions_setting_is_a_finding(job: Promoted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said by `doctor` beside everything else that it finds."""
    monkeypatch.setenv("CUTWATER_REGION", "elsewhere")
    told = {one["check"]: one for one in job.json("doctor", str(job.file))["findings"]}
    assert "CUTWATER_REGION says elsewhere" in told["generation"]["found"]


def test_the_changelogs_subject_is_of_the_promoted_one(job: Promoted) -> None:
    """So a registry that allows no writers to register has it before the driver asks."""
    with StandIn().running() as registry:
        text = job.file.read_text() + f"changelog: {{format: confluent}}\nregistry: {{url: '{registry.url}'}}\n"
        job.file.write_text(text)
        told = job.json("schemas", "register", str(job.file))
    assert [one["subject"] for one in told["registered"]] == [f"{job.after.topic}-value"]
