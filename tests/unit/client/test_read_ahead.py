"""Peers' answers are read ahead: none of them waits for those before it, and what is read is what was sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.client.export import parquet
from cutwater.client.export.parquet import open_rehydrators, write
from cutwater.client.export.read_ahead import ReadAhead
from cutwater.core.errors import MachineError, UnavailableError
from cutwater.rehydrator.http_api import streaming as server
from support.views.apiserving import Own, app_of, holding, serving
from support.views.changelogs import Sold, make_job
from unit.views.store.test_store import rows

PARTS = (frozenset({0}), frozenset({1}), frozenset({2}))
ROWS = 20_000
LONG = "x" * 1_000
"""A key, so that an answer is larger than what the sockets between hold."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ahead")


@given(
    chunks=st.lists(st.binary(max_size=5), max_size=9),
    bytes_max=st.integers(0, 50),
    begin_at=st.integers(0, 9),
)
def test_the_bytes_are_the_same(folder: Path, chunks: list[bytes], bytes_max: int, begin_at: int) -> None:
    """However many of them come by way of the file, which has no name."""
    with closing(ReadAhead(iter(chunks))) as ahead:
        reader = iter(ahead)
        found = list(islice(reader, begin_at))
        ahead.begin(folder, bytes_max)
        ahead.begin(folder, bytes_max)
        assert [*found, b"".join(reader)] == [*chunks[:begin_at], b"".join(chunks[begin_at:])]
    assert not list(folder.iterdir())


def test_an_error_comes_in_its_place(folder: Path) -> None:
    """Behind the bytes that came before it."""

    def broken() -> Iterator[bytes]:
        yield b"some"
        raise ValueError("cut off")

    with closing(ReadAhead(broken())) as ahead:
        ahead.begin(folder, 1_000)
        found = iter(ahead)
        assert next(found) == b"some"
        with pytest.raises(ValueError, match="cut off"):
            next(found)


def test_no_more_is_read_than_the_bound(folder: Path) -> None:
    """And one chunk; the rest comes when it is asked for."""
    taken: list[int] = []

    def many() -> Iterator[bytes]:
        for number in range(100):
            taken.append(number)
            yield b"0123456789"

    with closing(ReadAhead(many())) as ahead:
        ahead.begin(folder, 25)
        found = iter(ahead)
        next(found)
        assert taken == [0, 1, 2]
        assert len(b"".join(found)) == 1_000 - 30


def test_one_that_hangs_holds_nobody_up(folder: Path) -> None:
    """Neither the end of the export nor that of the process."""
    gate = threading.Event()

    def hanging() -> Iterator[bytes]:
        yield b"x"
        gate.wait(20)

    with closing(ReadAhead(hanging())) as ahead:
        ahead.begin(folder, 1_000)
        began = time.monotonic()
    assert time.monotonic() - began < 15
    gate.set()


class Peers:
    """Three rehydrators, each with a large part."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.job, _ = make_job(folder)
        self.asked: list[tuple[str, ...]] = []
        for at, part in enumerate(PARTS):
            own = Own(folder / str(at), self.job, part)
            stack.callback(own.close)
            own.show(1, rows(self.job, own.store, [Sold(f"{LONG}{at}-{one}", 1, 1) for one in range(ROWS)]))
            self.asked.append((stack.enter_context(serving(app_of(own.view, peers=holding(part)))),))


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    with ExitStack() as stack:
        yield Peers(tmp_path_factory.mktemp("peers"), stack)


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("into", ["file", "folder"])
def test_the_last_peer_does_not_wait_for_the_first(
    peers: Peers, tmp_path: Path, ahead: bool, into: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads the first part takes longer than a rehydrator gives an export: the others are there all the
    same. Without reading ahead they are cut off, and no file comes of it."""
    monkeypatch.setattr(server, "EXPORT_S_MAX", 5.0)
    if not ahead:
        monkeypatch.setattr(parquet, "AHEAD_BYTES_MAX", 0)
    out = tmp_path / ("out" if into == "folder" else "all.parquet")
    if into == "folder":
        out.mkdir()
    slept: list[int] = []

    def slow(done: int) -> None:
        if done >= ROWS and not slept:
            slept.append(done)
            time.sleep(6)

    with open_rehydrators(peers.job, peers.asked, {}, several=into == "folder") as parts:
        if not ahead:
            with pytest.raises(UnavailableError, match=peers.asked[1][0]):
                write(peers.job, parts, out, slow)
        else:
            written = write(peers.job, parts, out, slow)
            assert sum(one.rows for one in written) == 3 * ROWS
    assert slept
    assert not [one for one in tmp_path.rglob("*") if one.suffix == ".part"]


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_named(peers: Peers, tmp_path: Path) -> None:
    """As it is where one rehydrator is read."""
    with (
        open_rehydrators(peers.job, peers.asked, {}) as parts,
        pytest.raises(MachineError, match="cannot be written"),
    ):
        write(peers.job, parts, tmp_path / "nowhere" / "x.parquet")
