"""`cutwater verify` on a real broker: sound places are equal, and of a damaged row place and key are named."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from confluent_kafka import Producer

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.commit_stream import published
from cutwater.core.access.roles import Tokens
from cutwater.core.checks.state_comparison import CHANGELOG, OUTPUT, VIEW, RowName, Verdict
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.query.peer_placement import Shares
from cutwater.local.machine.ports import free_ports
from cutwater.publisher.sources.changed_rows import Changed
from cutwater.rehydrator.app import create_app
from cutwater.rehydrator.cluster.peers import Peers
from cutwater.rehydrator.http_api.context import RouteContext
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.verify import run
from cutwater.verify.run import Request, Result, verify
from cutwater.views.changelog.row_batch import Piece
from cutwater.views.query.view import View
from cutwater.views.store.key_layout import Window, storage_key
from cutwater.views.store.store import Store
from support.views.changelogs import (
    GENERATION,
    HOUR_MS,
    Sold,
    Writing,
    encoded,
    following,
    make_job,
    now_ms,
    until,
)
from support.views.publishing import finals, publishing, wait_published

PLACES = (CHANGELOG, VIEW, OUTPUT)
BAD = RowName("shop-7", HOUR_MS, 2 * HOUR_MS)


@dataclass
class Stage:
    """A job with three epochs, the last of which changes a part of the rows."""

    cluster: Cluster
    job: Job
    job_file: Path
    folder: Path
    writing: Writing

    def publish(self) -> None:
        with publishing(self.cluster, self.job, self.folder / "finals"):
            assert self.writing.last is not None
            wait_published(self.cluster, self.job, self.writing.last.sequence)

    def publish_without_reading(self) -> None:
        """The same where readers of whole milestones refuse the output."""
        with publishing(self.cluster, self.job, self.folder / "finals"):
            until(
                lambda: self.writing.last and published(self.cluster, self.job.name) == self.writing.last.token,
                "it",
            )

    @contextmanager
    def view(self, token: str = "", shared: bool = False) -> Iterator[str]:
        """A rehydrator's API over a view at the newest milestone; yields its address."""
        port, metrics = free_ports(1)[0], Metrics()
        own = f"http://127.0.0.1:{port}"
        shares: Shares = {own: (), "http://127.0.0.1:1": ()} if shared else {}
        peers = Peers(self.job.shards, shares, own, "", metrics)
        with following(self.cluster, self.job, self.store, partitions=peers.partitions) as view:
            assert self.writing.last is not None
            view.wait_for(self.writing.last.sequence)
            app = create_app(view.view, GENERATION, metrics, now_ms, Tokens(plain=token), peers)
            server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off"))
            thread = threading.Thread(target=server.run)
            thread.start()
            until(lambda: server.started, "the API")
            try:
                yield own
            finally:
                server.should_exit = True
                thread.join(20)

    @property
    def store(self) -> Path:
        return self.folder / "view"

    def verify(self, url: str, **changes: Any) -> Result:
        request = Request(self.job, self.job_file, self.cluster, GENERATION, PLACES, api_url=url, wait_s=1)
        return verify(replace(request, **changes))


@pytest.fixture
def stage(broker: Any, tmp_path: Path) -> Iterator[Stage]:
    job, job_file = make_job(tmp_path / "job")
    writing = Writing(broker.cluster, job)
    for amount, shops in ((10, 40), (20, 40), (30, 7)):
        writing.epoch([Sold(f"shop-{number}", 1, amount + number) for number in range(shops)])
    yield Stage(broker.cluster, job, job_file, tmp_path / "data", writing)
    writing.close()


def answers(result: Result) -> dict[str, tuple[Verdict, int, int]]:
    return {one.place: (one.verdict, one.found.rows, one.differences) for one in result.answers}


def test_sound_places_are_equal_at_one_milestone(stage: Stage) -> None:
    """Rows below the horizon are in no place; digests agree with what the changelog has within each scope."""
    late = 30 * HOUR_MS
    stage.writing.epoch([Sold("shop-1", 29, 5), Sold("new", 30, 1)], watermark_ms=late)
    stage.publish()
    with stage.view() as url:
        result = stage.verify(url)
        assert stage.verify(url, at=stage.writing.last.token).answers == result.answers
    assert result.milestone == stage.writing.last
    assert answers(result) == dict.fromkeys(PLACES, (Verdict.EQUAL, 2, 0))
    assert all(one.found == one.expected for one in result.answers)


@pytest.mark.slow
def test_a_view_of_some_partitions_is_compared_with_just_them(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of its peers are not missed; of one that says it holds everything they are."""
    stage.publish()
    whole = (Verdict.EQUAL, 40, 0)
    with stage.view(shared=True) as url:
        found = answers(stage.verify(url))
        held = found[VIEW][1]
        assert 0 < held < 40
        assert found == {CHANGELOG: whole, VIEW: (Verdict.EQUAL, held, 0), OUTPUT: whole}
        monkeypatch.setattr(RouteContext, "partitions", None)
        assert answers(stage.verify(url))[VIEW] == (Verdict.DIFFERENT, held, 40 - held)


def test_windows_that_the_view_has_evicted_are_not_missed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is compared above its own lower bound, and everything else above the horizon."""
    stage.writing.epoch([Sold("shop-1", 9, 5), Sold("new", 9, 1)], watermark_ms=8 * HOUR_MS)
    stage.publish()
    with stage.view():
        pass
    store = Store(stage.store, stage.job, GENERATION)
    assert store.applied is not None
    store.commit(store.applied, {}, lower_ms=4 * HOUR_MS)
    store.close()
    whole = (Verdict.EQUAL, 42, 0)
    with stage.view() as url:
        assert answers(stage.verify(url)) == {CHANGELOG: whole, VIEW: (Verdict.EQUAL, 2, 0), OUTPUT: whole}
        monkeypatch.setattr(View, "lower_ms", lambda *_: None)
        assert answers(stage.verify(url))[VIEW] == (Verdict.DIFFERENT, 2, 40)


@pytest.mark.slow
def test_a_row_changed_in_the_views_store_is_named(stage: Stage) -> None:
    """RocksDB's files hold another value: the view is suspected, and the values stand side by side."""
    stage.publish()
    with stage.view():
        pass
    store = Store(stage.store, stage.job, GENERATION)
    _, value = encoded(stage.job, Sold("shop-7", 1, 999))
    store.put({storage_key(Window(*BAD), store.segment_ms): value})
    store.close()
    with stage.view() as url:
        result = stage.verify(url)
    assert answers(result)[VIEW] == (Verdict.DIFFERENT, 40, 1)
    assert answers(result)[CHANGELOG] == answers(result)[OUTPUT] == (Verdict.EQUAL, 40, 0)
    [found] = result.differences
    assert (found.name, found.suspects, result.differing_rows) == (BAD, (VIEW,), 1)
    pieces = {place: json.loads(text or "{}")["pieces"] for place, text in found.values.items()}
    assert pieces == {CHANGELOG: 27, VIEW: 999, OUTPUT: 27}


@pytest.mark.slow
def test_an_old_row_that_a_zombie_wrote_again_on_the_changelog_is_named(stage: Stage) -> None:
    """View and output stepped past it by its headers: it is outvoted, though its milestone is proved."""
    stage.publish()
    with stage.view():
        pass
    stage.writing.rows([Sold("shop-7", 1, 17)], epoch=0)
    stage.writing.epoch([Sold("shop-1", 1, 500)])
    stage.publish()
    with stage.view() as url:
        result = stage.verify(url)
    assert answers(result)[CHANGELOG] == (Verdict.DIFFERENT, 40, 1)
    assert [(one.name, one.suspects) for one in result.differences] == [(BAD, (CHANGELOG,))]


@pytest.mark.slow
def test_a_milestone_that_does_not_prove_its_rows_is_said(stage: Stage) -> None:
    """The rows of the newest epoch are not those that the milestone counts; nobody shows it."""
    stage.publish()
    with stage.view() as url:
        rows = [Sold("shop-7", 1, 70)]
        written = stage.writing.rows(rows, epoch=3)
        tampered = [(key, encoded(stage.job, Sold("shop-7", 1, 71))[1]) for key, _ in written]
        milestone = stage.writing.milestone(rows, tampered)
        result = stage.verify(url, at=milestone.token)
    found = {one.place: one for one in result.answers}
    assert found[CHANGELOG].verdict is Verdict.DIFFERENT
    assert f"milestone {milestone.token}" in found[CHANGELOG].reason
    assert found[VIEW].verdict is found[OUTPUT].verdict is Verdict.UNKNOWN


@pytest.mark.slow
def test_a_row_that_is_missing_on_the_output_is_named(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end markers agree with each other: only the comparison can tell."""
    whole = Changed.pieces

    def without_one(self: Changed, *arguments: Any) -> Iterator[Piece]:
        for piece in whole(self, *arguments):
            kept = [at for at, key in enumerate(piece.keys) if b"shop-7" not in key]
            columns = ([column[at] for at in kept] for column in (piece.keys, piece.values, piece.offsets))
            yield Piece(piece.partition, *columns)

    monkeypatch.setattr(Changed, "pieces", without_one)
    stage.publish()
    with stage.view() as url:
        result = stage.verify(url)
    assert answers(result)[OUTPUT] == (Verdict.DIFFERENT, 39, 1)
    [found] = result.differences
    assert (found.name, found.suspects) == (BAD, (OUTPUT,))
    assert found.values[OUTPUT] is None


@pytest.mark.slow
def test_a_strangers_row_on_the_output_is_named(stage: Stage) -> None:
    """It is in no end marker's count, and another value than everywhere else."""
    stage.publish()
    window = {"window_start": BAD.start_ms, "window_end": BAD.end_ms}
    measures = {"sales": 999, "pieces": Decimal(999), "takings": Decimal("9.99"), "mean": 9.99}
    row = {"sequence": 3, "kind": "update", "key": BAD.key, **window, **measures}
    producer, topic = Producer(stage.cluster.librdkafka()), topics.output(stage.job.name)
    value, partition = Codec(stage.job.output_schema).encode(row), stage.writing.partition(BAD.key)
    producer.produce(topic, key=BAD.key, value=value, partition=partition)
    assert producer.flush(20) == 0
    stage.writing.epoch([Sold("shop-1", 1, 500)])
    stage.publish_without_reading()
    with stage.view() as url:
        result = stage.verify(url)
    assert answers(result)[OUTPUT] == (Verdict.DIFFERENT, 40, 1)
    assert [(one.name, one.suspects) for one in result.differences] == [(BAD, (OUTPUT,))]
    [reason] = [one.reason for one in result.answers if one.place == OUTPUT]
    assert f"{topic}/{partition} holds" in reason
    assert "end marker says" in reason


@pytest.mark.slow
def test_finals_are_compared_for_closed_windows_only(stage: Stage) -> None:
    """Of 42 rows 41 are closed by the watermark; the open one is in changelog and view."""
    stage.job = finals(stage.job)
    stage.writing.epoch([Sold("shop-1", 2, 5), Sold("shop-1", 9, 5)], watermark_ms=5 * HOUR_MS)
    stage.publish()
    with stage.view() as url:
        result = stage.verify(url)
    assert answers(result) == {
        CHANGELOG: (Verdict.EQUAL, 42, 0),
        VIEW: (Verdict.EQUAL, 42, 0),
        OUTPUT: (Verdict.EQUAL, 41, 0),
    }


@pytest.mark.slow
def test_what_compaction_may_have_taken_is_no_false_alarm(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two days later an idle job's milestone is compared; once something stands above its cut it cannot be."""
    stage.publish()
    monkeypatch.setattr(run, "now_ms", lambda: now_ms() + 48 * HOUR_MS)
    with stage.view() as url:
        assert answers(stage.verify(url)) == dict.fromkeys(PLACES, (Verdict.EQUAL, 40, 0))
        stage.writing.rows([Sold("shop-7", 1, 70)], epoch=3)
        with pytest.raises(UnavailableError, match="compaction may have removed values"):
            stage.verify(url)


def test_a_comparison_is_bounded(stage: Stage) -> None:
    """More rows than --rows-max end it, with what to do."""
    with pytest.raises(UsageError, match="more than 39 rows: give a larger --rows-max"):
        stage.verify("", places=(CHANGELOG,), rows_max=39)
    assert answers(stage.verify("", places=(CHANGELOG,), rows_max=40)) == {CHANGELOG: (Verdict.EQUAL, 40, 0)}


@pytest.mark.slow
def test_a_view_that_is_away_is_not_compared(stage: Stage) -> None:
    """The others still are; the answer says which place could not be asked, and why."""
    stage.publish()
    result = stage.verify(f"http://127.0.0.1:{free_ports(1)[0]}")
    assert answers(result)[VIEW][0] is Verdict.UNKNOWN
    assert answers(result)[OUTPUT] == (Verdict.EQUAL, 40, 0)


@pytest.mark.slow
def test_an_export_asks_for_the_token_and_ends_with_its_number_of_rows(stage: Stage) -> None:
    """All rows at one milestone; without the token none."""
    token = "0123456789abcdef"
    with stage.view(token) as url:
        assert httpx.get(f"{url}/v1/export", timeout=20).status_code == 401
        answer = httpx.get(f"{url}/v1/export", headers={"Authorization": f"Bearer {token}"}, timeout=20)
    first, *rows, last = [json.loads(line) for line in answer.text.splitlines()]
    assert first["milestone"]["sequence"] == 3
    assert last == {"rows": len(rows)} == {"rows": 40}
