"""`cutwater incident` on a real broker: what the topics say is in the file."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cutwater.adapters.kafka import admin
from cutwater.adapters.topics.recovery_log import Trail
from cutwater.cli.main import app
from cutwater.core.protocol import topics
from cutwater.core.protocol.recovery_log import STOPPED, Recovery
from support.cli.jsonshapes import parsed
from support.cli.stack_file import write_stack
from support.views.changelogs import GENERATION, make_job


@pytest.fixture
def folder(broker: Any, tmp_path: Path) -> Path:
    """A stack whose API does not answer, with one start in its recovery trail."""
    made, job_file = make_job(tmp_path / "job")
    admin.create_topics(broker.cluster, [topics.events(made.topic, 3)])
    for one in (topics.milestones, topics.alerts, topics.barriers, topics.history, topics.published):
        admin.create_topics(broker.cluster, [topics.events(one(made.name), 1)])
    start = Recovery(made.name, GENERATION, "driver", "here:1", 3, 1, STOPPED, "no milestone", (), ())
    Trail(broker.cluster, None).write(start)
    place = {"job_file": str(job_file), "bootstrap": broker.cluster.bootstrap, "job": made.name}
    write_stack(tmp_path, "http://127.0.0.1:9", **place)
    return tmp_path


def test_what_the_brokers_know_is_in_the_file(folder: Path) -> None:
    file = folder / "incident.zip"
    done = CliRunner().invoke(app, ["incident", "--data-dir", str(folder), "--out", str(file), "--json"])
    assert done.exit_code == 0, done.output
    told = parsed(["incident"], done.stdout)
    missing = {one["name"]: one["problem"] for one in told["parts"] if one["problem"]}
    assert set(missing) == {"metrics/rehydrator.txt", "metrics/watch.txt", "logs"}, missing
    with zipfile.ZipFile(file) as archive:
        documents = {one: json.loads(archive.read(one)) for one in archive.namelist() if one.endswith(".json")}
    assert documents["milestones.json"] == documents["alerts.json"] == []
    assert [one["attempt"] for one in documents["history.json"]] == [3]
    assert documents["versions.json"]["kafka"].startswith("4.")
    assert {one["check"] for one in documents["doctor.json"]} >= {"brokers"}
    assert documents["status.json"]["milestone"] is None
