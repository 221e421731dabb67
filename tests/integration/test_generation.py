"""A generation with more partitions, under load: started and promoted, with everything that reads it."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil
import pytest
from confluent_kafka import Producer

from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream
from cutwater.client import committed
from cutwater.core.errors import ForeignRowsError
from cutwater.core.job.job import CORRECTION, TOMBSTONE
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.local.machine.ports import free_ports
from cutwater.local.stack.stack import BEHIND
from support.cli.commandline import Cli, running_stack
from support.cli.jsonshapes import parsed
from support.events import counting
from support.harness import descendants, wait_until

pytestmark = pytest.mark.slow

EVENTS = [*counting.events(3_999), {"key": "k0", "at": counting.START_MS + 600_000, "value": 1}]
"""The last one is the newest, so that every watermark gets there."""
PIECE = 250


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    driver, signal = free_ports(2)
    with running_stack(
        tmp_path,
        counting.job_text("counts", partitions=4),
        CUTWATER_DRIVER_PORT=str(driver),
        CUTWATER_SIGNAL_PORT=str(signal),
    ) as made:
        yield made


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


class Seen(NamedTuple):
    """One answer of the API."""

    at_s: float
    """By a clock that never goes back."""
    generation: str
    sequence: int


class Reader(threading.Thread):
    """Asks for one key all the time."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = f"{url}/v1/state/k7"
        self.stop = threading.Event()
        self.seen: list[Seen] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        with httpx.Client(timeout=30) as client:
            while not self.stop.wait(0.02):
                try:
                    answer = client.get(self._url)
                except httpx.HTTPError as error:
                    self.wrong.append(repr(error))
                    return
                if answer.status_code != 200:
                    self.wrong.append(answer.text)
                    continue
                milestone = answer.json()["milestone"]
                generation, _, sequence = milestone["token"].rpartition(":")
                self.seen.append(Seen(time.monotonic(), generation, int(sequence)))

    def end(self) -> None:
        """Raises AssertionError where an answer was an error, or went back."""
        self.stop.set()
        self.join(60)
        assert not self.wrong, self.wrong[:3]
        sequences = [one.sequence for one in self.seen]
        assert sequences == sorted(sequences)

    def pause_s(self, generation: str) -> float:
        """How long the last milestone before a generation's first one was the newest that readers had."""
        begins = next(number for number, one in enumerate(self.seen) if one.generation == generation)
        before = self.seen[begins - 1]
        since = next(one for one in self.seen if one.sequence == before.sequence)
        return self.seen[begins].at_s - since.at_s


@pytest.mark.timeout(1_200)  # three Spark drivers, two of them at a time
def test_six_partitions_instead_of_four_under_load_and_then_a_rollback(cli: Cli) -> None:
    """Readers see sequences grow and no error; view, output and changelog are equal, and right, after both."""
    cli.produce(EVENTS[:1_000])
    wait_until(lambda: cli.json("status")["milestone"], "a first milestone")
    reader = Reader(api(cli))
    reader.start()
    six = six_under_load(cli)
    assert served(cli) == counting.expected(EVENTS)
    back = rolled_back(cli)
    assert served(cli) == counting.expected(EVENTS)
    reader.end()
    # Of a rollback it would be mostly the time in which there are no events.
    print(f"readers had nothing newer for {reader.pause_s(six):.1f} s before {six}")
    assert cli.run("milestones", "--check").returncode == 0
    assert_output_is_whole(cli, back)


def six_under_load(cli: Cli) -> str:
    """Events come while a generation of six partitions catches up, and behind it. At the end all are in."""
    claimed = cli.json("generation", "start", "--partitions", "6", "--reason", "a test")
    generation = str(claimed["generation"])
    assert claimed["partitions"] == 6
    made = 1_000

    def caught_up() -> bool:
        nonlocal made
        if made < 2_500:
            cli.produce(EVENTS[made : made + PIECE])
            made += PIECE
        [_, one] = cli.json("generation", "list")
        return one["epoch"] is not None

    wait_until(caught_up, f"{generation} has a milestone of its own; logs in {cli.folder}", 240)
    cli.json("generation", "promote", generation, "--wait", "0")
    cli.produce(EVENTS[made:])  # the last one raises the watermark: before that it may be behind the parent's
    [told] = cli.json("generation", "promote", generation)
    assert told["state"] == "promoted"
    wait_until(lambda: verified(cli) == {"changelog", "view", "state", "output"}, "all places equal", 240)
    assert shown(cli)["token"].startswith(generation)
    assert parts(cli, "g1-local-00000000") == 4
    assert parts(cli, generation) == 6
    stack = json.loads(cli.run("status", "--json").stdout)["stack"]
    assert stack["logs"]["driver"].endswith(f"driver-{generation}.log")
    assert httpx.get(f"{stack['spark_ui_url']}/jobs/", timeout=30).status_code == 200
    for role, known in (("driver", "cutwater_driver_attempt"), ("commit-signal", "cutwater_signal_")):
        told = httpx.get(stack["metrics"][role], timeout=30)  # the first generation's process has ended by now
        assert told.status_code == 200
        assert known in told.text
    return generation


def rolled_back(cli: Cli) -> str:
    """To a milestone in the midst of the first generation's: what came behind it is read again, and is lost."""
    stream = [one for one, _ in commit_stream.milestones(cluster(cli), "counts")]
    of_first = [one for one in stream if one.generation == stream[0].generation and one.events]
    middle, lost = of_first[len(of_first) // 2 - 1], [of_first[-1], stream[-1]]
    assert middle.sequence < lost[0].sequence < lost[1].sequence
    before = cli.json("generation", "list")
    planned = cli.json("rollback", "--to", str(middle.token), "--dry-run")
    assert (planned["claimed"], planned["rewinds_to"]) == (False, middle.sequence)
    assert cli.json("generation", "list") == before
    done = cli.json("rollback", "--to", str(middle.token), "--wait", "240")
    assert (done["generation"], done["rewinds_to"]) == (planned["generation"], middle.sequence)
    generation = str(done["generation"])
    wait_until(lambda: verified(cli) == {"changelog", "view", "state", "output"}, "all places equal", 240)
    assert shown(cli)["token"].startswith(generation)
    first = first_of(cli, generation)
    assert (first.sequence, first.rewinds_to) == (stream[-1].sequence + 1, middle.sequence)
    for one in lost:
        answer = httpx.get(f"{api(cli)}/v1/state/k7", params={"at_least": str(one.token)}, timeout=30)
        assert answer.status_code == 410, answer.text
        assert f"went back to the state of milestone {middle.sequence}" in answer.text
    kept = httpx.get(f"{api(cli)}/v1/state/k7", params={"at_least": str(middle.token)}, timeout=30)
    assert kept.status_code == 200, kept.text
    return generation


def assert_output_is_whole(cli: Cli, back: str) -> None:
    """As a consumer reads it: no gap; at each milestone its events, each once; what is said again is marked."""
    stream = {one.sequence: one for one, _ in commit_stream.milestones(cluster(cli), "counts")}
    newest, before, state = max(stream), 0, dict[tuple[str, int], dict[str, Any]]()
    marked: Counter[str] = Counter()
    rewound: list[tuple[str, int]] = []
    for heard in committed(cli.job_file, cluster(cli), idle_s=60):
        assert heard.first_sequence == before + 1, "a gap"
        before, of = heard.token.sequence, stream[heard.token.sequence]
        assert heard.token == of.token
        for change in heard.changes:
            said = state.pop((change.key, change.window_start_ms), None)
            if change.kind in (CORRECTION, TOMBSTONE):
                assert heard.rewinds_to, f"{heard.token} corrects without a rollback"
                marked[change.kind] += 1
            else:
                assert said is None or said["ticks"] < change.values["ticks"], f"{heard.token} repeats {change}"
            if change.kind != TOMBSTONE:
                state[change.key, change.window_start_ms] = change.values
        held = sum(row["ticks"] for row in state.values())
        assert held == of.source_cut.records, heard.token
        if heard.rewinds_to:
            rewound.append((str(of.generation), heard.rewinds_to))
        if before == newest:
            break
    assert before == newest, "the output ends before the commit stream"
    assert state == counting.expected(EVENTS)
    assert marked[CORRECTION] > 0, "nothing was gone back behind"
    assert rewound == [(back, first_of(cli, back).rewinds_to)]


def first_of(cli: Cli, generation: str) -> Milestone:
    """The first milestone of a promoted generation."""
    stream = commit_stream.milestones(cluster(cli), "counts")
    return next(one for one, _ in stream if str(one.generation) == generation)


def cluster(cli: Cli) -> Cluster:
    """The stack's brokers."""
    return Cluster(json.loads((cli.folder / "data/stack.json").read_text())["bootstrap_servers"])


def parts(cli: Cli, generation: str) -> int:
    """Partitions of a generation's changelog."""
    return partition_count(cluster(cli), topics.changelog("counts", Generation.parse(generation)))


def promoted(cli: Cli, number: int) -> str:
    """Waits for the promotion of the generation of that number; returns its id."""

    def found() -> str | None:
        told = [one["generation"] for one in cli.json("generation", "list") if one["state"] == "promoted"]
        return told[0] if told and told[0].startswith(f"g{number}-local-") else None

    return wait_until(found, f"generation {number} promoted; logs in {cli.folder}", 240)


def running(cli: Cli, module: str) -> list[psutil.Process]:
    """The stack's processes of a service, in whatever generation."""
    words = ["-m", module, cli.job_file]
    return [one for one in psutil.process_iter(["cmdline"]) if (one.info["cmdline"] or [])[1:] == words]


@pytest.mark.timeout(1_200)  # three Spark drivers, one after the other
def test_foreign_rows_and_a_lost_checkpoint_end_a_generation_and_the_next_one_follows(cli: Cli) -> None:
    """By itself, from the last milestone, and again behind that: everything is right at the end."""
    cli.produce(EVENTS[:1_000])
    wait_until(lambda: cli.json("status")["milestone"], "a first milestone")
    stack = json.loads((cli.folder / "data/stack.json").read_text())
    producer = Producer({"bootstrap.servers": stack["bootstrap_servers"]})
    producer.produce(f"counts.changelog.{stack['generation']}", key=b"zombie", value=b"old", partition=0)
    assert producer.flush(10) == 0
    cli.produce(EVENTS[1_000:2_000])
    second = promoted(cli, 2)
    assert {one.nice() for one in running(cli, "cutwater_spark.driver")} == {min(19, os.nice(0) + BEHIND)}
    assert {one.nice() for one in running(cli, "cutwater.publisher")} == {os.nice(0)}, "consumers wait for it"
    # Its JVM, too: it lives on for a moment, and wrote its next offsets behind the folder's end.
    drivers = running(cli, "cutwater_spark.driver")
    killed = [one for driver in drivers for one in (*descendants(driver.pid), driver)]
    for process in killed:
        with suppress(psutil.NoSuchProcess):  # it ended with the one before it
            process.kill()
    _, alive = psutil.wait_procs(killed, timeout=10)
    assert not [one for one in alive if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    shutil.rmtree(cli.folder / "data/checkpoints/counts" / second)
    cli.produce(EVENTS[2_000:])
    third = promoted(cli, 3)
    wait_until(lambda: verified(cli) == {"changelog", "view", "state", "output"}, "all places equal", 240)
    assert served(cli) == counting.expected(EVENTS)
    assert shown(cli)["token"].startswith(third)
    assert json.loads(cli.run("status", "--json").stdout)["stack"]["generation"] == third
    log = (cli.folder / "data/logs/up.log").read_text()
    # By the exit code of the driver: no other end has this one.
    assert f"foreign rows have ended {stack['generation']}: {second} follows" in log
    assert f"driver ended with exit code {ForeignRowsError.exit_code} and is not restarted" in log
    assert f"no checkpoint fits {second}: {third} follows" in log


def verified(cli: Cli) -> set[str]:
    """The places that are equal to the computation at the newest milestone, once every event is in it."""
    told = json.loads(cli.run("status", "--json").stdout)  # its exit code may be of an alert that is on
    if sum(told["milestone"]["source_cut"].values()) != len(EVENTS):
        return set()
    done = cli.run("verify", "--state", "--json")
    if done.returncode != 0:
        return set()
    told = parsed(["verify"], done.stdout)
    assert told["places"][0]["found"]["rows"] == len(counting.expected(EVENTS))
    return {one["place"] for one in told["places"] if one["verdict"] == "equal"}
