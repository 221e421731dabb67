"""`cutwater canary`, without Spark: what it says of no canary, of one that begins, and of words that are wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from cutwater.cli.main import app
from support.canaries import Beside, cut
from support.views.changelogs import Sold, Writing, make_job


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    return make_job(tmp_path)[1]


@pytest.fixture
def writing(broker: Any, job_file: Path) -> Iterator[Writing]:
    from cutwater.adapters.job_files.loader import load_job

    one = Writing(broker.cluster, load_job(job_file))
    one.epoch([Sold("s1", 1, 10)], source_cut=cut(1))
    yield one
    one.close()


def status(writing: Writing, job_file: Path) -> Result:
    place = ("--job-file", str(job_file), "--bootstrap-servers", writing.cluster.bootstrap)
    return CliRunner().invoke(app, ["canary", "status", *place, "--json"])


def test_status_shows_the_newest_canary(writing: Writing, job_file: Path) -> None:
    assert status(writing, job_file).exit_code == 2
    beside = Beside(writing, milestones=4, differences=1)
    result = status(writing, job_file)
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert (shown["generation"], shown["state"]) == (str(beside.candidate.generation), "starting")
    assert (shown["gate"]["milestones"], shown["gate"]["differences"], shown["compared"]) == (4, 1, 0)


@pytest.mark.parametrize(
    ("words", "wrong"), [(["--keep", "soon"], "--keep"), (["--tolerance", "2"], "--tolerance")]
)
def test_a_wrong_word_is_named(writing: Writing, job_file: Path, words: list[str], wrong: str) -> None:
    place = (str(job_file), "--bootstrap-servers", writing.cluster.bootstrap)
    result = CliRunner().invoke(app, ["canary", "start", *place, *words])
    assert result.exit_code == 2
    assert wrong in result.output
