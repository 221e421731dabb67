"""How the Kafka Streams program is started: the same one for every benchmark that has it as a peer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.java_program import JavaProgram
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.job.job import Job

JARS = Path(__file__).parents[1] / "jars" / "kafka-streams.toml"
HEAP = "1g"
"""Largest heap of each contender's JVM."""


def streams(name: str, *more_jars: Path) -> JavaProgram:
    """A program for Kafka Streams, by the name of its class."""
    return JavaProgram(name, ("StreamsBacklog", "EventBytes"), (JARS, *more_jars))


TICKS = streams("B2Streams")


class Guarantee(NamedTuple):
    """What Kafka Streams promises, and settings that differ from its defaults, as NAME=VALUE."""

    processing: str
    settings: tuple[str, ...] = ()


AT_LEAST_ONCE = Guarantee("at_least_once")
# So that the broker's clock says when a row stood on the changelog.
_STAMPED = "topic.message.timestamp.type=LogAppendTime"
# Without its cache: with it an update goes on when the cache evicts it, or every 30 s.
AT_LEAST_ONCE_AT_ONCE = Guarantee(
    "at_least_once", (_STAMPED, "statestore.cache.max.bytes=0", "producer.linger.ms=5")
)
EXACTLY_ONCE = Guarantee("exactly_once_v2", (_STAMPED,))
"""With its defaults: a commit, which flushes the cache, every 100 ms."""


def program(
    java: Path,
    jars: Sequence[Path],
    cluster: Cluster,
    job: Job,
    source: str,
    output: str,
    name: str,
    folder: Path,
    events: int,
    guarantee: Guarantee = AT_LEAST_ONCE,
    peer: JavaProgram = TICKS,
) -> list[str]:
    """The command. It writes `ready` and, after `events` events, `result.json` into the folder."""
    jvm = [f"-Xmx{HEAP}", "-XX:+UseParallelGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    window, header = job.window, Codec(job.event_schema).header.hex()
    numbers = [str(one) for one in (window.size_ms, window.slide_ms, job.lateness_ms)]
    where = [cluster.bootstrap, source, output, name, str(folder / "state"), str(folder / "result.json")]
    arguments = [*where, str(events), header, *numbers, guarantee.processing, *guarantee.settings]
    return [str(java), *jvm, "-cp", peer.class_path(java, jars), peer.name, *arguments]
