"""The lists as a user meets them: through the command line on a running stack, and in the demonstration."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from support.cli.commandline import Cli
from support.cli.jsonshapes import parsed
from support.events import readings
from support.harness import wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def wait_for(cli: Cli, events: int) -> None:
    wait_until(lambda: cli.events_shown() >= events, f"a milestone of {events} events")


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A running stack whose driver has met unusable, late and skewed events."""
    folder = tmp_path_factory.mktemp("lists")
    (folder / "job.yaml").write_text(readings.job_text("lists"))
    (folder / "event.avsc").write_text(json.dumps(readings.SCHEMA))
    made = Cli(folder)
    done = made.run("up", made.job_file, "--detach", "--json")
    assert done.returncode == 0, done.stderr
    servers = parsed(["up"], done.stdout)["bootstrap_servers"]
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})

    def produce(partition: int, *values: bytes | None) -> None:
        for value in values:
            producer.produce("lists.events", value=value, key=b"[/k]", partition=partition)
        assert producer.flush(20) == 0

    try:
        produce(0, b"bad", None, readings.encode(None, readings.START_MS), b"worse")
        wait_for(made, 4)
        produce(1, readings.encode("k1", readings.START_MS + 10 * 3_600_000))
        wait_for(made, 5)
        produce(1, readings.encode("k1", readings.START_MS + 10 * 3_600_000))
        wait_for(made, 6)
        produce(0, readings.encode("k2", readings.START_MS))
        wait_for(made, 7)
        yield made
    finally:
        made.run("down")


def test_dead_letters_are_listed_with_filters(cli: Cli) -> None:
    """All with their reasons; by reason; the newest of a limit; a reason that does not exist is named."""
    found = cli.json("dead-letters", "list")
    assert found["problems"] == []
    assert [one["reason"] for one in found["entries"]] == ["undecodable", "no value", "no key", "undecodable"]
    assert [(one["topic"], one["partition"], one["offset"]) for one in found["entries"]] == [
        ("lists.events", 0, offset) for offset in range(4)
    ]
    chosen = cli.json("dead-letters", "list", "--reason", "undecodable", "--limit", "1")
    assert (chosen["total"], [one["offset"] for one in chosen["entries"]]) == (2, [3])
    table = cli.run("dead-letters", "list")
    assert "lists.events/0/3" in table.stdout
    assert [one["head"] for one in found["entries"]].count("bad") == 1
    hidden = cli.run("dead-letters", "list", "--json", CUTWATER_SHOW_PAYLOADS="0")
    entries = parsed(["dead-letters", "list"], hidden.stdout)["entries"]
    assert [one["head"] for one in entries] == [None] * 4, "no event's bytes are shown"
    assert [one["offset"] for one in entries] == [0, 1, 2, 3]
    assert "[/k]" in table.stdout, "a key is no markup"
    wrong = cli.run("dead-letters", "list", "--reason", "ugly")
    assert wrong.returncode == 2
    assert "the reasons are: no source offset, no value" in wrong.stderr


def test_late_pairs_are_listed(cli: Cli) -> None:
    """The event behind the watermark, once for its three windows, and the watermark that had closed its pane."""
    found = cli.json("late", "list")
    assert (found["total"], found["problems"]) == (1, [])
    assert {(one["key"], one["partition"], one["offset"]) for one in found["entries"]} == {("k2", 0, 4)}
    closed = readings.START_MS + 10 * 3_600_000 - readings.LATENESS_MS
    assert {one["watermark_ms"] for one in found["entries"]} == {closed}
    assert cli.json("late", "list", "--key", "k1")["total"] == 0
    assert "k2" in cli.run("late", "list").stdout


def test_replaying_is_tried_done_and_not_repeated(cli: Cli) -> None:
    """A dry run writes nothing; a replay names where each event went; the second finds nothing left to do."""
    dry = cli.json("dead-letters", "replay", "--dry-run")
    assert len(dry["entries"]) == 4
    assert cli.json("dead-letters", "list", "--unreplayed")["total"] == 4
    done = cli.json("dead-letters", "replay", "--reason", "undecodable")
    assert [one["reason"] for one in done["entries"]] == ["undecodable"] * 2
    # Offsets 5 and 6 of partition 0, then the end of the transaction.
    assert [one["replayed"] for one in done["entries"]] == [f"lists.events/0/{offset}" for offset in (5, 6)]
    # By now the two may be new letters, which a replay would take: never the old ones again.
    again = cli.json("dead-letters", "replay", "--reason", "undecodable", "--dry-run")
    assert {one["offset"] for one in again["entries"]} <= {5, 6}
    wait_until(lambda: cli.json("dead-letters", "list")["total"] == 6, "two new letters, still undecodable")
    listed = {one["offset"]: one["replayed"] for one in cli.json("dead-letters", "list")["entries"]}
    assert listed == {0: "lists.events/0/5", 3: "lists.events/0/6", 1: None, 2: None, 5: None, 6: None}


def test_the_demonstration_with_little_lateness_is_exact(tmp_path: Path) -> None:
    """`cutwater demo --lateness 3h` has late events, and rows and late list together are DuckDB's: exit 0."""
    arguments = ["demo", "--days", "6", "--lateness", "3h", "--data-dir", str(tmp_path / "demo")]
    command = [sys.executable, "-m", "cutwater.cli.main", *arguments]
    env = {**os.environ, "COLUMNS": "160"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, env=env, check=False)
    text = " ".join(done.stdout.split())
    assert done.returncode == 0, text + done.stderr
    assert "0 missing, 0 unexpected, 0 different" in text
    sums = re.search(r"([\d,]+) counted and ([\d,]+) late, of [\d,]+ \(event, window\) pairs: 0 lost", text)
    assert sums, text
    assert int(sums[2].replace(",", "")) > 0, "with three hours, flights must be late"
