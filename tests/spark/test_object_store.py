"""A checkpoint in an object store, by real S3 requests: what holds on a local disk holds there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.core.errors import UsageError
from cutwater.core.protocol.chain import find_chain_faults
from support.events import counting
from support.harness import Flow, flow, kill_session, wait_until
from support.objectstore import BUCKET, KEYS, ObjectStore, object_store

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    with object_store(tmp_path / "objects") as one:
        yield one


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str], store: ObjectStore) -> Iterator[Flow]:
    with flow(broker.cluster, counting.job_text(unique("stored")), tmp_path, counting.SCHEMA) as made:
        place = f"s3a://{BUCKET}/{made.job.name}"
        made.settings = {"CUTWATER_CHECKPOINT": place, "CUTWATER_S3_ENDPOINT": store.url, **KEYS}
        yield made


def test_a_bucket_that_is_not_there_is_named(job: Flow) -> None:
    """It ends for good: a restart would not make the bucket."""
    driver = job.driver(CUTWATER_CHECKPOINT="s3a://elsewhere/stored")
    assert driver.wait(120) == UsageError.exit_code
    assert "names a bucket that does not exist" in job.log("cutwater_spark.driver").read_text("utf-8")


def test_a_driver_killed_goes_on_from_an_object_store(job: Flow, store: ObjectStore) -> None:
    """kill -9 in the middle of epochs, a clean end and a start: exact, and nothing of it on the local disk."""
    made = counting.events(3_000)
    job.signal()
    job.produce(made)
    first = job.driver()
    wait_until(lambda: len(job.milestones()) >= 2, "two milestones")
    kill_session(first.pid)
    first.wait(60)
    second = job.driver()
    job.wait_committed()
    second.terminate()
    assert second.wait(60) == 0
    more = counting.events(400, seed=9)
    job.produce(more)
    job.driver()
    milestone = job.wait_committed()
    assert job.state(milestone) == counting.expected([*made, *more])
    assert list(find_chain_faults(job.milestones())) == []
    assert f"{job.job.name}/commits/{milestone.epoch}" in store.names(f"{job.job.name}/commits/")
    assert any(name.endswith((".changelog", ".zip")) for name in store.names(f"{job.job.name}/state/"))
    assert not (job.folder / "checkpoints").exists()
