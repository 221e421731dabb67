"""`cutwater load` on a real broker: what it writes, read back and judged by the rules of the driver."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.kafka import admin
from cutwater.cli.main import app
from cutwater.core.events.rejection import TOO_FAR_AHEAD, Flaw
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.operations.event_sample import judge_records
from cutwater.operations.topic_sample import sample
from support.cli.jsonshapes import parsed
from support.cli.stack_file import write_stack
from support.views.changelogs import make_job


@pytest.fixture
def job(broker: Any, tmp_path: Path) -> Job:
    """A job whose stack seems to run with this broker, and its empty source topic."""
    made, job_file = make_job(tmp_path / "job")
    admin.create_topics(broker.cluster, [topics.events(made.topic, 3)])
    write_stack(tmp_path, "", job_file=str(job_file), bootstrap=broker.cluster.bootstrap)
    return made


def load(folder: Path, *options: str) -> Any:
    done = CliRunner().invoke(app, ["load", "--data-dir", str(folder), "--json", *options])
    assert done.exit_code == 0, done.output
    return parsed(["load"], done.stdout)


def judged(broker: Any, job: Job, topic: str) -> list[dict[str, Any] | Flaw]:
    records = sample(broker.cluster, topic, 10_000)
    return [found for _, found in judge_records(job, records, known_schemas(job, None))]


def test_a_load_writes_what_it_says(broker: Any, job: Job, tmp_path: Path) -> None:
    """So many events of so many keys; half of the bad ones are unreadable; a topic of them comes again."""
    flawed = ("--bad", "0.1", "--duplicates", "0.1", "--late", "0.1")
    told = load(tmp_path, "--rate", "2000", "--events", "1500", "--keys", "40", "--zipf", "1", *flawed)
    found = judged(broker, job, job.topic)
    events = [one for one in found if not isinstance(one, Flaw)]
    flaws = Counter(one.reason for one in found if isinstance(one, Flaw))
    assert told["delivered"] == len(found) == 1_500
    assert told["bad"] == flaws.total() > 100
    assert flaws[TOO_FAR_AHEAD] > told["bad"] / 4
    keys = Counter(job.key_of(one) for one in events)
    assert len(keys) == 40
    assert keys.most_common(1)[0][1] > 3 * keys.most_common(5)[-1][1] * 0.9, "the first of five by Zipf's law"
    newest_us = max(one[job.time_field] for one in events)
    closed_us = (job.window.size_ms + job.lateness_ms) * 1_000
    assert sum(newest_us - one[job.time_field] >= closed_us for one in events) == told["late"] > 100

    again = load(tmp_path, "--from-topic", job.topic, "--events", "500", "--rate", "5000")
    assert (again["delivered"], again["plain"]) == (500, 500)
    assert sum(not isinstance(one, Flaw) for one in judged(broker, job, job.topic)) == len(events) + 500


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shape", "square"], "steady, spike, sawtooth"),
        (["--time-unit", "days"], "s, ms, us"),
        (["--bad", "0.7", "--late", "0.7"], "more than all events"),
        (["--time-field", "nothing"], "nothing"),
        (["--from-topic", "no-such-topic"], "no-such-topic"),
    ],
)
def test_what_a_load_cannot_do_is_refused(job: Job, tmp_path: Path, options: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["load", "--data-dir", str(tmp_path), *options])
    assert done.exit_code == 2
    assert said in done.output
