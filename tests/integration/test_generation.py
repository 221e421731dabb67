"""A generation with more partitions, under load: started and promoted, with everything that reads it."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from confluent_kafka import Producer

import counting
from commandline import Cli
from harness import wait_until

EVENTS = [*counting.events(3_999), {"key": "k0", "at": counting.START_MS + 600_000, "value": 1}]
"""The last one is the newest, so that every watermark gets there."""
PIECE = 250


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    (tmp_path / "job.yaml").write_text(counting.job_text("counts"))
    (tmp_path / "event.avsc").write_text(counting.SCHEMA)
    made = Cli(tmp_path)
    done = made.run("up", made.job_file, "--detach")
    assert done.returncode == 0, done.stderr
    try:
        yield made
    finally:
        made.run("down")


def produce(cli: Cli, events: list[dict[str, Any]]) -> None:
    lines = [
        json.dumps({**one, "at": datetime.fromtimestamp(one["at"] / 1000, UTC).isoformat()}) for one in events
    ]
    file = cli.folder / "events.jsonl"
    file.write_text("\n".join(lines) + "\n")
    assert cli.json("produce", str(file))["delivered"] == len(events)


def api(cli: Cli) -> str:
    return str(json.loads((cli.folder / "data/stack.json").read_text())["api_url"])


def served(cli: Cli) -> dict[tuple[str, int], dict[str, Any]]:
    """Every window of every key, as the API shows it."""
    found = {}
    for key in {one["key"] for one in EVENTS}:
        for row in httpx.get(f"{api(cli)}/v1/state/{key}", timeout=10).json()["rows"]:
            start = round(datetime.fromisoformat(row["window_start"]).timestamp() * 1000)
            found[key, start] = {"ticks": row["ticks"], "total": row["total"]}
    return found


def shown(cli: Cli) -> dict[str, Any]:
    """The milestone that the API shows now."""
    found: dict[str, Any] = httpx.get(f"{api(cli)}/v1/milestone", timeout=10).json()
    return found


class Reader(threading.Thread):
    """Asks for one key all the time."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = f"{url}/v1/state/k7"
        self.stop = threading.Event()
        self.sequences: list[int] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        with httpx.Client(timeout=30) as client:
            while not self.stop.wait(0.02):
                answer = client.get(self._url)
                if answer.status_code != 200:
                    self.wrong.append(answer.text)
                else:
                    self.sequences.append(answer.json()["milestone"]["sequence"])


def test_six_partitions_instead_of_two_under_load_and_back(cli: Cli) -> None:
    """Readers see sequences grow and no error; view, output and changelog are equal, and right, at the end."""
    produce(cli, EVENTS[:1_000])
    wait_until(lambda: cli.json("status")["milestone"], "a first milestone")
    reader = Reader(api(cli))
    reader.start()
    claimed = cli.json("generation", "start", "--partitions", "6", "--reason", "a test")
    generation = claimed["generation"]
    assert claimed["partitions"] == 6
    made = 1_000

    def caught_up() -> bool:
        nonlocal made
        if made < 2_500:
            produce(cli, EVENTS[made : made + PIECE])
            made += PIECE
        [one] = cli.json("generation", "list")
        return one["epoch"] is not None

    wait_until(caught_up, f"{generation} has a milestone of its own; logs in {cli.folder}", 240)
    cli.json("generation", "promote", generation, "--wait", "0")
    produce(cli, EVENTS[made:])  # the last one raises the watermark: before that it may be behind the parent's
    [told] = cli.json("generation", "promote", generation)
    assert told["state"] == "promoted"
    wait_until(lambda: verified(cli) == {"changelog", "view", "state", "output"}, "all places equal", 240)
    reader.stop.set()
    reader.join(30)
    assert not reader.wrong, reader.wrong[:3]
    assert reader.sequences == sorted(reader.sequences)
    assert shown(cli)["token"].startswith(generation)
    assert served(cli) == counting.expected(EVENTS)
    assert cli.run("milestones", "--check").returncode == 0


def promoted(cli: Cli, number: int) -> str:
    """Waits for the promotion of the generation of that number; returns its id."""

    def found() -> str | None:
        told = [one["generation"] for one in cli.json("generation", "list") if one["state"] == "promoted"]
        return told[0] if told and told[0].startswith(f"g{number}-local-") else None

    return wait_until(found, f"generation {number} promoted; logs in {cli.folder}", 240)


@pytest.mark.timeout(1_200)  # three Spark drivers, one after the other
@pytest.mark.rotating
def test_foreign_rows_and_a_lost_checkpoint_end_a_generation_and_the_next_one_follows(cli: Cli) -> None:
    """By itself, from the last milestone, and again behind that: everything is right at the end."""
    produce(cli, EVENTS[:1_000])
    wait_until(lambda: cli.json("status")["milestone"], "a first milestone")
    stack = json.loads((cli.folder / "data/stack.json").read_text())
    producer = Producer({"bootstrap.servers": stack["bootstrap_servers"]})
    producer.produce(f"counts.changelog.{stack['generation']}", key=b"zombie", value=b"old", partition=0)
    assert producer.flush(10) == 0
    produce(cli, EVENTS[1_000:2_000])
    second = promoted(cli, 2)
    for process in psutil.process_iter(["cmdline"]):
        if (process.info["cmdline"] or [])[1:] == ["-m", "cutwater_spark.driver", cli.job_file]:
            process.kill()
    shutil.rmtree(cli.folder / "data/checkpoints/counts" / second)
    produce(cli, EVENTS[2_000:])
    third = promoted(cli, 3)
    wait_until(lambda: verified(cli) == {"changelog", "view", "state", "output"}, "all places equal", 240)
    assert served(cli) == counting.expected(EVENTS)
    assert shown(cli)["token"].startswith(third)
    assert json.loads(cli.run("status", "--json").stdout)["stack"]["generation"] == third
    log = (cli.folder / "data/logs/up.log").read_text()
    assert f"no checkpoint fits {second}: {third} follows" in log


def verified(cli: Cli) -> set[str]:
    """The places that are equal to the computation at the newest milestone, once every event is in it."""
    told = json.loads(cli.run("status", "--json").stdout)  # its exit code may be of an alert that is on
    if sum(told["milestone"]["source_cut"].values()) != len(EVENTS):
        return set()
    done = cli.run("verify", "--json")
    if done.returncode != 0:
        return set()
    told = json.loads(done.stdout)
    assert told["places"][0]["found"]["rows"] == len(counting.expected(EVENTS))
    return {one["place"] for one in told["places"] if one["verdict"] == "equal"}
