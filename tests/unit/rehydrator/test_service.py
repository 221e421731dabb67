"""The rehydrator's service without brokers: what it does when a promotion meets an outage."""

from __future__ import annotations

from collections.abc import Iterator
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
from cutwater.rehydrator.service import Rehydrator
from cutwater.views.query.view import State
from support.views.changelogs import GENERATION, make_job
from unit.views.store.test_store import entry

NEXT = Generation(2, "local", "abcdef01")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Rehydrator]:
    job = make_job(tmp_path)[0]
    settings = Settings(
        bootstrap_servers="127.0.0.1:1", data_dir=tmp_path / "data", port=0, generation=GENERATION, wait_ms=1
    )
    made = Rehydrator(job, settings, structlog.get_logger())
    yield made
    for one in (made._coming, made._shown):
        if one is not None:
            one.stop()
            one.wait_ended(60)
            one.view.close()
    made._listener.close()


def test_an_outage_at_a_promotion_to_another_job_file_does_not_end_the_service(service: Rehydrator) -> None:
    """The brokers hold that file. Until they answer, the earlier view is shown, and it is asked for again."""
    shown, answers = service._shown, [UnavailableError("no broker answers")] * 2
    first = entry(shown.view.job, 1)
    shown.store.commit(first, {})
    shown.view.show(first)
    milestone = replace(entry(shown.view.job, 2).milestone, changelog_cut=Cut.of_topic("changelog", (1, 1, 1)))
    shown.follower.successor = replace(milestone, generation=NEXT, definition="another")

    def known() -> Candidates:
        if answers:
            raise answers.pop()
        return Candidates()

    service._jobs = GenerationJobs(shown.view.job, known)
    for _ in range(2):
        service._look()
        assert (service._coming, service._shown, service._past) == (None, shown, [])
        assert (shown.view.status.state, shown.view.ready) == (State.WAITING, True)
        assert f"generation {NEXT} is promoted: no broker answers" in shown.view.status.reason
    service._look()
    assert service._coming is not None
    assert service._coming.generation == NEXT
