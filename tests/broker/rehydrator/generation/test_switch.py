"""Another generation is promoted while the rehydrator serves: readers change over at a milestone, never back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from cutwater.views.query.output_json import from_iso
from support.views.changelogs import Rows, Sold, Writing, make_job, until
from support.views.rehydrating import Process, running

SHOPS = [f"s{number}" for number in range(60)]
FIRST = "g1-local-00000000"


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    job, _ = make_job(tmp_path)
    one = Writing(broker.cluster, job)
    one.epoch(Sold(shop, 1, 10) for shop in SHOPS)
    yield one
    one.close()


def job_file(writing: Writing, folder: Path) -> Path:
    return folder / f"{writing.job.name}.yaml"


@contextmanager
def serving(writing: Writing, folder: Path, prefix: str = "", **env: str) -> Iterator[Process]:
    with running(writing.cluster, job_file(writing, folder), folder / "data", prefix=prefix, **env) as served:
        until(served.answers, "the API")
        yield served


class Reader:
    """Asks for all rows again and again; keeps what it was told."""

    def __init__(self, served: Process) -> None:
        self._served = served
        self._stop = threading.Event()
        self.answers: list[tuple[int, str, Rows]] = []
        self.refusals: list[tuple[int, str]] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            answer = self._served.get("/v1/state", limit=1000)
            if answer.is_success:
                found = answer.json()
                assert found["next"] is None
                rows = {(row["key"], from_iso(row["window_start"])): row["pieces"] for row in found["rows"]}
                milestone = found["milestone"]
                self.answers.append((milestone["sequence"], milestone["generation"], rows))
            else:
                self.refusals.append((answer.status_code, answer.text))


def check(reader: Reader, writing: Writing) -> None:
    """No error, never back, and always the rows of the milestone that is named."""
    assert reader.refusals == []
    sequences = [sequence for sequence, _, _ in reader.answers]
    assert sequences == sorted(sequences)
    for sequence, _, rows in reader.answers:
        assert rows == writing.by_sequence[sequence], sequence


@pytest.mark.slow
def test_readers_change_over_at_a_milestone(writing: Writing, tmp_path: Path) -> None:
    """Other partitions, somebody who asks all the time: no error, no step back, no row of another milestone."""
    with serving(writing, tmp_path) as served:
        until(lambda: served.shown() == 1, "the first generation")
        old = str(writing.last.token)
        with Reader(served) as reader:
            for epoch in range(3):
                writing.epoch(Sold(shop, 1, 20 + epoch) for shop in SHOPS[epoch::3])
                until(lambda: served.shown() == writing.last.sequence, "a milestone")
            writing.promote(5, [Sold("s1", 2, 7)])
            until(lambda: served.shown() == writing.last.sequence, "the other generation")
            for epoch in range(3):
                writing.epoch(Sold(shop, 2, 30 + epoch) for shop in SHOPS[epoch::3])
            until(lambda: served.shown() == writing.last.sequence, "its milestones")
        check(reader, writing)
        assert {name for _, name, _ in reader.answers} == {FIRST, str(writing.generation)}
        assert served.get("/v1/milestone", at_least=old).status_code == 200
        beyond = served.get("/v1/milestone", at_least="g1-local-00000000:5")
        assert (beyond.status_code, beyond.json()["detail"]["milestone"]["sequence"]) == (410, 8)
        assert served.get("/readyz").json()["status"] == "following"
        assert f"cutwater_view_sequence {writing.last.sequence:.1f}" in served.get("/metrics").text
        views = tmp_path / "data" / "views" / writing.job.name
        until(lambda: not any(views.glob("g1-*")), "the view of the first to be deleted")
        assert served.shown() == writing.last.sequence
    with serving(writing, tmp_path) as served:
        until(lambda: served.shown() == writing.last.sequence, "the same after a start")


@pytest.mark.slow
def test_who_waits_is_answered_by_the_generation_that_comes(writing: Writing, tmp_path: Path) -> None:
    """A token of the next generation is waited for across the change, and a lost one is told as soon as it is."""
    with serving(writing, tmp_path) as served:
        until(lambda: served.shown() == 1, "the first generation")
        token, lost = f"g2-local-{'0' * 8}:2", "g1-local-00000000:2"
        assert served.get("/v1/milestone", at_least=token, wait_ms=100).status_code == 412
        found: dict[str, httpx.Response] = {}

        def ask(name: str, path: str, **query: Any) -> threading.Thread:
            def run() -> None:
                found[name] = served.get(path, wait_ms=30_000, **query)

            thread = threading.Thread(target=run)
            thread.start()
            return thread

        def post() -> None:
            url, query = f"http://127.0.0.1:{served.port}/v1/keys", {"at_least": lost, "wait_ms": 30_000}
            found["keys"] = httpx.post(url, params=query, json={"keys": ["s1"]}, timeout=40)

        threads = [ask("lost", "/v1/state/s1", at_least=lost)]
        posting = threading.Thread(target=post)
        posting.start()
        until(lambda: "waiting_requests 2.0" in served.get("/metrics").text, "both to wait")
        writing.promote(2, [Sold("s1", 2, 7)])
        for thread in (*threads, posting):
            thread.join(40)
        for answer in found.values():
            assert (answer.status_code, answer.json()["detail"]["milestone"]["sequence"]) == (410, 2)
        assert served.get("/v1/state/s1", at_least=str(writing.last.token)).json()["milestone"]["sequence"] == 2


@pytest.mark.slow
def test_rollback(writing: Writing, tmp_path: Path) -> None:
    """What was rolled back is not shown any more, and its tokens are lost; earlier ones are not."""
    writing.epoch([Sold("s1", 1, 20)])
    writing.epoch([Sold("s1", 1, 99), Sold("wrong", 1, 1)])
    with serving(writing, tmp_path) as served:
        until(lambda: served.shown() == 3, "the first generation")
        with Reader(served) as reader:
            writing.promote(3, rewinds_to=2)
            until(lambda: served.shown() == 4, "the rollback")
        check(reader, writing)
        assert served.pieces("s1") == [20]
        assert served.pieces("wrong") == []
        first = "g1-local-00000000"
        statuses = [served.get("/v1/milestone", at_least=f"{first}:{at}").status_code for at in (1, 2, 3, 4)]
        assert statuses == [200, 200, 410, 410]
    with serving(writing, tmp_path) as served:
        until(lambda: served.shown() == 4, "the same after a start")
        statuses = [served.get("/v1/milestone", at_least=f"{first}:{at}").status_code for at in (1, 2, 3, 4)]
        assert statuses == [200, 200, 410, 410], "what a start does not read was kept"


@pytest.mark.slow
def test_two_promotions_while_it_was_away(writing: Writing, tmp_path: Path) -> None:
    """It ends at the newest generation, and never shows the one between."""
    with serving(writing, tmp_path) as served:
        until(lambda: served.shown() == 1, "the first generation")
    writing.promote(2, [Sold("s1", 2, 7)])
    between = writing.generation
    writing.promote(4, [Sold("s1", 2, 8)])
    with serving(writing, tmp_path) as served:
        with Reader(served) as reader:
            until(lambda: served.shown() == 3, "the newest generation")
        check(reader, writing)
        assert {sequence for sequence, _, _ in reader.answers} <= {1, 3}
        left = tmp_path / "data" / "views" / writing.job.name / str(between)
        until(lambda: not left.exists(), "the one between to be deleted")


def test_changes_begin_anew(writing: Writing, tmp_path: Path) -> None:
    """A reader of changes is told `reset` in the same answer, and goes on with the other generation's changes."""
    with serving(writing, tmp_path) as served:
        until(lambda: served.shown() == 1, "the first generation")
        url = f"http://127.0.0.1:{served.port}/v1/changes"
        with httpx.stream("GET", url, timeout=30) as answer:
            lines = (line for line in answer.iter_lines() if line.startswith(("event", "id")))
            assert [next(lines) for _ in range(2)] == ["event: reset", "id: g1-local-00000000:1"]
            writing.epoch([Sold("s1", 1, 20)])
            assert [next(lines) for _ in range(2)] == ["event: changes", "id: g1-local-00000000:2"]
            writing.promote(5)
            assert [next(lines) for _ in range(2)] == ["event: reset", f"id: {writing.generation}:3"]
            writing.epoch([Sold("s1", 1, 21)])
            assert [next(lines) for _ in range(2)] == ["event: changes", f"id: {writing.generation}:4"]
        with httpx.stream("GET", url, params={"after": "g1-local-00000000:2"}, timeout=30) as answer:
            lines = (line for line in answer.iter_lines() if line.startswith(("event", "id")))
            assert next(lines) == "event: reset"


@pytest.mark.slow
def test_a_generation_that_cannot_be_shown_leaves_the_one_before(writing: Writing, tmp_path: Path) -> None:
    """Rows that are not what its milestone proves: the last good one stays, and it is said why, until the next."""
    with serving(writing, tmp_path) as served:
        until(lambda: served.shown() == 1, "the first generation")
        writing.promote(5, [Sold("s1", 1, 11)], digest=1)
        until(lambda: served.get("/readyz").json()["status"] == "stopped", "it to stop")
        health = served.get("/readyz")
        assert (health.status_code, served.shown()) == (503, 1)
        assert str(writing.generation) in health.json()["reason"]
        writing.promote(4, [Sold("s1", 1, 12)])
        until(lambda: served.shown() == writing.last.sequence, "the one behind it, without a restart")
        assert served.get("/readyz").json()["status"] == "following"


@pytest.mark.slow
def test_a_view_that_has_stopped_takes_the_next_generation(writing: Writing, tmp_path: Path) -> None:
    """It stops at a milestone that does not hold, twice, and follows the one that is promoted behind it."""
    with serving(writing, tmp_path) as served:
        for partitions in (4, 5):
            until(lambda: served.shown() == writing.last.sequence, "a generation")
            good = writing.last.sequence
            writing.epoch([Sold("s1", 1, 11)], digest=1)
            until(lambda: served.get("/readyz").json()["status"] == "stopped", "it to stop")
            assert served.shown() == good
            writing.promote(partitions, [Sold("s1", 1, 12)])
        until(lambda: served.shown() == writing.last.sequence, "the last generation")
        assert served.get("/v1/state/s1").json()["rows"][0]["pieces"] == 12
        views = tmp_path / "data" / "views" / writing.job.name
        here = [str(writing.generation)]
        until(lambda: [one.name for one in views.glob("g*") if one.is_dir()] == here, "the others to be deleted")
