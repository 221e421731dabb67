"""Changes as server-sent events: each once and in order, held against the changelog itself; never a silent gap."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from fastapi import Request

from cutwater.adapters.avro.codec import HEADER_BYTES, Codec
from cutwater.adapters.config.held_part import HeldPart
from cutwater.adapters.hashing import key_hash
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.core.state.partition_share import owners
from cutwater.core.state.selection import Selection
from cutwater.rehydrator.cluster.held_part import Replica
from cutwater.rehydrator.cluster.peers import Peers
from cutwater.rehydrator.http_api import sse
from cutwater.rehydrator.http_api.context import RouteContext
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.rehydrator.routes import change_text
from cutwater.rehydrator.routes import changes as route
from cutwater.views.changelog.record_reader import KeyReader
from cutwater.views.query import change_feed as kept
from cutwater.views.query.change_feed import FOLLOWERS_MAX, Changes
from cutwater.views.query.presenter import Presenter
from support.views.apiserving import Own, app_of, serving
from support.views.changelogs import GENERATION, HOUR_MS, Sold, Writing, following, make_job, now_ms, until
from support.views.rehydrating import running
from unit.views.store.test_store import entry, rows

Seen = dict[tuple[str, str], str]
"""What a milestone changed: pieces by shop and window start, as text."""


class Event(NamedTuple):
    kind: str
    data: Any
    id: str


def parsed(lines: Iterator[str]) -> Iterator[Event]:
    """As the standard says: fields until an empty line; what begins with a colon is a comment."""
    found: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, text = line.partition(": ")
            found[name] = text
        elif "event" in found:
            yield Event(found["event"], json.loads(found["data"]), found.get("id", ""))
            found = {}


@contextmanager
def reading(url: str, last: str = "", **query: Any) -> Iterator[Iterator[Event]]:
    headers = {"last-event-id": last} if last else {}
    with httpx.stream("GET", f"{url}/v1/changes", params=query, headers=headers, timeout=30) as answer:
        assert answer.status_code == 200, answer.read()
        yield parsed(answer.iter_lines())


def on_the_changelog(writing: Writing) -> dict[int, Seen]:
    """What each epoch wrote, from the topic: the last record of each key of the epoch's own writer."""
    values, windows, found = Codec(writing.job.state_schema), KeyReader(), {}
    consumer = make_consumer(writing.cluster)
    for partition in range(writing.job.shards.partitions):
        low, high = bounds(consumer, writing.topic, partition)
        for message in read_range(consumer, writing.topic, partition, low, high) if low < high else ():
            epoch = int(message.headers()[0][1].decode().rsplit("/", 1)[1])
            window = windows.window(message.key())
            pieces = values.decode_body(message.value(), HEADER_BYTES)["pieces"]
            found.setdefault(epoch, {})[window.key, str(window.start_ms)] = str(pieces)
    consumer.close()
    return found


def seen_in(told: list[dict[str, Any]]) -> Seen:
    """Of a milestone's events; no row may come twice."""
    rows = [row for data in told for row in data["rows"]]
    found = {(row["key"], _ms(row["window_start"])): str(row["pieces"]) for row in rows}
    assert len(found) == len(rows)
    return found


def _ms(moment: str) -> str:
    hours = int(moment[11:13]) + 24 * (int(moment[8:10]) - 1)
    return str(hours * HOUR_MS)


@pytest.mark.slow
def test_each_change_once_and_in_order_across_reconnects(broker: Any, tmp_path: Path) -> None:
    """A reader that leaves at any moment and comes back with the last id has, at the end, the changelog's rows."""
    job, path = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    first = writing.epoch([Sold("begin", 1, 1)])
    small = "import cutwater.rehydrator.routes.change_text as t; t.PIECE_ROWS = 7"
    with running(broker.cluster, path, tmp_path / "data", small) as served:
        until(served.answers, "the API")
        until(lambda: served.shown() == 1, "the first milestone")
        url, rng = f"http://127.0.0.1:{served.port}", random.Random(5)
        with reading(url) as found:
            begin = next(found)
        assert (begin.kind, begin.id) == ("reset", str(first.token))

        def write() -> None:
            for epoch in range(25):
                writing.epoch(Sold(f"s{at}", 1 + at % 9, 100 * epoch + at) for at in range(rng.choice([0, 3, 40])))

        writer = threading.Thread(target=write)
        writer.start()
        told, last, returns = {}, begin.id, 0
        while len(told) < 25:
            parts: list[dict[str, Any]] = []
            with reading(url, last) as found:
                for event in islice(found, rng.randrange(1, 12)):
                    assert event.kind == "changes", event
                    parts.append(event.data)
                    sequence = event.data["milestone"]["sequence"]
                    assert served.shown() >= sequence, "not before the view shows it"
                    assert (event.id == event.data["milestone"]["token"]) == event.data["last"]
                    if event.data["last"]:
                        assert sequence not in told
                        told[sequence], last, parts = seen_in(parts), event.id, []
                        if len(told) == 25:
                            break
            returns += 1
        writer.join()
        assert "cutwater_view_followers_cut_off_total 0.0" in served.get("/metrics").text
    assert list(told) == list(range(2, 27)), "in order, without a gap"
    assert returns > 5
    changelog = on_the_changelog(writing)
    assert told == {sequence: changelog.get(sequence - 1, {}) for sequence in told}
    assert sum(map(len, told.values())) > 100
    writing.close()


@contextmanager
def followed(writing: Writing, folder: Path, **options: Any) -> Iterator[tuple[str, Any]]:
    """A view in this process, and its API."""
    box: list[Any] = []
    changes = Changes(lambda: box[0].view.milestone if box else None)
    with following(writing.cluster, writing.job, folder, changes=changes, **options) as view:
        box.append(view)
        with serving(app_of(view.view, changes=changes)) as url:
            yield url, view


@pytest.mark.parametrize("chunk_rows", [1_000, 7])
def test_what_was_written_twice_comes_once(broker: Any, tmp_path: Path, chunk_rows: int) -> None:
    """A task that ran twice: the last row counts; of an older attempt's rows none comes. At once and in chunks."""
    writing = Writing(broker.cluster, make_job(tmp_path)[0])
    writing.epoch([Sold("begin", 1, 1)])
    with followed(writing, tmp_path / "view", chunk_rows=chunk_rows) as (url, view):
        view.wait_for(1)
        with reading(url) as found:
            assert next(found).kind == "reset"
            writing.rows([Sold("old", 1, 5)], epoch=1, attempt=1)
            wanted = [Sold(f"s{at}", 2, at) for at in range(20)]
            writing.rows(wanted[:15], epoch=1, attempt=2)
            written = writing.rows(wanted, epoch=1, attempt=2)
            writing.milestone(wanted, written, attempt=2)
            event = next(found)
            assert event.data["last"]
            assert seen_in([event.data]) == {(one.shop, str(2 * HOUR_MS)): str(one.pieces) for one in wanted}
    writing.close()


def test_a_restore_is_a_reset(broker: Any, tmp_path: Path) -> None:
    """What a jump changed is not known: the reader is told where it begins anew, and goes on from there."""
    late = [0]
    writing = Writing(broker.cluster, make_job(tmp_path)[0])
    writing.epoch([Sold("a", 1, 1)])
    with followed(writing, tmp_path / "view", clock=lambda: now_ms() + late[0]) as (url, view):
        view.wait_for(1)
        with reading(url) as found:
            assert next(found).id == str(writing.last.token)
            writing.epoch([Sold("a", 1, 2)])
            assert [row["pieces"] for row in next(found).data["rows"]] == [2]
            late[0] = 23 * HOUR_MS + 1  # so old that compaction may have begun
            jumped = writing.epoch([Sold("a", 1, 3)])
            event = next(found)
            assert (event.kind, event.id) == ("reset", str(jumped.token))
            late[0] = 0
            writing.epoch([Sold("a", 1, 4)])
            event = next(found)
            assert (event.kind, [row["pieces"] for row in event.data["rows"]]) == ("changes", [4])
    writing.close()


class Told:
    """A view and its changes, both written by the test."""

    def __init__(self, folder: Path, **options: Any) -> None:
        job, _ = make_job(folder)
        self.own = Own(folder / "v", job)
        self.changes = Changes(lambda: self.own.view.milestone, **options)
        self.app = app_of(self.own.view, changes=self.changes)

    def show(self, sequence: int, *sold: Sold, known: bool = True) -> None:
        made, shown = rows(self.own.job, self.own.store, list(sold)), entry(self.own.job, sequence)
        gathered = self.changes.gathering()
        self.own.store.commit(shown, made)
        gathered.add(made)
        self.own.view.show(shown)
        self.changes.show(shown.milestone, gathered.rows if known else None)


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Callable[..., Told]]:
    made: list[Told] = []

    def make(**options: Any) -> Told:
        made.append(Told(tmp_path, **options))
        return made[-1]

    yield make
    for one in made:
        one.own.close()


def token(sequence: int, generation: object = GENERATION) -> str:
    return f"{generation}:{sequence}"


def test_where_a_reader_begins(told: Callable[..., Told]) -> None:
    """At its token where that is kept; else with a reset that names the milestone shown."""
    one = told()
    with serving(one.app) as url:
        assert httpx.get(f"{url}/v1/changes").status_code == 503
        one.show(5, Sold("a", 1, 5))
        with reading(url, after=token(5)) as at_five:
            one.show(6, Sold("a", 1, 6))
            one.show(7, Sold("a", 1, 7))
            assert [next(at_five).id for _ in range(2)] == [token(6), token(7)]
        for after, kind, at in ((5, "changes", 6), (6, "changes", 7), (4, "reset", 7)):
            with reading(url, after=token(after)) as found:
                event = next(found)
                assert (event.kind, event.id) == (kind, token(at))
        with reading(url, last=token(6), after=token(4)) as found:
            assert next(found).kind == "changes", "the header goes before: it is newer than the address"
        with reading(url, after=token(6, "g1-local-abcdef01")) as found:
            assert next(found).kind == "reset"
        with reading(url, after=token(8)) as ahead:
            one.show(8, Sold("a", 1, 8))
            one.show(9, Sold("a", 1, 9))
            assert next(ahead).id == token(9)
        one.show(12, Sold("a", 1, 12), known=False)
        with reading(url, last=token(9)) as found:
            assert next(found).id == token(12)
        for text in ("x", token(-1), "g1:1", "9" * 5_000):
            assert httpx.get(f"{url}/v1/changes", params={"after": text}).status_code == 400


def test_only_some_keys(told: Callable[..., Told]) -> None:
    """By prefix or by key; a milestone that changed none of them comes too, so that its id moves on."""
    one = told()
    one.show(1)
    with serving(one.app) as url, reading(url, prefix="a") as some, reading(url, key="b") as other:
        assert {next(some).kind, next(other).kind} == {"reset"}
        one.show(2, Sold("a", 1, 1), Sold("ab", 1, 2), Sold("b", 1, 3))
        one.show(3, Sold("ab", 1, 4))
        assert [[row["key"] for row in next(some).data["rows"]] for _ in range(2)] == [["a", "ab"], ["ab"]]
        assert [[row["key"] for row in next(other).data["rows"]] for _ in range(2)] == [["b"], []]


def test_a_key_of_another_peer_is_followed_there(told: Callable[..., Told]) -> None:
    """Refused with its address: what it holds, this one never hears of."""
    one, urls = told(), ["http://one", "http://two"]
    one.show(1)
    shares: dict[str, tuple[str, ...]] = dict.fromkeys(urls, ())
    app = app_of(one.own.view, peers=lambda metrics: Peers(one.own.job.shards, shares, urls[0], "", metrics))
    with serving(app) as url:
        shards = one.own.job.shards
        owned = owners(urls, shards.partitions)
        away = next(key for key in "abcdefgh" if owned[shards.partition(shards.shard(key_hash(key)))] != urls[0])
        refused = httpx.get(f"{url}/v1/changes", params={"key": away})
        assert (refused.status_code, "http://two" in refused.text) == (421, True)


def test_what_a_replica_lacks_is_not_followed(told: Callable[..., Told]) -> None:
    """Refused, where it would be silent for ever; a prefix of which it may hold something is followed."""
    one = told()
    one.show(1)
    shards = one.own.job.shards
    partition = {key: shards.partition(shards.shard(key_hash(key))) for key in ("JFK", *"abcdefgh")}
    here, away = "JFK", next(key for key in "abcdefgh" if partition[key] != partition["JFK"])
    partitions = frozenset({partition[here]})
    kept = Selection.of([here, away], ["LG"])
    app = app_of(one.own.view, replica=Replica(HeldPart(partitions, kept), shards), changes=one.changes)
    with serving(app) as url:
        for prefix in ("EW", "JFKx", "LA", away):
            refused = httpx.get(f"{url}/v1/changes", params={"prefix": prefix})
            assert (refused.status_code, "this replica holds only" in refused.text) == (421, True), prefix
        for prefix in ("J", "JFK", "L", "LGA", ""):
            with reading(url, prefix=prefix) as found:
                assert next(found).kind == "reset"


@pytest.mark.slow
def test_a_slow_reader_is_cut_off_and_told(told: Callable[..., Told]) -> None:
    """What it did not take is not kept for it; it comes back to a reset."""
    one = told(bytes_max=3 << 20)
    one.show(1)
    with serving(one.app) as url:
        with reading(url) as found:
            assert next(found).kind == "reset"
            one.show(2, Sold("a", 1, 1))
            assert next(found).id == token(2)
            for sequence in range(3, 53):  # more than all buffers on the way hold
                one.show(sequence, *(Sold(f"{'x' * 1_000}{at}", 1, at) for at in range(700)))
            rest = list(found)
        assert rest[-1].kind == "behind"
        assert [event.kind for event in rest[:-1]] == ["changes"] * (len(rest) - 1)
        ids = [event.id for event in rest[:-1] if event.id]
        assert ids == [token(sequence) for sequence in range(3, 3 + len(ids))]
        with reading(url, last=ids[-1] if ids else token(2)) as again:
            assert next(again)[::2] == ("reset", token(52))
        assert "cutwater_view_followers_cut_off_total 1.0" in httpx.get(f"{url}/metrics").text


class Kept(dict[bytes, bytes]):
    """Rows of which it can be told whether anybody holds them still."""


def large(one: Told, sequence: int) -> Kept:
    """A milestone of many pieces, shown; returns its rows."""
    made = Kept(rows(one.own.job, one.own.store, [Sold(f"{'x' * 1_000}{at}", 1, sequence) for at in range(2_000)]))
    shown = entry(one.own.job, sequence)
    one.own.view.show(shown)
    one.changes.show(shown.milestone, made)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["", "x"])
def test_slow_readers_hold_a_piece_each_and_not_the_milestone(told: Callable[..., Told], prefix: str) -> None:
    """All of them stand in the middle of milestones that are not kept any more: nobody holds their rows."""
    one = told(bytes_max=4 << 20)
    view = one.own.view
    answering = RouteContext(view, GENERATION, Metrics(), now_ms, Peers.none(Metrics()), None)
    route_ = route.ChangeRoutes(answering, one.changes)
    wanted = (lambda window: window.key.startswith(prefix)) if prefix else None
    one.show(1)

    async def read() -> None:
        held: list[Any] = []
        readers = []
        for sequence in range(2, 2 + FOLLOWERS_MAX):
            held.append(weakref.ref(large(one, sequence)))
            reader = route_._all(Request({"type": "http"}), sequence - 1, None, wanted)
            begin, first = await anext(reader), await anext(reader)
            assert (begin, '"last": false' in first) == (sse.BEGIN, True)
            assert len(first) < 8 * change_text.PIECE_BYTES
            readers.append(reader)
        gc.collect()
        assert one.changes.size < 4 << 20
        assert [ref() is not None for ref in held] == [False] * (FOLLOWERS_MAX - 1) + [True], "but what is kept"
        for reader in readers[:-1]:
            assert "event: reset" in await anext(reader)
        assert "event: changes" in await anext(readers[-1])

    asyncio.run(read())


def test_rows_are_rendered_once_for_all_that_want_everything(
    told: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wants some pays for those alone; all read the same, piece by piece."""
    monkeypatch.setattr(change_text, "PIECE_ROWS", 30)
    made: list[str] = []
    row = Presenter.row

    def counted(self: Presenter, window: Any, value: bytes) -> Any:
        made.append(window.key)
        return row(self, window, value)

    monkeypatch.setattr(Presenter, "row", counted)
    one = told()
    one.show(1)
    with serving(one.app) as url, ExitStack() as stack:
        every = [stack.enter_context(reading(url)) for _ in range(5)]
        some = stack.enter_context(reading(url, prefix="s9"))
        assert {next(found).kind for found in (*every, some)} == {"reset"}
        one.show(2, *(Sold(f"s{at}", 1, at) for at in range(100)))
        answers = [list(islice(found, 4)) for found in every]
        assert [row["key"] for row in next(some).data["rows"]] == ["s9", *(f"s{at}" for at in range(90, 100))]
    parts = [[(event.data["rows"], event.data["last"], event.id) for event in found] for found in answers]
    assert parts == [parts[0]] * 5
    assert sum(len(rows) for rows, _, _ in parts[0]) == 100
    assert [(last, id_) for _, last, id_ in parts[0]] == [(False, "")] * 3 + [(True, token(2))]
    assert len(made) == 100 + 11


def test_pieces_that_are_shared_are_bounded(told: Callable[..., Told], monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest stay; what was forgotten is made again."""
    monkeypatch.setattr(change_text, "PIECE_ROWS", 1)
    monkeypatch.setattr(change_text, "SHARED_CHARS_MAX", 1_000)
    one, shared = told(), change_text.ChangeTexts()
    one.show(1)
    with one.changes.keep_changes():
        one.show(2, *(Sold(f"s{at}", 1, at) for at in range(60)))
    changed = one.changes.after(1)
    first = shared.piece(one.own.job, changed, 0, None)
    at: int | None = 0
    while at is not None:
        at = shared.piece(one.own.job, changed, at, None).following
        assert sum(len(piece.rows) for piece in shared._shared.values()) <= 1_000
    assert 1 < len(shared._shared) < 60
    assert shared.piece(one.own.job, changed, 0, None) == first


@pytest.mark.slow
def test_a_reader_that_takes_nothing_is_let_go(told: Callable[..., Told], monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the time that sending may take."""
    monkeypatch.setattr(sse, "SEND_S_MAX", 0.3)
    one = told()
    one.show(1)
    with serving(one.app) as url, reading(url) as found:
        next(found)
        for sequence in range(2, 22):
            one.show(sequence, *(Sold(f"{'x' * 1_000}{at}", 1, at) for at in range(900)))
        until(lambda: one.changes.followers == 0, "the reader to be let go")


@pytest.mark.slow
def test_readers_are_counted_and_bounded(told: Callable[..., Told], monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than the bound is refused; who leaves makes room; heartbeats come while nothing does."""
    monkeypatch.setattr(route, "HEARTBEAT_S", 0.05)
    one = told()
    one.show(1)
    with serving(one.app) as url:
        with ExitStack() as stack:
            found = [stack.enter_context(reading(url)) for _ in range(FOLLOWERS_MAX)]
            assert {next(one).kind for one in found} == {"reset"}
            refused = httpx.get(f"{url}/v1/changes")
            assert (refused.status_code, "follow the changes already" in refused.json()["detail"]) == (503, True)
        until(lambda: one.changes.followers == 0, "them to leave")
        with httpx.stream("GET", f"{url}/v1/changes") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = answer.iter_lines()
            assert next(line for line in lines if line.startswith(":"))


def test_nothing_is_kept_for_nobody(told: Callable[..., Told]) -> None:
    """Nor gathered; after the last reader left, for a while."""
    clock = [100.0]
    one = told(clock=lambda: clock[0])
    one.show(1, Sold("a", 1, 1))
    assert one.changes.gathering().rows is None
    with one.changes.keep_changes():
        one.show(2, Sold("a", 1, 2))
        assert one.changes.size > 0
    clock[0] += kept.LINGER_S - 1
    one.show(3, Sold("a", 1, 3))
    assert one.changes.after(1).milestone.sequence == 2
    clock[0] += 2
    one.show(4, Sold("a", 1, 4))
    assert (one.changes.size, one.changes.after(4)) == (0, None)


@pytest.mark.slow
def test_a_milestone_too_large_is_a_reset(told: Callable[..., Told]) -> None:
    """It is not gathered beyond the bound."""
    one = told(bytes_max=2_000)
    one.show(1)
    with serving(one.app) as url, reading(url) as found:
        next(found)
        one.show(2, *(Sold(f"s{at}", 1, at) for at in range(50)))
        assert next(found)[::2] == ("reset", token(2))


@pytest.mark.slow
def test_the_end_of_the_process_is_not_held_up(broker: Any, tmp_path: Path) -> None:
    """SIGTERM while somebody follows."""
    job, path = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    writing.epoch([Sold("a", 1, 1)])
    with running(broker.cluster, path, tmp_path / "data") as served:
        until(served.answers, "the API")
        until(lambda: served.shown() == 1, "the first milestone")
        with reading(f"http://127.0.0.1:{served.port}") as found:
            next(found)
            served.process.terminate()
            assert served.ended(10)[0] == 0
    writing.close()
