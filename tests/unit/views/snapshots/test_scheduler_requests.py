"""Requests for a snapshot: each is answered by what became of it, and by nothing older."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cutwater.adapters.object_store import Objects
from cutwater.core.errors import UnavailableError
from cutwater.core.state.manifest_signature import Keys
from cutwater.core.state.snapshot_manifest import Names, Policy
from cutwater.views.snapshots import scheduler as module
from cutwater.views.snapshots.local_tier import Checkpoints
from cutwater.views.snapshots.object_store_tier import SnapshotRepository
from cutwater.views.snapshots.scheduler import SnapshotPlan, SnapshotScheduler
from support.views.apiserving import Own
from support.views.changelogs import GENERATION, make_job, now_ms, until
from support.views.snapshots import GRACE_MS, Told


@contextmanager
def own_scheduler(folder: Path) -> Iterator[tuple[Own, SnapshotScheduler, SnapshotRepository, Told]]:
    """Of a view at milestone 1; nothing is taken before a request."""
    job, told = make_job(folder)[0], Told()
    own = Own(folder / "v", job)
    far = SnapshotRepository(
        Objects(str(folder / "store")), Names(job.name, str(GENERATION), "all"), GRACE_MS, Keys()
    )
    plan = SnapshotPlan(3_600_000, Policy(), 2)
    near = Checkpoints(own.store.folder)
    made = SnapshotScheduler(job, GENERATION, None, own.store, near, far, plan, now_ms, told, told)
    made._next_ms = 1 << 62
    own.show(1, {})
    try:
        yield own, made, far, told
    finally:
        made.stop()
        own.close()


def asking(scheduler: SnapshotScheduler, wait_s: float, answers: list[str]) -> threading.Thread:
    """Ask in a thread, which waits once this returns; `answers` gets a token, or an error's text."""

    def ask() -> None:
        try:
            answers.append(str(scheduler.request(wait_s)))
        except UnavailableError as error:
            answers.append(str(error))

    waiting = scheduler._asking
    one = threading.Thread(target=ask)
    one.start()
    until(lambda: scheduler._asking > waiting and scheduler._wanted, "the request")
    return one


def test_a_request_that_waits_on_is_not_answered_by_an_older_snapshot(tmp_path: Path) -> None:
    """Another request gives up meanwhile. The one that waits gets the snapshot of its own time."""
    with own_scheduler(tmp_path) as (own, scheduler, _, _):
        first: list[str] = []
        one = asking(scheduler, 60, first)
        scheduler.maybe_checkpoint()
        one.join(60)
        assert first == [f"{GENERATION}:1"]

        scheduler._busy = True  # an upload takes long
        own.show(2, {})
        impatient, patient = list[str](), list[str]()
        other = asking(scheduler, 0.2, impatient)
        last = asking(scheduler, 60, patient)
        other.join(60)
        assert "another one is being uploaded" in impatient[0]
        last.join(0.3)
        assert (patient, scheduler._wanted) == ([], True)
        scheduler._busy = False
        scheduler.maybe_checkpoint()
        last.join(60)
        assert patient == [f"{GENERATION}:2"]


def test_a_request_for_a_snapshot_that_was_given_up_is_refused(tmp_path: Path) -> None:
    """Its number is retired, so it will never be in the store: the token would name a snapshot that is not."""
    with own_scheduler(tmp_path) as (own, scheduler, far, told):
        far._objects.put(far.names.retired_manifest(1), b"{}")

        def asked() -> str:
            answers: list[str] = []
            one = asking(scheduler, 60, answers)
            scheduler.maybe_checkpoint()
            one.join(60)
            return answers[0]

        uploading = threading.Thread(target=scheduler.run)
        uploading.start()
        assert asked() == f"{GENERATION}:1"
        until(lambda: scheduler._waiting is None, "it to be given up")
        assert "was given up" in asked()
        own.show(2, {})
        assert asked() == f"{GENERATION}:2"
        until(lambda: told.uploads, "the upload")
        assert far.sequences() == [2]
        scheduler.stop()
        uploading.join(60)


def test_a_snapshot_that_was_taken_at_the_time_limit_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request slept while it was taken, and its time was over when it woke."""
    with own_scheduler(tmp_path) as (_, scheduler, _, _):
        monkeypatch.setattr(module.time, "sleep", lambda _: clock.append(0) or scheduler.maybe_checkpoint())
        clock: list[int] = []
        monkeypatch.setattr(module.time, "monotonic", lambda: 100.0 * len(clock))
        assert str(scheduler.request(60)) == f"{GENERATION}:1"
        assert not scheduler._wanted


def test_an_answered_request_that_has_not_returned_wants_no_other_snapshot(tmp_path: Path) -> None:
    with own_scheduler(tmp_path) as (_, scheduler, _, _):
        scheduler._busy = True
        scheduler._asking = 1  # answered, but its thread has not seen that yet
        with pytest.raises(UnavailableError):
            scheduler.request(0)
        assert not scheduler._wanted, "nobody waits"


@pytest.mark.slow
def test_requests_at_once_get_one_snapshot(tmp_path: Path) -> None:
    with own_scheduler(tmp_path) as (_, scheduler, _, _):
        answers: list[str] = []
        every = [asking(scheduler, 60, answers) for _ in range(3)]
        scheduler.maybe_checkpoint()
        for one in every:
            one.join(60)
        assert answers == [f"{GENERATION}:1"] * 3
