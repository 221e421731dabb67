"""The Python on the pages, run as it stands there, on a real broker: only address, token and job are put in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client import bounds, make_consumer
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import TopicPartition
from support.events import counting
from support.harness import kill_session
from support.pages import PAGES, Block, blocks, is_program, text_of
from support.views.changelogs import Sold, Writing, make_job
from support.views.publishing import publishing, read, wait_published

PATIENCE_S = 60
PROGRAMS = [block for page in PAGES if "```python" in text_of(page) for block in blocks(page) if is_program(block)]


@pytest.fixture(scope="module")
def place(broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder with the job files that the pages name, and a job of two published milestones behind them."""
    folder = tmp_path_factory.mktemp("pages")
    job, path = make_job(folder)
    for name in ("job.yaml", "deploy/jobs/flights.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(path.read_text())
        (folder / name).with_name("sale.avsc").write_text((folder / "sale.avsc").read_text())
    writing = Writing(broker.cluster, job)
    with publishing(broker.cluster, job, folder / "store"):
        for sequence, rows in enumerate(([Sold("a", 1, 5)], [Sold("b", 1, 7), Sold("c", 1, 1)]), 1):
            writing.epoch(rows)
            wait_published(broker.cluster, job, sequence)
        milestones = read(broker.cluster, job, 2)
    writing.close()
    return folder, job, milestones


def run_until(block: Block, wanted: str, folder: Path, broker: Any, changes: dict[str, str]) -> str:
    """What the program prints until a line has `wanted`; it is killed then, since readers never end."""
    text = block.text
    for old, new in changes.items():
        text = text.replace(old, new)
    program = folder / "program.py"
    program.write_text(text, encoding="utf-8")
    env = {**os.environ, "CUTWATER_BOOTSTRAP_SERVERS": broker.cluster.bootstrap, "PYTHONUNBUFFERED": "1"}
    with (folder / "program.log").open("w+") as log:
        process = subprocess.Popen(
            [sys.executable, str(program)], cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True
        )
        try:
            for _ in range(PATIENCE_S * 10):
                ended = process.poll() is not None
                shown = (folder / "program.log").read_text()
                if re.search(wanted, shown) or ended:
                    return shown
                try:
                    process.wait(0.1)
                except subprocess.TimeoutExpired:
                    continue
            raise AssertionError(f"{block} did not print {wanted!r} in {PATIENCE_S} s: {shown}")
        finally:
            kill_session(process.pid)
            process.wait(10)


@pytest.mark.parametrize("block", [one for one in PROGRAMS if "committed(" in one.text], ids=str)
def test_a_reader_of_the_pages_reads_milestones(block: Block, place: Any, broker: Any) -> None:
    """It comes to the newest milestone."""
    folder, _, (first, second) = place
    changes = {"127.0.0.1:9092": broker.cluster.bootstrap, "g1-local-00000000:42": str(first.token)}
    shown = run_until(block, re.escape(str(second.token)), folder, broker, changes)
    assert str(second.token) in shown, shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("block", [one for one in PROGRAMS if "EventProducer(" in one.text], ids=str)
def test_a_producer_of_the_pages_produces(block: Block, tmp_path: Path, broker: Any, unique: Any) -> None:
    """Its one event is on the topic when it has ended, without a word."""
    name = unique("pages")
    (tmp_path / "job.yaml").write_text(counting.job_text(name))
    (tmp_path / "event.avsc").write_text(counting.SCHEMA)
    admin.create_topics(broker.cluster, [topics.events(f"{name}.events", 1)])
    shown = run_until(block, "Traceback", tmp_path, broker, {"127.0.0.1:9092": broker.cluster.bootstrap})
    assert shown == ""
    consumer = make_consumer(broker.cluster)
    assert bounds(consumer, *TopicPartition(f"{name}.events", 0)) == (0, 1)
    consumer.close()


@pytest.mark.parametrize("block", [one for one in PROGRAMS if "aiokafka" in one.text], ids=str)
def test_an_aiokafka_client_of_the_pages_reads(block: Block, place: Any, broker: Any) -> None:
    """It reads a milestone of the commit stream, which is kept in transactions."""
    folder, job, _ = place
    changes = {"flights.milestones": topics.milestones(job.name)}
    shown = run_until(block, r"\d+ \d+ bytes", folder, broker, changes)
    assert re.search(r"\d+ \d+ bytes", shown), shown


def test_every_program_is_run_above() -> None:
    """A Python block of another kind needs a test first."""
    # tests/spark/attach and tests/spark/expressions/test_transform_flow.py run the last two.
    known = ("committed(", "EventProducer(", "aiokafka", "attach(sales", "def enrich(")
    assert [str(one) for one in PROGRAMS if not any(word in one.text for word in known)] == []
