"""`cutwater plan`, asked before the job runs, against what the job then writes: within a factor of two."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from typer.testing import CliRunner

from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.topics import commit_stream
from cutwater.cli.main import app
from cutwater.core.checks.capacity import RECORD_BYTES
from cutwater.core.protocol import topics
from support.harness import GENERATION, Flow, flow, wait_until

START_MS = 1_700_000_040_000
PER_SECOND, SECONDS, EPOCH_S = 10, 1_200, 30
FIELDS = [
    {"name": "key", "type": "string"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "value", "type": "int"},
    {"name": "user", "type": "string"},
]
SCHEMA = json.dumps({"type": "record", "name": "Visit", "namespace": "test", "fields": FIELDS})
JOB = """
job: {name}
source: {{topic: {name}.events, schema: event.avsc, key: key, event_time: at}}
window: {{kind: tumbling, size: 1m}}
lateness: 1m
retention: 10m
partitions: 2
max_events_per_epoch: {per_epoch}
shuffle_partitions: 1
measures:
  visits: {{measure: count}}
  total: {{measure: sum, field: value}}
  last_user: {{measure: last, field: user}}
  users: {{measure: distinct, field: user}}
"""


def visits() -> list[dict[str, Any]]:
    """A few keys have most of the events, so sketches are of each size; nobody's keys come all alike."""
    rng = random.Random(11)
    return [
        {
            "key": f"page-{int(rng.paretovariate(0.7)) % 400}",
            "at": START_MS + number * 1_000 // PER_SECOND,
            "value": rng.randrange(100),
            "user": f"user-{rng.randrange(5_000):05d}-of-the-sample",
        }
        for number in range(PER_SECOND * SECONDS)
    ]


@pytest.mark.usefixtures("shared_spark")
@pytest.mark.slow
def test_state_changelog_and_output_come_to_what_a_sample_told(
    tmp_path: Path, broker: Any, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes per row of each, rows of the state, and all that the changelog and the output got."""
    monkeypatch.setenv("CUTWATER_TRIGGER_MS", str(EPOCH_S * 1_000))
    text = JOB.format(name=unique("planned"), per_epoch=PER_SECOND * EPOCH_S)
    with flow(broker.cluster, text, tmp_path, SCHEMA) as job:
        job.produce(visits())
        before = planned(job)
        assert before["measured"] is None
        assert before["unknown"] == []
        for process in (job.driver(CUTWATER_TRIGGER_MS="0"), job.signal(), job.start("cutwater.publisher")):
            assert process.poll() is None
        milestone = job.wait_committed(240)
        wait_until(lambda: published(job) >= milestone.token.sequence, "the newest milestone on the output", 120)
        told = before["estimate"]
        seconds = PER_SECOND * SECONDS / before["load"]["events_per_s"]
        alike("bytes of a row written", told["written_row_bytes"], mean(changelog := rows(job, changelog_of(job))))
        alike("changelog", told["changelog_write_bytes_per_s"] * seconds, sum(changelog.values_sizes))
        alike("bytes of a row of the state", told["row_bytes"], mean(state := changelog.newest()))
        alike("rows of the state", told["live_rows"], len(live(job, milestone.horizon_ms)))
        alike("the state", told["view_bytes"], mean(state) * len(live(job, milestone.horizon_ms)))
        output = rows(job, topics.output(job.job.name))
        alike("bytes of a row of the output", told["output_row_bytes"], mean(output))
        alike("output", told["output_write_bytes_per_s"] * seconds, sum(output.values_sizes))
        after = planned(job)
        assert after["measured"]["sampled"] > 0
        alike("a row as measured", after["estimate"]["written_row_bytes"], mean(changelog))


def planned(job: Flow) -> dict[str, Any]:
    done = CliRunner().invoke(
        app, ["plan", str(job.job_file), "--bootstrap-servers", job.cluster.bootstrap, "--json"]
    )
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def alike(what: str, told: float, measured: float) -> None:
    print(f"{what}: told {told:,.1f}, measured {measured:,.1f}, {told / measured:.2f}")
    assert 0.5 < told / measured < 2, what


class Rows:
    """The rows of a topic: sizes with Kafka's own share, the newest by key."""

    def __init__(self) -> None:
        self.values_sizes: list[int] = []
        self._newest: dict[bytes, int] = {}

    def add(self, key: bytes, size: int) -> None:
        self.values_sizes.append(size)
        self._newest[key] = size

    def newest(self) -> Rows:
        found = Rows()
        found.values_sizes = list(self._newest.values())
        return found


def mean(found: Rows) -> float:
    return sum(found.values_sizes) / len(found.values_sizes)


def changelog_of(job: Flow) -> str:
    return topics.changelog(job.job.name, GENERATION)


def rows(job: Flow, topic: str) -> Rows:
    """All but tombstones and end markers."""
    consumer: Consumer = make_consumer(job.cluster)
    found = Rows()
    for partition in range(job.job.shards.partitions):
        low, high = bounds(consumer, topic, partition)
        for message in read_range(consumer, topic, partition, low, high) if low < high else ():
            key, value = message.key(), message.value()
            if key is not None and value is not None:
                headers = sum(len(name) + len(body or b"") for name, body in message.headers() or ())
                found.add(key, RECORD_BYTES + len(key) + len(value) + headers)
    consumer.close()
    return found


def live(job: Flow, horizon_ms: int) -> list[tuple[str, int]]:
    newest = job.milestones()[-1][0]
    return [at for at in job.state(newest) if at[1] + 60_000 > horizon_ms]


def published(job: Flow) -> int:
    token = commit_stream.published(job.cluster, job.job.name)
    return token.sequence if token else -1
