"""How a Flink program is started: one JVM that is the whole cluster, with the heap of the other contenders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.java_program import JavaProgram
from benchmarks.harness.streams_program import HEAP
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.job.job import Job

JARS = Path(__file__).parents[1] / "jars" / "flink.toml"
_OPENED = ("lang", "lang.reflect", "net", "io", "nio", "text", "time", "util", "util.concurrent")
"""Packages of Java that Flink looks into, by the list of its own start scripts."""


def flink(name: str, *more_helpers: str) -> JavaProgram:
    """A program for Flink, by the name of its class."""
    return JavaProgram(name, ("FlinkBacklog", "EventBytes", *more_helpers), (JARS,))


def program(
    java: Path,
    jars: Sequence[Path],
    cluster: Cluster,
    job: Job,
    peer: JavaProgram,
    output: str,
    name: str,
    folder: Path,
    events: int,
    settings: Sequence[str] = (),
) -> list[str]:
    """Return the command. The program writes `result.json` into the folder once its output is committed.

    `settings`: settings of Flink that differ from the program's, as NAME=VALUE.
    """
    temporary = folder / "tmp"  # the planner unpacks itself there
    temporary.mkdir(exist_ok=True)
    opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED]
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    jvm = [f"-Xmx{HEAP}", "-XX:+UseParallelGC", f"-Djava.io.tmpdir={temporary}", logging, *opened]
    window, header = job.window, Codec(job.event_schema).header.hex()
    where = [cluster.bootstrap, job.topic, output, name, str(folder)]
    numbers = [str(one) for one in (window.size_ms, window.slide_ms, job.lateness_ms)]
    classes = peer.class_path(java, jars)
    return [str(java), *jvm, "-cp", classes, peer.name, *where, str(events), header, *numbers, *settings]
