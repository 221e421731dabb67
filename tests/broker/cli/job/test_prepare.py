"""`cutwater prepare` on a real broker, and what a process says that has no terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.kafka import admin
from cutwater.core.protocol import topics
from support.cli.jsonshapes import parsed
from support.views.changelogs import make_job


def cutwater(module: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_topics_of_a_job_are_created_once(broker: Any, tmp_path: Path) -> None:
    """Without --source a missing source topic is an error, nothing is created; the second time all is there."""
    job, job_file = make_job(tmp_path / "job")
    place = ["--bootstrap-servers", broker.cluster.bootstrap, "--data-dir", str(tmp_path / "data"), "--json"]
    refused = cutwater("cutwater.cli.main", "prepare", str(job_file), *place)
    assert (refused.returncode, job.topic in refused.stderr) == (2, True)
    assert admin.descriptions(broker.cluster, [topics.barriers(job.name)]) == {}
    first = cutwater("cutwater.cli.main", "prepare", str(job_file), "--source", *place)
    created = parsed(["prepare"], first.stdout)["created"]
    assert first.returncode == 0
    assert {job.topic, topics.barriers(job.name), topics.milestones(job.name)} <= set(created)
    assert set(admin.descriptions(broker.cluster, created)) == set(created)
    again = cutwater("cutwater.cli.main", "prepare", str(job_file), "--source", *place)
    assert (again.returncode, parsed(["prepare"], again.stdout)) == (0, {"created": []})


def test_json_logs_go_to_standard_output_and_so_does_the_error_that_ends_it(tmp_path: Path) -> None:
    """In a container nothing else is read: each line is an object, and names the service."""
    _, job_file = make_job(tmp_path)
    env = {"CUTWATER_LOG_JSON": "true", "CUTWATER_BOOTSTRAP_SERVERS": "127.0.0.1:1", "CUTWATER_WAIT_MS": "100"}
    ended = cutwater("cutwater.commit_signal", str(job_file), **env)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {one["service"] for one in lines} == {"commit-signal"}
    assert (lines[-1]["event"], lines[-1]["exit_code"], ended.returncode) == ("ended", 4, 4)
    assert "127.0.0.1:1" in lines[-1]["error"]
    assert "cutwater commit-signal" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bootstrap-servers", "127.0.0.1:9"], "name its views too, with --view"),
        (["--view", "http://127.0.0.1:9", "--lateness", "3h"], "with --view, the job file sets it"),
    ],
)
def test_a_demonstration_is_told_all_of_where_it_runs(arguments: list[str], said: str, tmp_path: Path) -> None:
    """Half of another stack would be taken for none: the flights would go elsewhere than the user thinks."""
    refused = cutwater("cutwater.cli.main", "demo", *arguments, "--data-dir", str(tmp_path), COLUMNS="250")
    assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr
