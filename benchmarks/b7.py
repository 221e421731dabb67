"""B7, state: what an epoch of a thousand events costs beside 100,000, a million and ten million open rows.

python -m benchmarks.b7 --size 10000000
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Producer

from benchmarks.harness import machine
from benchmarks.harness.command import Command, Options, print_line, ratio_lines
from benchmarks.harness.figures import spread
from benchmarks.harness.measurement import Sampler, cpu_between
from benchmarks.harness.streams_program import HEAP
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client import make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.jars import jars
from cutwater.local.java import find_java
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy
from cutwater.local.processes.supervisor import Supervisor
from cutwater.local.spark_runtime import spark_environment
from cutwater_spark.checkpoint import parse_plan

TITLE = "B7: an epoch of 1,000 events, by the rows that are open"
FLOOR, WALK = "cutwater", "cutwater-walk"
"""Windows that close by a floor, and by Spark's watermark: that one walks over the state in each epoch."""
LEAST_ROWS, STEP = 100_000, 10
EVENTS, WARM, EPOCHS = 1_000, 10, 30
START_MS = 1_700_002_800_000
JOB_FILE = Path(__file__).with_name("jobs") / "b7.yaml"
GENERATION = Generation(1, "local")
_PATIENCE_S, _EVENTS_PER_S_MIN = 180.0, 5_000
COMMAND = Command("b7", TITLE, (FLOOR, WALK), 10_000_000, 100_000_000, of="open rows at most", pairs=1)


@dataclass(frozen=True)
class Beside:
    """Epochs of a thousand events beside so many open rows."""

    contender: str
    pair: int
    rows: int
    p50_ms: float
    p90_ms: float
    cpu_s: float
    """Of the process tree, an epoch."""
    disk_mb: float
    """Of the checkpoint."""
    exact: bool


def row_counts(most: int) -> list[int]:
    """Powers of ten from the least on, up to the given number."""
    found = [LEAST_ROWS]
    while found[-1] * STEP <= most:
        found.append(found[-1] * STEP)
    return found


class StateContest:
    """One contender beside so many rows: `run` makes them, then measures epochs one by one."""

    def __init__(self, cluster: Cluster, folder: Path, java: Path, contender: str, rows: int, pair: int) -> None:
        self._cluster, self._contender, self._rows, self._pair = cluster, contender, rows, pair
        self._name = f"b7-{contender.removeprefix('cutwater').strip('-') or 'floor'}-{rows}-{pair}"
        self._folder = folder / self._name
        self._folder.mkdir(parents=True)
        text = JOB_FILE.read_text(encoding="utf-8").replace("b7", self._name)
        if contender == WALK:
            text = text.replace("late: {amend_for: 1h}\n", "")
        self._file = self._folder / "job.yaml"
        self._file.write_text(text, encoding="utf-8")
        shutil.copy(JOB_FILE.with_name("tick.avsc"), self._folder)
        self._job: Job = load_job(self._file)
        self._encode = Codec(self._job.event_schema).encode
        self._env = {
            "CUTWATER_BOOTSTRAP_SERVERS": cluster.bootstrap,
            "CUTWATER_DATA_DIR": str(self._folder),
            "CUTWATER_CHECKPOINT": str(self._folder / "checkpoint"),
            "CUTWATER_SPARK_JARS": ",".join(map(str, jars("spark"))),
            "CUTWATER_SPARK_DRIVER_MEMORY": HEAP,
            "CUTWATER_TRIGGER_MS": "0",
            **spark_environment(java),
        }
        self._producer = Producer(
            {**cluster.librdkafka(), "linger.ms": 5, "queue.buffering.max.messages": 500_000}
        )
        self._hits = Counter[int]()

    def run(self) -> Beside:
        """Raises UnavailableError with the end of the driver's log if it ends, or takes too long."""
        partitions = self._job.shards.partitions
        owned = topics.generation_topics(self._job.name, GENERATION, partitions)
        ensure_topics(self._cluster, [*owned, topics.events(self._job.topic, partitions)])
        self._produce(range(self._rows))
        command = [sys.executable, "-m", "cutwater_spark.driver", str(self._file)]
        log = self._folder / "log.txt"
        child = Child(self._name, command, self._env, log, RestartPolicy(), terminate_leader_only=True)
        luck = random.Random(self._pair)
        with Sampler(child.pids) as sampler:
            child.start()
            try:
                self._wait(child, self._rows)
                began = Offsets(self._cluster).topic_ends(self._changelog, partitions)
                times: list[float] = []
                for number in range(WARM + EPOCHS):
                    if number == WARM:
                        since_s = time.time()
                    keys = [luck.randrange(self._rows) for _ in range(EVENTS)]
                    self._produce(keys)
                    self._hits.update(keys)
                    times.append(self._wait(child, self._rows + (number + 1) * EVENTS))
                sampler.sample()
                cpu_s = cpu_between(sampler.samples, since_s, time.time())
            finally:
                child.stop(60)
        measured = sorted(times[WARM:])
        size = sum(one.stat().st_size for one in (self._folder / "checkpoint").rglob("*") if one.is_file())
        return Beside(
            self._contender,
            self._pair,
            self._rows,
            median(measured) * 1000,
            measured[len(measured) * 9 // 10] * 1000,
            cpu_s / EPOCHS,
            size / 1e6,
            self._is_exact(began),
        )

    @property
    def _changelog(self) -> str:
        return topics.changelog(self._job.name, GENERATION)

    def _produce(self, keys: Sequence[int]) -> None:
        for at, key in enumerate(keys):
            event = {"key": f"key-{key:08d}", "at": START_MS + at % 600_000, "value": key % 1_000}
            while True:
                try:
                    self._producer.produce(self._job.topic, self._encode(event), partition=key % 4)
                    break
                except BufferError:
                    self._producer.poll(1.0)
        if self._producer.flush(60):
            raise UnavailableError(f"{self._name}: the broker does not take the events")

    def _wait(self, child: Child, events: int) -> float:
        """Wait for the commit of the epoch that has read so many events; return its seconds."""
        location = self._folder / "checkpoint"
        deadline = time.monotonic() + _PATIENCE_S + self._rows / _EVENTS_PER_S_MIN
        while time.monotonic() < deadline:
            for epoch in _newest(location / "commits"):
                plan = location / "offsets" / str(epoch)
                cut = parse_plan(plan.read_text(encoding="utf-8"), str(plan)).source_cut
                if sum(offset for _, offset in cut) >= events:
                    done = location / "commits" / str(epoch)
                    return (done.stat().st_mtime_ns - plan.stat().st_mtime_ns) / 1e9
            if child.poll() is not None:
                break
            time.sleep(0.01)
        raise UnavailableError(f"{self._name} did not read {events:,} events in time. {child.describe_end()}")

    def _is_exact(self, began: Mapping[int, int]) -> bool:
        """Compare the newest row of each key that was hit with what was produced: the oracle is a counter."""
        keys, values, found = Codec(WINDOW_KEY_SCHEMA), Codec(self._job.state_schema), dict[int, int]()
        consumer = make_consumer(self._cluster)
        for partition, first in began.items():
            for message in read_range(consumer, self._changelog, partition, first):
                number = int(keys.decode(bytes(message.key() or b""))["key"].removeprefix("key-"))
                found[number] = values.decode(bytes(message.value() or b""))["ticks"]
        consumer.close()
        return found == {key: 1 + hits for key, hits in self._hits.items()}


def _newest(folder: Path) -> list[int]:
    names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    return sorted((int(one) for one in names if one.isdecimal()), reverse=True)[:2]


def bench(options: Options) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    work, about = options.out / "b7-work", machine.describe()
    shutil.rmtree(work, ignore_errors=True)
    java, runs = find_java(), list[Beside]()
    broker = Broker(work.resolve() / "broker", java, jars("kafka"))
    written: dict[str, Any] = {}
    with Supervisor([broker.supervised()]) as supervisor:
        supervisor.start(threading.Event())
        for pair in range(1, options.pairs + 1):
            for rows in row_counts(options.size):
                for contender in options.contenders:
                    runs.append(StateContest(broker.cluster, work.resolve(), java, contender, rows, pair).run())
                    print_line(_describe(runs[-1]))
                    written = write(options.out, about, runs)
    shutil.rmtree(work, ignore_errors=True)
    return written


def _describe(one: Beside) -> str:
    return (
        f"pair {one.pair} {one.contender:13} {one.rows:11,} rows: p50 {one.p50_ms:,.0f} ms, p90 {one.p90_ms:,.0f} "
        f"ms, {one.cpu_s:.2f} CPU-s an epoch, checkpoint {one.disk_mb:,.0f} MB, "
        f"{'exact' if one.exact else 'NOT EXACT'}"
    )


def ratios(runs: Sequence[Beside]) -> dict[str, dict[str, float]]:
    """The time beside the least rows by that beside the most: 1 is perfect. And the walk's time by ours."""
    found: dict[str, list[float]] = {}
    for label, quotient in _quotients(runs):
        found.setdefault(label, []).append(quotient)
    return {label: spread(all_) for label, all_ in found.items()}


def _quotients(runs: Sequence[Beside]) -> Iterator[tuple[str, float]]:
    times = {(one.contender, one.pair, one.rows): one.p50_ms for one in runs}
    for (contender, pair, rows), p50_ms in times.items():
        least, walk = times.get((contender, pair, LEAST_ROWS)), times.get((WALK, pair, rows))
        if contender == FLOOR and rows > LEAST_ROWS and least:
            yield f"epoch-{short(LEAST_ROWS)}-rows/epoch-{short(rows)}-rows", least / p50_ms
        if contender == FLOOR and walk:
            yield f"epoch-{short(rows)}-rows/walk", walk / p50_ms


def short(rows: int) -> str:
    return f"{rows // 1_000_000}m" if rows >= 1_000_000 else f"{rows // 1_000}k"


def write(out: Path, about: Mapping[str, Any], runs: Sequence[Beside]) -> dict[str, Any]:
    """The result files of the runs so far."""
    exact = bool(runs) and all(one.exact for one in runs)
    told = [asdict(one) for one in runs]
    written = {"benchmark": "b7", "machine": dict(about), "exact": exact, "ratios": ratios(runs), "runs": told}
    (out / "b7.json").write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
    head = "| contender | rows | p50 ms | p90 ms | CPU-s an epoch | checkpoint MB |"
    lines = [f"# {TITLE}", "", head, "|---|---:|---:|---:|---:|---:|", *map(_line, runs)]
    (out / "b7.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return written


def _line(one: Beside) -> str:
    return (
        f"| `{one.contender}` | {one.rows:,} | {one.p50_ms:,.0f} | {one.p90_ms:,.0f} | {one.cpu_s:.2f} | "
        f"{one.disk_mb:,.0f} |"
    )


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, ratio_lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
