"""Real processes for tests: a driver and a commit-signal on a real broker, followed through their topics."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.config.settings import environment, load_settings
from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.events.registry import registry_for
from cutwater.adapters.http.client_options import no_authorities
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.admin import delete_topics, ensure_topics
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.commit_stream import Tail, milestones, source_end
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.job.panes import merged_windows
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.local.jars import connectors
from cutwater.local.spark_runtime import spark_environment
from cutwater.views.query.presenter import Presenter
from cutwater.views.store.window_rows import MergedValue, ValueMerge
from support.shared_spark import SharedSpark
from support.waits import PATIENCE_S, wait_until

GENERATION = Generation(1, "local")


class Flow:
    """One job on a broker: its topics, its processes, what it wrote."""

    shared: ClassVar[SharedSpark | None] = None
    """Where drivers have their sessions in tests that use the fixture `shared_spark`; else each has its JVM."""

    def __init__(self, cluster: Cluster, job_file: Path, folder: Path, source: str | None = None) -> None:
        self.cluster = cluster
        self.job_file = job_file
        self.folder = folder
        self.job: Job = load_job(job_file)
        self.source = source or self.job.topic
        partitions = self.job.shards.partitions
        owned = topics.generation_topics(self.job.name, GENERATION, partitions)
        ensure_topics(cluster, [*owned, topics.events(self.source, partitions)])
        self.settings: dict[str, str] = {}
        """Of every process with Spark, beside those that follow from all this."""
        self._running: list[subprocess.Popen[bytes]] = []

    def produce(self, events: list[dict[str, Any]]) -> None:
        EventWriter(self.cluster, self.job, registry_for(self.job, load_settings())).write_all(events)

    def state_after(self, events: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
        """Return the committed state after these events, of a commit-signal and a driver that start now."""
        self.produce(events)
        self.signal()
        self.driver()
        return self.state(self.wait_committed())

    def barriers(self) -> list[Any]:
        """Every record of the barriers' topic: starts, barriers, heartbeats."""
        with closing(Tail(self.cluster, topics.barriers(self.job.name))) as tail:
            found: list[Any] = []
            while new := list(tail.poll()):
                found += new
        return found

    def start(self, module: str, **env: str) -> subprocess.Popen[bytes]:
        """Start `python -m module JOBFILE`; its output goes to <module>.log in the folder."""
        return self.start_command(module, [sys.executable, "-m", module, str(self.job_file)], **env)

    def start_command(
        self, name: str, command: list[str], cwd: Path | None = None, **env: str
    ) -> subprocess.Popen[bytes]:
        """Start a command with the settings of this flow; its output goes to <name>.log in the folder."""
        settings = {**self.spark_env(), "CUTWATER_TRIGGER_MS": "100"}
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env={**os.environ, **settings, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def spark_env(self) -> dict[str, str]:
        """What a process with Spark needs on this machine, for this flow."""
        return {
            **environment(self.cluster),
            "CUTWATER_DATA_DIR": str(self.folder),
            "CUTWATER_SPARK_JARS": ",".join(map(str, connectors(self.settings.get("CUTWATER_CHECKPOINT")))),
            **spark_environment(),
            **(Flow.shared.env() if Flow.shared else {}),
            **self.settings,
        }

    def driver(self, **env: str) -> subprocess.Popen[bytes]:
        return self.start("cutwater_spark.driver", **env)

    def signal(self) -> subprocess.Popen[bytes]:
        return self.start("cutwater.commit_signal")

    def log(self, module: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{module}.log"

    def milestones(self) -> list[tuple[Milestone, bytes]]:
        return milestones(self.cluster, self.job.name)

    def wait_committed(self, patience_s: float = PATIENCE_S) -> Milestone:
        """The newest milestone once it covers every event produced so far."""
        end = source_end(self.cluster, self.source)

        def newest() -> Milestone | None:
            found = self.milestones()
            return found[-1][0] if found and found[-1][0].source_cut.covers(end) else None

        milestone: Milestone = wait_until(
            newest, f"a milestone that covers {end}; logs in {self.folder}", patience_s
        )
        return milestone

    def remake_changelog(self) -> None:
        """Delete the first generation's changelog, and create it again: empty, and with another id."""
        partitions, name = self.job.shards.partitions, topics.changelog(self.job.name, GENERATION)
        owned = [
            one for one in topics.generation_topics(self.job.name, GENERATION, partitions) if one.name == name
        ]
        delete_topics(self.cluster, [name])
        ensure_topics(self.cluster, owned)

    def state(self, milestone: Milestone) -> dict[tuple[str, int], dict[str, Any]]:
        """Presented windows by (key, start in ms), of the newest record per key below the milestone's cut.

        Without those that were cleared; others below the horizon may be among them, and of sliding windows parts.
        """
        keys, values, merge = Codec(WINDOW_KEY_SCHEMA), Presenter(self.job), ValueMerge(self.job)
        newest: dict[bytes, bytes] = {}
        consumer = make_consumer(self.cluster)
        for place, end in milestone.changelog_cut:
            low, _ = bounds(consumer, *place)
            for message in read_range(consumer, place.topic, place.partition, low, end) if end else ():
                newest[message.key()] = message.value()
        consumer.close()
        rows: dict[str, list[tuple[int, bytes]]] = {}
        for key, value in newest.items():
            if value is not None:
                at = keys.decode(key)
                rows.setdefault(at["key"], []).append((round(at["window_end"].timestamp() * 1000), value))
        shown: dict[tuple[str, int], dict[str, Any]] = {}
        for key, own in rows.items():
            panes = [(end, MergedValue(value)) for end, value in sorted(own)]
            windows: Iterable[tuple[int, MergedValue]] = (
                (end - self.job.window.size_ms, one) for end, one in panes
            )
            if self.job.overlap_ms:
                windows = merged_windows(panes, self.job.window, merge.merge)
            shown |= {(key, start): values.values(merge.encode(one)) for start, one in windows}
        return shown

    def close(self) -> None:
        for process in self._running:
            kill_session(process.pid)
            process.wait(30)


def scraped(port: int) -> dict[str, float]:
    """What a service tells Prometheus: values without labels, by name."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=20, verify=no_authorities()).text
    return {
        one.name: one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if not one.labels
    }


def session_pids(leader: int) -> list[int]:
    """The processes of the session that `leader` began (a driver and its JVM)."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.Error, ProcessLookupError, PermissionError):
            continue
    return found


def kill_session(leader: int) -> None:
    """kill -9 of everything in a session, and wait until it is gone."""
    while pids := session_pids(leader):
        for pid in pids:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        time.sleep(0.02)


@contextmanager
def flow(cluster: Cluster, job_text: str, folder: Path, schema: str | None = None) -> Iterator[Flow]:
    """A Flow from a job file's text; every process it started is gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    job_file = folder / "job.yaml"
    job_file.write_text(job_text, encoding="utf-8")
    if schema:
        (folder / "event.avsc").write_text(schema, encoding="utf-8")
    made = Flow(cluster, job_file, folder)
    try:
        yield made
    finally:
        made.close()


def descendants(pid: int, mark: str = "") -> list[psutil.Process]:
    """The living processes below `pid`; with `mark` only those whose command line holds it as an argument."""
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        try:
            if process.status() != psutil.STATUS_ZOMBIE and (not mark or mark in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found
