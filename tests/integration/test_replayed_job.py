"""`cutwater replay` beside a running job, and nothing of it left behind: every row against DuckDB's.

The source has gaps: events in transactions, and such as were never committed. Many events of a key have one time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream
from cutwater.core.protocol.records import Milestone
from support.cli.commandline import Cli, running_stack
from support.cli.jsonshapes import parsed
from support.events import all_measures
from support.harness import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]

JOB, KIND = "replayed", "sliding"
HOUR_MS = 3_600_000
SHARED = ("count", "sum_small", "first_label", "last_small", "max_big")
SKETCHES = ("distinct_big", "quantile_small", "top_label")
MEASURES = (*SHARED, *SKETCHES, "max_by_label", "sum_ratio", "avg_price")
Events = list[dict[str, Any]]


def made_events() -> Events:
    """Readings with few event times, so that places decide what is first and last."""
    return [{**one, "at": one["at"] - one["at"] % 5_000} for one in all_measures.events()]


class Source:
    """The source topic, and what is on it."""

    def __init__(self, cli: Cli) -> None:
        stack = json.loads((cli.folder / "data/stack.json").read_text())
        self.cluster = Cluster(stack["bootstrap_servers"])
        self.job = load_job(Path(cli.job_file))
        self._codec = Codec(self.job.event_schema)
        self.events: Events = []

    def produce(self, events: Events, transactional: bool = False) -> Milestone:
        """Produce events, and wait for a milestone that has read them. A transaction leaves a gap, and there is
        one more whose events nobody reads."""
        own = {"transactional.id": "test-of-replay"} if transactional else {}
        producer = Producer({**self.cluster.librdkafka(), **own})
        if transactional:
            producer.init_transactions(20)
            producer.begin_transaction()
            self._send(producer, events[:50])
            producer.flush(20)
            producer.abort_transaction(20)
            producer.begin_transaction()
        self._send(producer, events)
        assert producer.flush(20) == 0
        if transactional:
            producer.commit_transaction(20)
        self.events += events
        end = commit_stream.source_end(self.cluster, self.job.topic)

        def read() -> Milestone | None:
            newest = commit_stream.milestones(self.cluster, JOB, 1)
            return newest[0][0] if newest and newest[0][0].source_cut.covers(end) else None

        found: Milestone = wait_until(read, "a milestone with all events")
        return found

    def _send(self, producer: Producer, events: Events) -> None:
        for one in events:
            at = datetime.fromtimestamp(one["at"] / 1000, UTC)
            producer.produce(self.job.topic, self._codec.encode({**one, "at": at}), one["sensor"])
            producer.poll(0)


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    folder = tmp_path_factory.mktemp("replay")
    text = all_measures.job_text(JOB, KIND, MEASURES)
    with running_stack(folder, text, schema=all_measures.SCHEMA, CUTWATER_TRIGGER_MS="100") as made:
        yield made


class Played:
    """What the job has read: on time, and late."""

    def __init__(self, cli: Cli) -> None:
        source, every = Source(cli), made_events()
        self.cluster = source.cluster
        source.produce(every[:1_000])
        self.middle = source.produce(every[1_000:2_000], transactional=True)
        source.produce(every[2_000:])
        ahead = [{**one, "at": one["at"] + 6 * HOUR_MS} for one in every[:200]]
        source.produce(ahead[:150])
        source.produce(ahead[150:])
        self.on_time = [*source.events]
        self.late = every[500:540]
        self.newest = source.produce(self.late)
        assert cli.json("late", "list")["total"] == len(self.late)
        self.topics = set(admin.names(self.cluster))

    def at_rest(self, cli: Cli) -> None:
        """Nothing of a replay is left, and the job has not noticed it."""
        assert not (cli.folder / "data/replay").exists()
        assert set(admin.names(self.cluster)) == self.topics
        newest = commit_stream.milestones(self.cluster, JOB, 1)[0][0]
        assert newest.source_cut == self.newest.source_cut


@pytest.fixture(scope="module")
def played(cli: Cli) -> Played:
    return Played(cli)


def replay(cli: Cli, *options: str, code: int = 0) -> Any:
    done = cli.run("replay", *options, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return parsed(["replay"], done.stdout)


def rows_of(events: Events) -> dict[tuple[str, int], dict[str, Any]]:
    return {
        row: {name: values[name] for name in MEASURES} for row, values in all_measures.oracle(events, KIND).items()
    }


def table(path: Path) -> dict[tuple[str, int], dict[str, Any]]:
    return {
        (one["key"], round(one["window_start"].timestamp() * 1000)): one for one in pq.read_table(path).to_pylist()
    }


@pytest.mark.timeout(600)
def test_the_same_events_make_the_same_rows(cli: Cli, played: Played) -> None:
    """From the first event on, first and last by places, sketches too; as Parquet they are DuckDB's."""
    out = cli.folder / "whole"
    told = replay(cli, "--out", str(out))
    assert (told["equal"], told["differing_rows"]) == (True, 0)
    assert (told["events"], told["left_out_late"]) == (len(played.on_time), len(played.late))
    expected = rows_of(played.on_time)
    assert told["live_rows"] == told["replayed_rows"] == len(expected)
    for name in ("live", "replayed"):
        found = table(out / f"{name}.parquet")
        assert found.keys() == expected.keys()
        for row, values in expected.items():
            assert all(all_measures.agree(one, found[row][one], values[one]) for one in values), row
    assert pq.read_table(out / "differences.parquet").num_rows == 0
    played.at_rest(cli)


@pytest.mark.timeout(600)
def test_a_middle_milestone_is_the_start(cli: Cli, played: Played) -> None:
    """Its rows merged with the replayed ones are the job's."""
    out = cli.folder / "middle"
    told = replay(cli, "--from", str(played.middle.token), "--out", str(out))
    assert (told["equal"], told["differing_rows"]) == (True, 0)
    assert told["events"] == len(played.on_time) - 2_000
    expected = rows_of(played.on_time)
    assert told["live_rows"] == told["replayed_rows"] == len(expected)
    found = table(out / "replayed.parquet")
    assert {row: found[row]["first_label"] for row in expected} == {
        row: values["first_label"] for row, values in expected.items()
    }
    played.at_rest(cli)


@pytest.mark.timeout(600)
def test_late_events_that_count_are_the_reason(cli: Cli, played: Played) -> None:
    told = replay(cli, "--count-late", "--limit", "1000", code=1)
    late = rows_of(played.late)
    assert {(one["key"], one["window_start"]) for one in told["differences"]} == {
        (key, datetime.fromtimestamp(start / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")) for key, start in late
    }
    assert told["reasons"] == {"late": len(late), "job_file": 0, "unknown": 0}
    assert (told["counted_late"], told["left_out_late"]) == (len(played.late), 0)
    played.at_rest(cli)


@pytest.mark.timeout(600)
def test_another_job_file_differs_as_duckdb_says(cli: Cli, played: Played) -> None:
    """It counts only some events, and has fewer measures: the keys and measures that differ, and no others."""
    text = all_measures.job_text(JOB, KIND, SHARED).replace(
        "event_time: at}", 'event_time: at, where: "small > 0"}'
    )
    (cli.folder / "other.yaml").write_text(text)
    out = cli.folder / "other"
    told = replay(cli, "--job-file", str(cli.folder / "other.yaml"), "--limit", "10000", "--out", str(out), code=1)
    live = rows_of(played.on_time)
    other = rows_of([one for one in played.on_time if one["small"] is not None and one["small"] > 0])
    expected = {}
    for row, values in live.items():
        mine = other.get(row)
        changed = {one for one in SHARED if mine is None or not all_measures.agree(one, mine[one], values[one])}
        if changed:
            expected[row] = ("changed" if mine else "removed", changed)
    found = {
        (one["key"], round(datetime.fromisoformat(one["window_start"]).timestamp() * 1000)): one
        for one in told["differences"]
    }
    assert {row: (one["kind"], set(one["live"])) for row, one in found.items()} == expected
    for row, one in found.items():
        if one["replayed"] is not None:
            assert one["replayed"] == {name: other[row][name] for name in one["replayed"]}
    assert set(told["measures"]["shared"]) == set(SHARED)
    assert set(told["measures"]["only_live"]) == set(MEASURES) - set(SHARED)
    assert told["reasons"] == {"late": 0, "job_file": len(expected), "unknown": 0}
    written = {
        (one["key"], round(one["window_start"].timestamp() * 1000), one["measure"]): (one["live"], one["replayed"])
        for one in pq.read_table(out / "differences.parquet").to_pylist()
    }
    wanted = {(*row, name) for row, (_, changed) in expected.items() for name in changed}
    assert wanted <= set(written)
    hidden = {values for row, values in written.items() if row not in wanted}
    assert hidden <= {(None, None)}, "parts differ of which readers see the same value"
    played.at_rest(cli)


@pytest.mark.timeout(600)
def test_ctrl_c_leaves_nothing_behind(cli: Cli, played: Played) -> None:
    """While the sandbox's driver runs."""
    command = [sys.executable, "-m", "cutwater.cli.main", "replay"]
    with subprocess.Popen(command, env={**os.environ, **cli.env}, stderr=subprocess.PIPE, text=True) as running:
        folder = cli.folder / "data/replay" / str(running.pid)
        log = folder / "region/logs/driver.log"
        wait_until(lambda: log.exists() or running.poll() is not None, "the sandbox's driver")
        children = psutil.Process(running.pid).children(recursive=True)
        assert children
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=90)
        assert running.returncode != 0
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []
    played.at_rest(cli)
