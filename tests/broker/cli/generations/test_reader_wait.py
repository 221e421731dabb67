"""A promotion waits for readers that load its candidate ahead; `generation list` shows what they say."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.topics.recovery_log import reader_loads, record_load
from cutwater.cli.generations import reader_wait
from cutwater.cli.generations.reader_wait import await_readers
from cutwater.cli.options import JobContext
from cutwater.core.pacing import reader_loads as rules
from cutwater.core.protocol.records import Withdrawal
from support.cli.commandline import Cli
from support.cli.jsonshapes import parsed
from support.views.candidate_player import Candidate
from support.views.changelogs import Sold, Writing, make_job, now_ms, until

LONG_S = 60.0


class Place:
    """A job with a candidate, whose few rows count as many."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        job, file = make_job(folder)
        self.writing = Writing(cluster, job)
        self.writing.epoch([Sold("a", 1, 5)])
        self.candidate = Candidate(self.writing)
        self.file, self.cluster, self.job = file, cluster, job
        self.context = JobContext(job, file, cluster, Settings(), None)

    def say(self, reader: str, state: str) -> None:
        """Return once it stands on the trail."""
        generation = self.candidate.generation
        record_load(reader, self.job.name, self.cluster, structlog.get_logger(), generation, state, 1)
        until(lambda: (reader, state) in [(one.reader, one.state) for one in self.loads()], "the record")

    def loads(self) -> list[rules.ReaderLoad]:
        return reader_loads(self.cluster, self.job.name, self.candidate.generation)

    def wait(self, wait_s: float = LONG_S) -> None:
        await_readers(self.context, self.candidate.generation, wait_s)


@pytest.fixture
def place(broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(reader_wait, "BULK_RECORDS", 1)
    monkeypatch.setattr(rules, "ANNOUNCED_MS", 500)
    return Place(broker.cluster, tmp_path)


def ends_only_after(place: Place, event: Callable[[], object]) -> None:
    """Require that the wait goes on until something happens, and ends then."""
    waiting = threading.Thread(target=place.wait, daemon=True)
    waiting.start()
    time.sleep(3 * reader_wait.LOOK_S)
    assert waiting.is_alive()
    event()
    waiting.join(LONG_S / 2)
    assert not waiting.is_alive()


def test_it_waits_for_the_last_one(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Who has given up is not waited for."""
    place.candidate.begin()
    place.say("rehydrator", rules.LOADING)
    place.say("publisher", rules.LOADING)
    place.say("publisher", rules.GIVEN_UP)
    ends_only_after(place, lambda: place.say("rehydrator", rules.LOADED))
    assert not capsys.readouterr().err


def test_a_candidate_without_a_milestone_is_waited_for(place: Place) -> None:
    """Its readers cannot have begun."""
    place.say("publisher", rules.LOADED)
    ends_only_after(place, place.candidate.begin)


def test_who_does_not_end_is_named(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """The promotion does not depend on it."""
    place.candidate.begin()
    place.say("rehydrator", rules.LOADING)
    place.wait(1.0)
    assert "rehydrator on" in (said := capsys.readouterr().err)
    assert "has not loaded" in said


def test_who_says_nothing_is_not_waited_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers of an earlier version, or that load nothing ahead."""
    monkeypatch.setattr(reader_wait, "SILENT_S", 0.1)
    place.candidate.begin()
    began_s = time.monotonic()
    place.wait()
    assert time.monotonic() - began_s < LONG_S / 2


@pytest.mark.parametrize("why", ["few rows", "given up", "promoted", "its windows"])
def test_some_are_not_waited_for(place: Place, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although a reader loads it."""
    candidate = place.candidate
    candidate.begin()
    place.say("rehydrator", rules.LOADING)
    if why == "few rows":
        monkeypatch.setattr(reader_wait, "BULK_RECORDS", 100_000)
    elif why == "given up":
        candidate.tell(Withdrawal(place.job.name, candidate.generation, "a test", now_ms()))
    elif why == "promoted":
        candidate.take_over()
    else:
        monkeypatch.setattr(reader_wait, "closed_text", lambda _candidate, _now_ms: "it waits")
    ends = threading.Thread(target=place.wait, daemon=True)
    ends.start()
    ends.join(LONG_S / 2)
    assert not ends.is_alive()


def test_the_list_shows_what_readers_say(place: Place, tmp_path: Path) -> None:
    place.candidate.begin()
    place.say("rehydrator", rules.LOADING)
    words = ("generation", "list", str(place.file), "--bootstrap-servers", place.cluster.bootstrap, "--json")
    done = Cli(tmp_path).run(*words)
    assert done.returncode == 0, done.stderr
    (told,) = [one["loads"] for one in parsed(["generation", "list"], done.stdout) if one["loads"]]
    assert [(one["reader"], one["state"], one["epoch"]) for one in told] == [("rehydrator", "loading", 1)]
