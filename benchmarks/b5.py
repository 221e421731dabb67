"""B5, decode: a topic of events into rows, in each format, beside Spark's own from_avro and fastavro.

python -m benchmarks.b5 --pairs 5 --size 500000
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.decode import events
from benchmarks.harness import machine
from benchmarks.harness.command import Command, Options, order, print_line
from benchmarks.harness.figures import Run, document, spread
from benchmarks.harness.measurement import Sampler, cpu_at, cpu_between
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError
from cutwater.core.events.formats import AVRO, CONFLUENT, FORMATS, JSON
from cutwater.core.protocol import topics
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.jars import jars
from cutwater.local.java import find_java
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy
from cutwater.local.processes.supervisor import Supervisor
from cutwater.local.spark_runtime import spark_environment

TITLE = "B5: a topic of events into rows"
MEMORY = " in memory"
READ, PLAIN, PLAIN_JSON, FASTAVRO = "read", "from_avro", "from_json", "fastavro"
AVRO_VERSIONS = "avro-versions"
TOPIC_OF = {
    READ: AVRO,
    PLAIN: AVRO,
    AVRO: AVRO,
    AVRO_VERSIONS: events.VERSIONS,
    CONFLUENT: CONFLUENT,
    PLAIN_JSON: JSON,
    JSON: JSON,
    FASTAVRO: AVRO,
}
"""Each contender, and the topic that it reads."""
COMMAND = Command("b5", TITLE, tuple(TOPIC_OF), size=500_000, size_max=10_000_000)
COST_MAX = 2.0
"""No format may cost more than so many times plain Avro decoding in Spark."""
ROUNDS, COLD = 5, 2
"""Rounds in one process, and those of them in which the JVM compiles: they do not count."""
_PATIENCE_S, _EVENTS_PER_S_MIN = 180.0, 5_000


@dataclass(frozen=True)
class Stage:
    """What all contenders share."""

    options: Options
    cluster: Cluster
    env: Mapping[str, str]
    folder: Path
    expected: Sequence[int]


def bench(options: Options) -> dict[str, Any]:
    """The whole benchmark; returns the document that it wrote."""
    about = machine.describe()
    work = (options.out / "b5-work").resolve()
    shutil.rmtree(work, ignore_errors=True)
    java = find_java()
    broker = Broker(work / "broker", java, jars("kafka"))
    with Supervisor([broker.supervised()]) as supervisor:
        supervisor.start(threading.Event())
        stage = prepare(options, java, broker.cluster, work)
        runs: list[Run] = []
        for pair in range(1, options.pairs + 1):
            for name in order(options.contenders, pair):
                for run in contest(stage, name, pair):
                    runs.append(run)
                    print_line(
                        f"pair {pair}/{options.pairs} {run.contender:20} {run.events_per_s:11,.0f} events/s"
                    )
            written = write(options, about, runs)
    shutil.rmtree(work / "broker", ignore_errors=True)
    return written


def prepare(options: Options, java: Path, cluster: Cluster, folder: Path) -> Stage:
    """Write the same events to each topic, once."""
    for topic in events.TOPICS:
        made = events.job(folder, topic)
        ensure_topics(cluster, [topics.events(made.topic, events.PARTITIONS)])
        events.produce(cluster, made, options.size, options.seed)
        print_line(f"{options.size:,} events on {made.topic}")
    env = {
        "CUTWATER_BOOTSTRAP_SERVERS": cluster.bootstrap,
        "CUTWATER_DATA_DIR": str(folder),
        "CUTWATER_SPARK_JARS": ",".join(map(str, jars("spark"))),
        **spark_environment(java),
    }
    return Stage(options, cluster, env, folder, events.expected(options.size, options.seed))


def contest(stage: Stage, name: str, pair: int) -> list[Run]:
    """One contender in a fresh process: a run from the topic, and one from memory.

    Raises UnavailableError with its log when it does not end well.
    """
    result = stage.folder / f"{name}-{pair}.json"
    job_file = events.job_file(stage.folder, TOPIC_OF[name])
    command = [sys.executable, "-m", "benchmarks.decode.contender", name, str(job_file), str(ROUNDS), str(result)]
    child = Child(f"b5-{name}-{pair}", command, dict(stage.env), stage.folder / "log.txt", RestartPolicy())
    deadline = time.monotonic() + _PATIENCE_S + 2 * ROUNDS * stage.options.size / _EVENTS_PER_S_MIN
    with Sampler(child.pids) as sampler:
        started_s = time.time()
        child.start()
        try:
            while child.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            if not result.exists():
                raise UnavailableError(f"{name} told no result. {child.describe_end()}")
        finally:
            child.stop(10.0)
    found = events.result(result)
    runs = []
    for place, moments in ((name, found["rounds"]), (name + MEMORY, found["in_memory"])):
        if moments:
            runs.append(_run(stage, place, pair, moments, found["seen"], sampler, started_s))
    return runs


def _run(
    stage: Stage,
    place: str,
    pair: int,
    moments: Sequence[Sequence[float]],
    seen: list[int],
    sampler: Sampler,
    started_s: float,
) -> Run:
    warm = moments[COLD:]
    wanted = [stage.options.size] if place.startswith(READ) else list(stage.expected)
    return Run(
        contender=place,
        pair=pair,
        events=stage.options.size,
        start_s=moments[0][0] - started_s,
        drain_s=median(ended - began for began, ended in warm),
        cpu_s=cpu_between(sampler.samples, warm[0][0], warm[-1][1]) / len(warm),
        start_cpu_s=cpu_at(sampler.samples, moments[0][0]),
        broker_cpu_s=0.0,
        memory_mb_peak=max(sample.memory_mb for sample in sampler.samples),
        exact=seen == wanted,
        fault=None if seen == wanted else f"decoded {seen}, expected {wanted}",
    )


def ratios(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Each contender's rate over plain Avro decoding's, pair by pair: from the topic, and from memory."""
    by_place = {(run.contender, run.pair): run.drain_s for run in runs}
    found: dict[str, dict[str, float]] = {}
    for name in (AVRO, AVRO_VERSIONS, CONFLUENT, JSON, PLAIN_JSON, FASTAVRO):
        for where in ("", MEMORY):
            pairs = sorted({run.pair for run in runs})
            both = [(by_place.get((PLAIN + where, one)), by_place.get((name + where, one))) for one in pairs]
            quotients = [plain / mine for plain, mine in both if plain and mine]
            if quotients:
                found[name + where] = spread(quotients)
    return found


def verdicts(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Per format whether it keeps the limit."""
    lines = []
    for label, one in found.items():
        if label.removesuffix(MEMORY) in (*FORMATS, AVRO_VERSIONS):
            kept = "kept" if one["median"] >= 1 / COST_MAX else "NOT KEPT"
            lines.append(
                f"At most {COST_MAX:.0f} times plain Avro: {kept}: {label}: {1 / one['median']:.2f} times."
            )
    return lines


def write(options: Options, about: Mapping[str, Any], runs: Sequence[Run]) -> dict[str, Any]:
    """The result files of the runs so far."""
    found = ratios(runs)
    notes = [f"Ratios are over {PLAIN}, Spark's own decoding of the Avro topic.", *verdicts(found)]
    written = document("b5", about, runs, found)
    COMMAND.write(options.out, written, runs, notes)
    return written


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    return COMMAND.run(arguments, bench, verdicts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
