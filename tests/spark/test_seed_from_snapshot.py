"""A generation whose parent's changelog is no longer whole: its state comes from a snapshot, against an oracle."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from typer.testing import CliRunner

from cutwater.adapters.config.settings import environment
from cutwater.cli.main import app
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Milestone
from support.crashes import Crashes
from support.harness import GENERATION, Flow, flow, wait_until
from support.lineage import EVENT, Second, assert_whole, events, job_text, read_all
from support.views.changelogs import until
from support.views.rehydrating import Process, running

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("shared_spark")]

DRIVER = "cutwater_spark.driver"
NO_LAG = """
from functools import partial
from cutwater.core.generations import seed_check
from cutwater.core.state import backlog
seed_check.fresh = partial(backlog.fresh, lag_ms=backlog.MARGIN_MS)
seed_check.contained = partial(backlog.contained, lag_ms=backlog.MARGIN_MS)
"""
"""For who must know that the brokers of this test compact at once."""
EAGER = {
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "50",
}


@pytest.fixture
def job(request: Any, broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    """In a folder whose name an URL would write otherwise."""
    text, folder = job_text(unique("stored"), getattr(request, "param", "tumbling")), tmp_path / "a b ü"
    with flow(broker.cluster, text, folder, json.dumps(EVENT)) as made:
        made.settings["CUTWATER_SNAPSHOTS"] = str(folder / "store")
        yield made


@contextmanager
def at_work(job: Flow) -> Iterator[None]:
    """The first generation."""
    processes = [job.signal(), job.driver()]
    yield
    job.wait_committed()
    for process in reversed(processes):
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@contextmanager
def view(job: Flow) -> Iterator[Process]:
    env = {"CUTWATER_SNAPSHOTS": job.settings["CUTWATER_SNAPSHOTS"]}
    with running(job.cluster, job.job_file, job.folder / "view", **env) as one:
        until(one.answers, "the API")
        yield one


def begin(job: Flow) -> Milestone:
    """The first generation over some events; its last milestone, of which there is a snapshot."""
    with at_work(job):
        job.produce(events(0, 1_400))
    parent = job.milestones()[-1][0]
    with view(job) as one:
        until(lambda: one.shown() == parent.sequence, "the view")
        url = f"http://127.0.0.1:{one.port}"
        taken = CliRunner(env=job.spark_env()).invoke(
            app, ["snapshots", "create", str(job.job_file), "--api-url", url, "--json"]
        )
    assert json.loads(taken.stdout)["token"] == str(parent.token), taken.stderr
    return parent


def altered(job: Flow, **settings: str) -> None:
    client = AdminClient(job.cluster.librdkafka())
    topic = ConfigResource(ResourceType.TOPIC, topics.changelog(job.job.name, GENERATION))
    for name, value in settings.items():
        topic.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    for done in client.incremental_alter_configs([topic]).values():
        done.result(20)


def delete_below(job: Flow, parent: Milestone) -> None:
    """Some records of each partition. Of a topic that is compacted only, brokers let nobody delete any."""
    altered(job, **{"cleanup.policy": "compact,delete", "retention.ms": "-1"})
    client = AdminClient(job.cluster.librdkafka())
    firsts = [TopicPartition(*place, offset // 2) for place, offset in parent.changelog_cut]
    for done in client.delete_records(firsts).values():
        done.result(20)


def start(job: Flow, parent: Milestone, *words: str, code: int = 0, **env: str) -> Any:
    """`cutwater generation start`; JSON, or what it says where it is refused."""
    where = ["--bootstrap-servers", job.cluster.bootstrap, "--from", str(parent.token), "--json"]
    cli = CliRunner(env={**environment(job.cluster), **job.settings, **env})
    done = cli.invoke(app, ["generation", "start", str(job.job_file), *where, *words])
    assert done.exit_code == code, done.stderr
    return json.loads(done.stdout) if code == 0 else " ".join(done.stderr.split())


def patched(job: Flow, second: Second) -> subprocess.Popen[bytes]:
    """A driver that knows of no compaction lag."""
    code = f"{NO_LAG}\nimport sys; from cutwater_spark.driver import main; sys.exit(main())"
    return job.start_command(DRIVER, [sys.executable, "-c", code, str(job.job_file)], **second.env)


def test_compaction_has_overtaken_the_parent(job: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker took rows below the cut, for newer ones above it; the snapshot has them."""
    from cutwater.core.generations import seed_check
    from cutwater.core.state import backlog

    parent = begin(job)
    below = len(read_all(job, topics.changelog(job.job.name, GENERATION), parent.changelog_cut))
    altered(job, **EAGER)
    for number in range(3):  # the active segment is never compacted: rows that follow begin another
        with at_work(job):
            job.produce(events(1_400 + 200 * number, 200))
        time.sleep(0.2)
    changelog = topics.changelog(job.job.name, GENERATION)
    until(lambda: len(read_all(job, changelog, parent.changelog_cut)) < below, "compaction")
    told = start(job, parent, "--dry-run")
    assert told["seed"]["from"] == "changelog", "by the lag that the topic should have"
    for name in ("fresh", "contained"):
        one = getattr(backlog, name)
        monkeypatch.setattr(seed_check, name, lambda *given, one=one: one(*given, lag_ms=backlog.MARGIN_MS))
    told = start(job, parent, "--dry-run")
    assert told["seed"]["from"] == "snapshot"
    assert told["seed"]["snapshots"] == [f"{parent.token} (all)"]
    assert "compaction may have removed rows" in told["seed"]["reason"]
    second = Second(job, parent, 5)
    patched(job, second)
    barriers = second.wait()
    assert_whole(second, barriers, "tumbling")
    assert "the state is read from a snapshot" in job.log(DRIVER).read_text()


@pytest.mark.parametrize("job", ["sliding"], indirect=True)
def test_records_below_the_cut_were_deleted(job: Flow) -> None:
    """Killed while it takes the snapshot's rows over, and run again; every measure, sliding windows."""
    parent = begin(job)
    assert start(job, parent, "--dry-run")["seed"] == {
        "from": "changelog",
        "reason": None,
        "store": None,
        "snapshots": [],
    }
    delete_below(job, parent)
    told = start(job, parent, "--dry-run")["seed"]
    assert (told["from"], told["store"]) == ("snapshot", job.settings["CUTWATER_SNAPSHOTS"])
    assert "records below the cut were deleted" in told["reason"]
    assert "no snapshot store is configured" in start(job, parent, code=2, CUTWATER_SNAPSHOTS="")
    job.produce(events(1_400, 600))
    second, crashes = Second(job, parent, 5), Crashes(job)
    without = second.job.driver(**second.env, CUTWATER_SNAPSHOTS="")
    assert without.wait(120) == UsageError.exit_code
    said = job.log(DRIVER).read_text()
    assert "no snapshot store is configured" in said
    away = {"CUTWATER_SNAPSHOTS": "s3://bucket/prefix", "CUTWATER_S3_ENDPOINT": "http://127.0.0.1:9"}
    keys = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nobody"}
    assert second.job.driver(**second.env, **away, **keys).wait(180) == UnavailableError.exit_code
    crashes.arm(DRIVER, "file-fetched", **second.env).wait()
    crashes.arm(DRIVER, "seed-brought", **second.env).wait()
    crashes.arm(DRIVER, "seed-written", **second.env).wait()
    assert second.barriers() == []
    second.driver()
    wait_until(second.barriers, "the first barrier")
    job.produce(events(2_000, 600))
    assert_whole(second, second.wait(), "sliding")
    seeds = job.folder / "checkpoints" / job.job.name / str(second.generation) / "cutwater-seeds"
    assert len(list(seeds.iterdir())) == 1, "the rows that it was made of are gone"
    assert not (job.folder / "seeding" / job.job.name / str(second.generation)).exists()
