"""Verbs speak of the promoted generation, with its partitions, whatever the job file says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cutwater.adapters.kafka import admin
from cutwater.cli.main import app
from cutwater.core.protocol import topics
from cutwater.local import running_file
from cutwater.local.running_file import RunningStack
from support.cli.jsonshapes import parsed
from support.events.registries import StandIn
from support.views.changelogs import Sold, Writing, make_job
from support.views.generation_player import Next


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
        return parsed([*verb], done.stdout)


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


@pytest.mark.slow
def test_status_names_it_whatever_the_stack_began_with(job: Promoted, broker: Any, tmp_path: Path) -> None:
    """This process plays the stack: its file says the first generation, the commit stream the second."""
    admin.create_topics(broker.cluster, [topics.events(job.after.job.topic, 1)])
    pid, started = running_file.describe_self()
    stack = RunningStack(
        pid=pid,
        started=started,
        ready=True,
        job_file=str(job.file),
        job=job.after.job.name,
        generation="g1-local-00000000",
        bootstrap_servers=broker.cluster.bootstrap,
        api_url="http://127.0.0.1:1",
        spark_ui_url="",
        data_dir=str(tmp_path),
        logs={},
    )
    stack.write()
    done = CliRunner().invoke(app, ["status", "--data-dir", str(tmp_path), "--json"])
    told = parsed(["status"], done.stdout)
    assert told["stack"]["generation"] == str(job.after.generation)
    assert told["milestone"]["token"] == str(job.after.last.token if job.after.last else None)


@pytest.mark.slow
def test_another_regions_setting_is_a_finding(job: Promoted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said by `doctor` beside everything else that it finds."""
    monkeypatch.setenv("CUTWATER_REGION", "elsewhere")
    told = {one["check"]: one for one in job.json("doctor", str(job.file))["findings"]}
    assert "CUTWATER_REGION is elsewhere" in told["generation"]["found"]


@pytest.mark.slow
def test_the_changelogs_subject_is_of_the_promoted_one(job: Promoted) -> None:
    """So a registry that allows no writers to register has it before the driver asks."""
    with StandIn().running() as registry:
        text = job.file.read_text() + f"changelog: {{format: confluent}}\nregistry: {{url: '{registry.url}'}}\n"
        job.file.write_text(text)
        told = job.json("schemas", "register", str(job.file))
    assert [one["subject"] for one in told["registered"]] == [f"{job.after.topic}-value"]
