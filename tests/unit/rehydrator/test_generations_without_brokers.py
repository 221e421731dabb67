"""Which view is shown, and for how long, while no broker answers."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.generations.candidates import Candidates
from cutwater.core.job.job import Job
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.util.topic_absence import TopicAbsence
from cutwater.rehydrator.generation import first_generation
from cutwater.rehydrator.generation.first_generation import choose_generation
from cutwater.views.follow import follower
from cutwater.views.query.view import State
from cutwater.views.store.folders import folder_of
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, make_job, until
from unit.rehydrator.test_service import NEXT, promote, rehydrator
from unit.views.store.test_store import entry

NAMED = {"named": True, "not named": False}


def whole(settings: Settings, job: Job, generation: Generation, definition: str) -> None:
    """A view at a milestone, as an earlier process has left it."""
    shown = entry(job, 1)
    cut = Cut.of_topic("changelog", (1, 1, 1))
    milestone = replace(shown.milestone, generation=generation, definition=definition, changelog_cut=cut)
    store = Store(folder_of(settings.views_dir, job.name, generation), job, generation)
    store.commit(shown._replace(milestone=milestone, record=protocol_records.encode(milestone)), {})
    store.close()


@pytest.mark.parametrize("named", NAMED.values(), ids=NAMED)
@pytest.mark.parametrize("definition", ["same", "another"])
def test_a_whole_view_is_shown_before_one_that_was_being_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, definition: str, named: bool
) -> None:
    """Restarted during an outage behind a promotion, a rehydrator shows what it showed before. Rows of another job
    file wait for a broker, which can tell it; a generation of the settings is the one that is meant."""
    monkeypatch.setattr(first_generation, "PROBE_S", 0.1)
    job = make_job(tmp_path)[0]
    given = {"generation": NEXT} if named else {}
    settings = Settings(bootstrap_servers="127.0.0.1:1", data_dir=tmp_path / "data", **given)
    whole(settings, job, GENERATION, job.fingerprint if definition == "same" else definition)
    Store(folder_of(settings.views_dir, job.name, NEXT), job, NEXT).close()
    of, found = choose_generation(job, settings, structlog.get_logger())
    earlier = definition == "same" and not named
    assert found.generation == (GENERATION if earlier else NEXT)
    assert of.shards.partitions == (3 if earlier else job.shards.partitions)
    whole(settings, job, NEXT, definition)
    assert choose_generation(job, settings, structlog.get_logger())[1].generation == NEXT, "the latest whole one"


def test_an_outage_behind_a_promotion_does_not_end_the_service(tmp_path: Path) -> None:
    """However long it is: the view shown stays, and the next one begins once a broker answers."""
    with rehydrator(tmp_path, tmp_path / "data") as service:
        shown = promote(service)
        service._jobs = GenerationJobs(shown.view.job, Candidates)
        service._look()
        coming = service._coming
        assert coming is not None
        # A try takes longer than CUTWATER_WAIT_MS, as long as the first generation waits.
        until(lambda: coming.view.status.state is State.WAITING or service._fatal, "the first try")
        service._look()
        assert (service._fatal, service._shown) == (None, shown)
        assert (shown.view.status.state, shown.view.ready) == (State.WAITING, True)


def test_a_topic_that_a_restarted_broker_does_not_know_yet_does_not_end_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No broker says that on demand. It is believed at once if nothing is shown: a mistake of a first start."""

    def missing(_cluster: object, topic: str) -> int:
        raise UsageError(f"topic {topic} does not exist")

    monkeypatch.setattr(follower, "partition_count", missing)
    with rehydrator(tmp_path, tmp_path / "data") as service:
        one = service._shown.follower
        one._absences = TopicAbsence(0.2)
        with pytest.raises(UsageError):
            one._require_topic("t")
        promote(service)
        with pytest.raises(UnavailableError, match="topic t does not exist"):
            one._require_topic("t")
        time.sleep(0.25)
        with pytest.raises(UsageError):
            one._require_topic("t")
