"""Failover: from the verb to the first milestone of the region that goes on, step by step, with a large state.

python -m benchmarks.failover --size 1000000
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.harness import machine
from benchmarks.harness.command import Command, print_line, write_results
from cutwater.adapters.config.settings import environment, load_settings
from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client import make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream, mirror_topics
from cutwater.adapters.topics.candidates import promoted
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.protocol.records import Milestone
from cutwater.local.java import find_java
from cutwater.local.region import Region
from cutwater.views.changelog.record_reader import KeyReader
from cutwater.views.query.presenter import Presenter

TITLE = "Failover of a region with a large state"
SIZE, SIZE_MAX = 200_000, 10_000_000
LIMIT_S = 60.0
"""That of a million keys on two cores; shown beside what was measured, and not asserted."""
PATIENCE_S, POLL_S = 900.0, 0.1
START_MS = 1_700_006_400_000
SPREAD_MS = 3_000_000
JOB = """
job: large
source: {topic: large.events, schema: event.avsc, key: key, event_time: at}
window: {kind: tumbling, size: 1d}
lateness: 1h
retention: 30d
partitions: 2
shuffle_partitions: 2
max_events_per_epoch: 200000
measures:
  events: {measure: count}
  total: {measure: sum, field: value}
"""
EVENT = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "value", "type": "int"},
    ],
}
T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    size: int
    out: Path


COMMAND = Command("failover", TITLE, (), SIZE, SIZE_MAX, of="keys, one event each", seeded=False, options=Options)
"""Of one run: two regions have no peer that fails over as a whole."""


class Regions:
    """us, which dies, and eu, which goes on; each with a broker of its own."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._job_file = folder / "job.yaml"
        self._job_file.write_text(JOB, encoding="utf-8")
        (folder / "event.avsc").write_text(json.dumps(EVENT), encoding="utf-8")
        self.job, settings = load_job(self._job_file), load_settings()
        self._stop = threading.Event()
        self.us, self.eu = (
            Region(name, folder / name, self._job_file, settings, print_line) for name in ("us", "eu")
        )
        self._env = {
            **os.environ,
            **environment(self.eu.cluster),
            "CUTWATER_REGION": "eu",
            "CUTWATER_DATA_DIR": str(self.eu.folder),
        }

    def begin(self, keys: int) -> Milestone:
        """Both run, every event is in a milestone of us, and that has arrived in eu."""
        for one in (self.us, self.eu):
            one.start_broker(self._stop)
        self.us.create_topics(self.job)
        self.us.start(self.us.writers(), self._stop)
        self.eu.start([self.eu.mirror(self.us)], self._stop)
        EventWriter(self.us.cluster, self.job).write_all(events(keys))
        end = commit_stream.source_end(self.us.cluster, self.job.topic)

        def drained() -> Milestone | None:
            last = promoted(self.us.cluster, self.job.name)
            return last if last and last.source_cut.covers(end) else None

        last = self.wait(drained, "the milestone of all events")
        print_line(f"{keys:,} events are in milestone {last.token}")
        self.wait(lambda: self._arrived() >= last.sequence, "its arrival")
        return last

    def fail_over(self) -> tuple[dict[str, Any], Milestone]:
        """kill -9 of us, then the verb; what that has told, and the first milestone here."""
        self.us.kill()
        began_ms = time.time() * 1000
        with self.eu.verb("failover", "--origin", "us", "--force", beside=self.us) as verb:
            claim = self.wait(lambda: self.eu.find_claim(self.job.name, verb), "the claim")
            self.eu.start(self.eu.writers(claim.generation), self._stop)
            planned = self.wait(verb.answer, "the promotion")
        first = promoted(self.eu.cluster, self.job.name)
        if first is None:
            raise UnavailableError("the verb has ended, and nothing is promoted")
        return {**planned, "began_ms": began_ms}, first

    def starts(self) -> list[dict[str, Any]]:
        """What the driver's start in eu took, by its trail."""
        words = [sys.executable, "-m", "cutwater.cli.main", "history", str(self._job_file), "--json"]
        told = subprocess.run(
            [*words, "--service", "driver", "--bootstrap-servers", self.eu.cluster.bootstrap],
            env=self._env,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=60,
        )
        found: list[dict[str, Any]] = json.loads(told.stdout)
        return found

    def wait(self, asked: Callable[[], T | None], what: str) -> T:
        until = time.monotonic() + PATIENCE_S
        while not (found := asked()):
            self.us.check()
            self.eu.check()
            if time.monotonic() > until:
                raise UnavailableError(f"{what} did not come in time")
            time.sleep(POLL_S)
        return found

    def end(self) -> None:
        self._stop.set()
        self.us.stop()
        self.eu.stop()

    def _arrived(self) -> int:
        if not mirror_topics.has_mirror(self.eu.cluster, self.job.name):
            return 0
        last = mirror_topics.last_arrival(self.eu.cluster, self.job.name, "us")
        return last.sequence if last else 0


def events(keys: int) -> Iterator[Mapping[str, Any]]:
    """Each key once; what is made of the first is known of all."""
    for number in range(keys):
        yield {
            "key": f"key-{number:08d}",
            "at": START_MS + number * 37 % SPREAD_MS,
            "value": number % 1_000,
        }


def fault(cluster: Cluster, job: Job, last: Milestone, keys: int) -> str | None:
    """Is the state that goes on the one that the events make, each once?"""
    found = held(cluster, job, last)
    wanted = keys, keys, sum(number % 1_000 for number in range(keys))
    return None if found == wanted else f"keys, events and their sum are {found}, not {wanted}"


def held(cluster: Cluster, job: Job, last: Milestone) -> tuple[int, int, int]:
    """Keys, their events, and the sum of these at a milestone, by its changelog."""
    window, present = KeyReader(), Presenter(job)
    newest: dict[bytes, bytes | None] = {}
    consumer = make_consumer(cluster)
    try:
        for place, end in last.changelog_cut:
            for message in read_range(consumer, place.topic, place.partition, 0, end) if end else ():
                newest[bytes(message.key())] = message.value()
    finally:
        consumer.close()
    rows = [present.row(window.window(key), value) for key, value in newest.items() if value is not None]
    return len(rows), sum(row["events"] for row in rows), sum(row["total"] for row in rows)


def bench(options: Any) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    find_java()
    about = machine.describe()
    regions = Regions(options.out / "failover-work")
    try:
        regions.begin(options.size)
        verb, first = regions.fail_over()
        shares = list(steps(verb, regions.starts(), first))
        wrong = fault(regions.eu.cluster, regions.job, first, options.size)
    finally:
        regions.end()
    written = {
        "benchmark": "failover",
        "machine": about,
        "exact": wrong is None,
        "fault": wrong,
        "ratios": {},
        "keys": options.size,
        "seconds": (first.committed_ms - verb["began_ms"]) / 1000,
        "limit_s": LIMIT_S,
        "steps": [{"step": name, "seconds": seconds} for name, seconds in shares],
    }
    write_results(options.out, written, "\n".join(result_lines(written)) + "\n")
    for line in result_lines(written):
        print_line(line)
    return written


def steps(
    verb: Mapping[str, Any], starts: Sequence[Mapping[str, Any]], first: Milestone
) -> Iterator[tuple[str, float]]:
    """What the time went by, in its order: the verb's own steps, the driver's, and the first epoch."""
    before = {name: took for name, took in verb["steps"].items() if name != "promoting it"}
    yield from before.items()
    (start,) = (one for one in starts if one["generation"] == str(first.generation))
    yield (
        "starting the verb, and the driver's process",
        (start["begun_ms"] - verb["began_ms"]) / 1000 - sum(before.values()),
    )
    for step in start["steps"]:
        yield f"driver: {step['name']}", step["took_ms"] / 1000
    begun_ms = start["begun_ms"] + start["took_ms"]
    yield "starting the query", (first.epoch_started_ms - begun_ms) / 1000
    yield "the first epoch, to its barrier", (first.written_ms - first.epoch_started_ms) / 1000
    yield "its milestone, and the promotion", (first.committed_ms - first.written_ms) / 1000


def result_lines(written: Mapping[str, Any]) -> list[str]:
    """For people."""
    head = ", ".join(f"{name} {value}" for name, value in written["machine"].items())
    verdict = "yes" if written["exact"] else f"**no**: {written['fault']}"
    whole = written["seconds"]
    lines = [f"# {TITLE}", "", f"{head}; exact: {verdict}.", ""]
    lines += [
        f"{written['keys']:,} keys: {whole:.1f} s from the verb to the first milestone here "
        f"(limit of a million keys: {written['limit_s']:.0f} s)."
    ]
    lines += ["", "| step | s | share |", "|---|---:|---:|"]
    lines += [
        f"| {one['step']} | {one['seconds']:.1f} | {one['seconds'] / whole:.0%} |" for one in written["steps"]
    ]
    return lines


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, lambda _ratios: [])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
