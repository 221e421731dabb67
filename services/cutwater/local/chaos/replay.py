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
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Token
from cutwater.local import added_topics
from cutwater.local.changed_job_file import changed_job_file
from cutwater.local.chaos.target import ChaosTarget
from cutwater.local.machine.extras import require
from cutwater.local.running_file import require_none
from cutwater.local.stack.background_stack import Background
from cutwater.local.stack.stack import Stack
from cutwater.local.stack.stack_lifecycle import start_stack

SUFFIX = "-replay"
NAME_CHARS_MAX = 63
PATIENCE_S = 1_800.0
_LOOK_S = 0.5
_EMPTY = (
    *("CHECKPOINT", "PEERS", "PEER", "REPLICA_OF", "BEGIN_BESIDE", "GO_ON_BEHIND", "SPARK_APPLICATION"),
    *("SELECT_PARTITIONS", "SELECT_KEYS", "SELECT_PREFIXES", "SELECT_SINCE", "ORIGIN_REGION"),
    *("ORIGIN_BOOTSTRAP_SERVERS", "ALERT_WEBHOOK_URL", "OTLP_URL", "WATCH_ACTIONS"),
)
OWN = {
    **{f"CUTWATER_{name}": "" for name in _EMPTY},
    **{f"CUTWATER_{name}_PORT": "0" for name in ("DRIVER", "SIGNAL", "PUBLISHER")},
    "CUTWATER_REPLICA": "false",
}
"""Variables of the replay: no setting of the user's reaches beyond it, and it takes no port of the job."""


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
    with _replaying(target, job, settings, folder, say) as (other, url, check):
        _wait_for(target, other, end, check)
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
) -> Iterator[tuple[Job, str, Callable[[], None]]]:
    """Yield the other job, the address of its API, and what raises the error that has ended its stack."""
    require_none(folder / "stack")
    _remove_left_over(target, folder, say)
    own = settings.model_copy(
        update={
            "data_dir": folder / "stack",
            "bootstrap_servers": target.cluster.bootstrap,
            "kafka_security_protocol": target.cluster.security.protocol,
            "snapshots": "",
            "checkpoint": None,
            "origin_region": "",
            "origin_bootstrap_servers": "",
            "spark_application": "",
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
    other = Stack(changed, own, say, OWN, own_cluster=True)
    try:
        with start_stack(other, threading.Event()), Background(other) as background:
            yield other.job, other.api_url, background.raise_error
    finally:
        _remove(target, own.data_dir)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_left_over(target: ChaosTarget, folder: Path, say: Callable[[str], None]) -> None:
    """Remove the topics and the folder of a replay that was killed: another one would go on behind it."""
    try:
        _remove(target, folder / "stack")
    except UsageError as error:  # it was on other brokers
        say(f"warning: topics of an earlier replay may be left: {error}")
    shutil.rmtree(folder, ignore_errors=True)


def _wait_for(target: ChaosTarget, job: Job, end: Cut, check: Callable[[], None]) -> None:
    """Wait until a milestone has the end. `check`: raises an error after which none will come."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        newest = commit_stream.milestones(target.cluster, job.name, 1)
        if newest and newest[0][0].source_cut.covers(end):
            return
        check()
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
