"""`cutwater tail` beside a publisher: milestones whole, resumed by token, and left by whoever reads them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cutwater.adapters.topics.commit_stream import published
from cutwater.cli.report import iso
from cutwater.core.job.job import Job
from support.cli.jsonshapes import parsed
from support.views.changelogs import HOUR_MS, Sold, Writing, make_job
from support.views.publishing import publishing, wait_published

AMOUNTS = (5, 50, 500)


class Tailed(NamedTuple):
    job: Job
    job_file: Path
    bootstrap: str

    def command(self, *arguments: str) -> list[str]:
        place = [str(self.job_file), "--bootstrap-servers", self.bootstrap]
        return [sys.executable, "-m", "cutwater.cli.main", "tail", *place, *arguments]

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "COLUMNS": "200"}
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=120, env=env, check=False
        )
        assert done.returncode == code, done.stderr
        return done


def sold(amount: int) -> list[Sold]:
    return [Sold(f"shop-{number}", 1, amount + number) for number in range(30)]


@pytest.fixture(scope="module")
def tailed(broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tailed]:
    """Three milestones on the output, and a publisher that waits for more."""
    folder = tmp_path_factory.mktemp("tail")
    job, path = make_job(folder)
    writing = Writing(broker.cluster, job)
    with publishing(broker.cluster, job, folder / "store"):
        for sequence, amount in enumerate(AMOUNTS, 1):
            writing.epoch(sold(amount))
            wait_published(broker.cluster, job, sequence)
        yield Tailed(job, path, broker.cluster.bootstrap)
    writing.close()


def told(line: str) -> dict[tuple[str, str], int]:
    changes = parsed(["tail"], line)["changes"]
    return {(row["key"], row["window_start"]): row["values"]["pieces"] for row in changes}


@pytest.mark.slow
@pytest.mark.parametrize("source", [[], ["--changelog"]], ids=["output", "changelog"])
def test_one_line_of_json_is_one_whole_milestone(tailed: Tailed, source: list[str]) -> None:
    """With every row of it. Without a token the changelog begins with the whole state."""
    lines = tailed.run("--json", "--idle", "3", *source).stdout.splitlines()
    expected = [{(one.shop, iso(HOUR_MS)): one.pieces for one in sold(amount)} for amount in AMOUNTS]
    assert [told(line) for line in lines] == (expected[-1:] if source else expected)
    numbers = [(one["first_sequence"], one["sequence"]) for one in map(json.loads, lines)]
    assert numbers == ([(1, 3)] if source else [(1, 1), (2, 2), (3, 3)])


@pytest.mark.slow
def test_a_token_is_where_it_goes_on(tailed: Tailed) -> None:
    """`--after` shows what follows; a token that is not there is exit code 2; `--limit` ends it."""
    (line,) = tailed.run("--json", "--after", "g1-local-00000000:1", "--limit", "1").stdout.splitlines()
    assert json.loads(line)["token"] == "g1-local-00000000:2"
    assert "does not hold" in tailed.run("--after", "g1-local-00000000:9", code=2).stderr
    tailed.run("--after", "nonsense", code=2)


def test_the_table_names_the_token_and_what_it_leaves_out(tailed: Tailed) -> None:
    """A person sees the first rows, and how many more there are."""
    shown = tailed.run("--limit", "1", "--rows", "4").stdout
    assert "g1-local-00000000:1: 30 rows" in shown
    assert "26 more rows (--rows" in shown
    assert shown.count("shop-") == 4


def test_ctrl_c_ends_it_cleanly(tailed: Tailed) -> None:
    """While it waits for the next milestone: exit code 0, and nothing on standard error."""
    with subprocess.Popen(
        tailed.command("--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert [json.loads(process.stdout.readline())["sequence"] for _ in AMOUNTS] == [1, 2, 3]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def test_a_reader_that_has_enough_ends_it_cleanly(tailed: Tailed) -> None:
    """`cutwater tail --json | head -1` prints no traceback."""
    with subprocess.Popen(
        tailed.command("--json", "--idle", "3"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (0, "")


def test_without_a_job_file_it_says_what_is_missing(tailed: Tailed) -> None:
    """Brokers alone do not say which job."""
    command = [sys.executable, "-m", "cutwater.cli.main", "tail", "--bootstrap-servers", tailed.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "needs the job file" in done.stderr) == (2, True)


def test_the_newest_published_milestone_is_known(broker: Any, tailed: Tailed, tmp_path: Path) -> None:
    """What `cutwater status` shows: the token at the publisher's position; None before the first."""
    assert str(published(broker.cluster, tailed.job.name)) == "g1-local-00000000:3"
    fresh = Writing(broker.cluster, make_job(tmp_path)[0])
    assert published(broker.cluster, fresh.job.name) is None
    fresh.close()
