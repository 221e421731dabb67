"""The rehydrator's service without brokers: what it does when a promotion meets an outage or a full disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.core.errors import UnavailableError
from cutwater.core.generations.candidates import Candidates
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.rehydrator.generation.served_generation import ServedGeneration
from cutwater.rehydrator.service import Rehydrator
from cutwater.views.query.view import State
from support.smalldisk import small_disk
from support.views.changelogs import GENERATION, make_job
from unit.views.store.test_store import entry

NEXT = Generation(2, "local", "abcdef01")


@contextmanager
def rehydrator(tmp_path: Path, data_dir: Path) -> Iterator[Rehydrator]:
    """Not running: a test calls its steps."""
    job = make_job(tmp_path)[0]
    settings = Settings(
        bootstrap_servers="127.0.0.1:1", data_dir=data_dir, port=0, generation=GENERATION, wait_ms=1
    )
    made = Rehydrator(job, settings, structlog.get_logger())
    yield made
    for one in (made._coming, made._shown):
        if one is not None:
            one.stop()
            one.wait_ended(60)
            one.view.close()
    made._listener.close()


def promote(service: Rehydrator) -> ServedGeneration:
    """Its view is at a milestone, and its follower has read the first one of a generation by another job file."""
    shown = service._shown
    first = entry(shown.view.job, 1)
    shown.store.commit(first, {})
    shown.view.show(first)
    milestone = replace(entry(shown.view.job, 2).milestone, changelog_cut=Cut.of_topic("changelog", (1, 1, 1)))
    shown.follower.successor = replace(milestone, generation=NEXT, definition="another")
    return shown


def test_an_outage_at_a_promotion_to_another_job_file_does_not_end_the_service(tmp_path: Path) -> None:
    """The brokers hold that file. Until they answer, the earlier view is shown, and it is asked for again."""
    answers = [UnavailableError("no broker answers")] * 2

    def known() -> Candidates:
        if answers:
            raise answers.pop()
        return Candidates()

    with rehydrator(tmp_path, tmp_path / "data") as service:
        shown = promote(service)
        service._jobs = GenerationJobs(shown.view.job, known)
        for _ in range(2):
            service._look()
            assert (service._coming, service._shown, service._past) == (None, shown, [])
            assert (shown.view.status.state, shown.view.ready) == (State.WAITING, True)
            assert f"generation {NEXT} is promoted: no broker answers" in shown.view.status.reason
        service._look()
        assert service._coming is not None
        assert service._coming.generation == NEXT


@pytest.mark.needs("mount")
def test_a_full_disk_at_a_promotion_does_not_end_the_service(tmp_path: Path) -> None:
    """The view shown stays, and the next one begins once there is room: a restart could not open either."""
    with small_disk(tmp_path / "small") as disk, rehydrator(tmp_path, disk.folder) as service:
        shown = promote(service)
        service._jobs = GenerationJobs(shown.view.job, Candidates)
        disk.fill()
        for _ in range(2):
            service._look()
            assert (service._coming, service._shown, service._past) == (None, shown, [])
            assert (shown.view.status.state, shown.view.ready) == (State.FULL, True)
            assert "No space left on device" in shown.view.status.reason
        disk.make_room()
        service._look()
        assert service._coming is not None
        assert service._coming.generation == NEXT
