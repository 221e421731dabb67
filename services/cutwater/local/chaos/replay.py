"""The same events counted once more, without faults, by a job of another name; and its rows compared.

The other job reads the same source topic on the same brokers, with its own topics and folder. Both are removed.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka import admin
from cutwater.adapters.topics import commit_stream
from cutwater.client.export.parquet import open_rehydrators, write
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Token
from cutwater.local import added_topics
from cutwater.local.background_stack import Background
from cutwater.local.changed_job_file import changed_job_file
from cutwater.local.chaos.target import ChaosTarget
from cutwater.local.machine.extras import require
from cutwater.local.stack import Stack, start_stack

SUFFIX = "-replay"
NAME_CHARS_MAX = 63
PATIENCE_S = 1_800.0
_LOOK_S = 0.5


class ReplayComparison(NamedTuple):
    """Rows of the job beside those of the replay."""

    rows: int
    missing: int
    """Rows that only the replay has."""
    unexpected: int
    """Rows that only the job has. A row that differs is in both."""

    @property
    def equal(self) -> bool:
        return not self.missing and not self.unexpected


def compare_with_replay(
    target: ChaosTarget, job: Job, settings: Settings, folder: Path, say: Callable[[str], None]
) -> ReplayComparison:
    """Replay all events of the source and compare every row, both at the source's end.

    The source must be at rest. `folder`: for the replay's data, removed at the end. Raises UnavailableError if the
    replay does not read everything in time.
    """
    require("local", "pyspark", "jgo")
    require("demo", "duckdb")
    end = commit_stream.source_end(target.cluster, job.topic)
    with _replaying(target, job, settings, folder, say) as (other, url):
        _wait_for(target, other, end)
        files = folder / "replayed.parquet", folder / "served.parquet"
        _export(other, url, settings, _newest(target, other), files[0])
        _export(job, target.api_url, settings, _newest(target, job), files[1])
        return compare_files(*files)


def compare_files(replayed: Path, served: Path) -> ReplayComparison:
    """Compare two Parquet files row by row, in any order."""
    import duckdb

    with duckdb.connect() as base:
        base.execute("SET preserve_insertion_order = false")
        names = {"replayed": str(replayed), "served": str(served)}
        for name, path in names.items():
            base.read_parquet(path).create_view(name)

        def count(query: str) -> int:
            (found,) = base.sql(query).fetchall()[0]
            return int(found)

        only = "SELECT count(*) FROM (SELECT * FROM {} EXCEPT ALL SELECT * FROM {})"
        return ReplayComparison(
            count("SELECT count(*) FROM served"),
            count(only.format("replayed", "served")),
            count(only.format("served", "replayed")),
        )


@contextmanager
def _replaying(
    target: ChaosTarget, job: Job, settings: Settings, folder: Path, say: Callable[[str], None]
) -> Iterator[tuple[Job, str]]:
    shutil.rmtree(folder, ignore_errors=True)
    own = settings.model_copy(
        update={
            "data_dir": folder / "stack",
            "bootstrap_servers": target.cluster.bootstrap,
            "kafka_security_protocol": target.cluster.security.protocol,
            "snapshots": "",
            "port": 0,
            "driver_port": 0,
            "signal_port": 0,
            "publisher_port": 0,
            "spark_ui_port": 0,
            "watch_port": 0,
        }
    )
    changes = {"job": job.name[: NAME_CHARS_MAX - len(SUFFIX)] + SUFFIX, "output": {"mode": "none"}}
    changed = changed_job_file(target.job_file, folder / "job", changes)
    other = Stack(changed, own, say, own_cluster=True)
    try:
        with start_stack(other, threading.Event()), Background(other):
            yield other.job, other.api_url
    finally:
        _remove(target, own.data_dir)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(target: ChaosTarget, job: Job, end: Cut) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        newest = commit_stream.milestones(target.cluster, job.name, 1)
        if newest and newest[0][0].source_cut.covers(end):
            return
        time.sleep(_LOOK_S)
    raise UnavailableError(f"the replay of {job.topic} as {job.name} has not ended within {PATIENCE_S:g} s")


def _newest(target: ChaosTarget, job: Job) -> Token:
    return commit_stream.milestones(target.cluster, job.name, 1)[0][0].token


def _export(job: Job, url: str, settings: Settings, token: Token, out: Path) -> None:
    with open_rehydrators(job, [(url,)], settings.api_headers, token) as parts:
        write(job, parts, out)


def _remove(target: ChaosTarget, data_dir: Path) -> None:
    """Delete the topics that the replay has added. The source is the job's own."""
    added = added_topics.read(data_dir)
    if added:
        admin.delete_topics(target.cluster, list(added_topics.left_over(target.cluster, added).created))
