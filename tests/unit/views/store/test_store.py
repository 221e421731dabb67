"""A view's store on real RocksDB: position with the data, layout, segments, whose it is, failures."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import Options, SstFileWriter

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import DivergenceError, MachineError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.state.backlog import Entry
from cutwater.core.state.bulk_load import Done, Slice
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.query.view import View
from cutwater.views.store import key_layout
from cutwater.views.store.folders import restoring_folder
from cutwater.views.store.key_layout import Window
from cutwater.views.store.store import Store
from cutwater.views.store.table import RocksTable
from support.protocol_samples import milestone
from support.views.changelogs import GENERATION, HOUR_MS, Sold, encoded, make_job, now_ms, until

longs = st.integers(-(1 << 63), (1 << 63) - 1)
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
windows = st.builds(Window, keys, longs, longs)


def entry(job: Job, sequence: int, horizon_ms: int = 0) -> Entry:
    cuts, now = {"source_cut": Cut(), "changelog_cut": Cut()}, now_ms()
    made = milestone(
        sequence - 1,
        job=job.name,
        sequence=sequence,
        horizon_ms=horizon_ms,
        written_ms=now,
        committed_ms=now,
        **cuts,
    )
    return Entry(made, protocol_records.encode(made), 10 * sequence)


def rows(job: Job, store: Store, sold: list[Sold]) -> dict[bytes, bytes]:
    made = {}
    for one in sold:
        window = Window(one.shop, one.hour * HOUR_MS, (one.hour + 1) * HOUR_MS)
        made[key_layout.storage_key(window, store.segment_ms)] = encoded(job, one)[1]
    return made


def pieces(view: View) -> dict[tuple[str, int], int]:
    return {(row["key"], row["window_start"] // HOUR_MS): row["pieces"] for row in view.rows()[1]}


def test_nobody_opens_a_folder_while_it_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RocksDB's own lock lies in the folder that is deleted; for a moment there would be none."""
    for name in ("view", "files"):
        RocksTable(tmp_path / name).close()
    table, tried = RocksTable(tmp_path / "view"), []
    delete = shutil.rmtree

    def try_to_open(folder: Path) -> None:
        for _ in range(2):  # before and behind
            with pytest.raises(BlockingIOError, match="lock"):
                RocksTable(tmp_path / "view")
            tried.append(folder)
            delete(folder, ignore_errors=True)

    monkeypatch.setattr(shutil, "rmtree", try_to_open)
    table.replace(tmp_path / "files")
    assert tried
    table.write({b"a": b"1"})
    with pytest.raises(BlockingIOError):
        RocksTable(tmp_path / "view")
    table.close()
    again = RocksTable(tmp_path / "view")
    assert again.get(b"a") == b"1"
    again.close()


def test_what_a_broken_off_load_counted_is_of_its_own_milestone(tmp_path: Path) -> None:
    """How far it reaches holds for any; the rows that it counted belong to the milestone that it was for."""
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    one, other = entry(job, 1).milestone, entry(job, 2).milestone
    done = Done({0: 5, 2: 7}, rows=3, digest=9, records=12, bytes=300)
    store.load([], one, done, one.horizon_ms)
    assert store.loaded(one) == done
    assert store.loaded(other) == Done({0: 5, 2: 7}, rows=0, digest=0, records=12, bytes=300)
    assert store.loaded(replace(one, sequence=99)) == done, "told again on the commit stream"
    assert store.loaded(replace(one, attempt=2)) == store.loaded(other)
    store._db.write({key_layout.meta("loaded"): json.dumps([str(one.token), done.text()]).encode()})
    assert store.loaded(one) == done, "as an earlier version has written it"
    store.close()


@given(windows, windows, st.integers(1, 1 << 40))
def test_storage_keys_sort_as_segment_key_start(one: Window, other: Window, length: int) -> None:
    """Bytes compare as (segment, key, window start) does, for any key and any time, and nothing is lost."""
    first, second = key_layout.storage_key(one, length), key_layout.storage_key(other, length)
    assert key_layout.parse(first) == one

    def order(window: Window) -> tuple[int, bytes, int, int]:
        return key_layout.segment_of(window.end_ms, length), window.key.encode(), window.start_ms, window.end_ms

    assert (first < second) == (order(one) < order(other))


@given(longs, st.integers(1, 1 << 40))
def test_a_segment_dies_when_its_last_window_does(end_ms: int, length: int) -> None:
    """A window's segment is live exactly as long as the segment can hold a window above the horizon."""
    segment = key_layout.segment_of(end_ms, length)
    last = (segment + 1) * length
    assert end_ms <= last
    assert key_layout.first_live(last - 1, length) == segment
    assert key_layout.first_live(last, length) == segment + 1


def test_position_and_rows_are_one(tmp_path: Path) -> None:
    """What was committed is there after a reopen, with its position; what was only begun says it is not whole."""
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    first, second = entry(job, 1), entry(job, 2)
    store.commit(first, rows(job, store, [Sold("a", 1, 1)]))
    store.close()
    store = Store(tmp_path / "v", job, GENERATION)
    assert (store.applied, store.applying) == (first, None)
    store.begin(second)
    store.put(rows(job, store, [Sold("a", 1, 2)]))
    store.close()
    store = Store(tmp_path / "v", job, GENERATION)
    view = View(store, job)
    assert (store.applied, store.applying) == (first, second)
    assert view.milestone is None, "half of a milestone is never shown"
    store.commit(second, {}, bulk=True)
    view.show(second)
    assert pieces(view) == {("a", 1): 2}
    view.close()


def test_the_files_of_an_unfinished_restore_stay_until_the_first_milestone(tmp_path: Path) -> None:
    """The next start continues it. A view that was built from the changelog has no use for them: they may be as
    large as the view, and stayed on its disk as long as its process."""
    job = make_job(tmp_path)[0]
    store = Store(tmp_path / "v", job, GENERATION)
    fetched = restoring_folder(store.folder) / "000012.sst"
    fetched.parent.mkdir()
    fetched.write_bytes(b"part of a snapshot")
    store.begin(entry(job, 1))
    assert fetched.exists()
    store.commit(entry(job, 1), {})
    assert not fetched.parent.exists()
    store.close()


def test_readers_keep_their_moment(tmp_path: Path) -> None:
    """Rows that are read while newer ones are written, deleted and flushed are those of the milestone shown."""
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    view = View(store, job)
    before = {(f"s{number}", number): 1 for number in range(600)}
    store.commit(entry(job, 1), rows(job, store, [Sold(*at, 1) for at in before]))
    view.show(entry(job, 1))
    milestone, reading = view.rows()
    first = next(reading)
    store.begin(entry(job, 2))
    store.put(rows(job, store, [Sold(*at, 2) for at in before] + [Sold("new", 1, 2)]), bulk=True)
    assert set(pieces(view).values()) == {1}
    store.commit(entry(job, 2, horizon_ms=500 * HOUR_MS), {}, bulk=True)
    assert pieces(view) == before
    view.show(entry(job, 2, horizon_ms=500 * HOUR_MS))
    assert [first["pieces"], *(row["pieces"] for row in reading)] == [1] * 600
    assert milestone.sequence == 1
    assert pieces(view) == {(f"s{number}", number): 2 for number in range(500, 600)}
    del reading
    view.close()


def test_horizon_hides_rows_and_drops_segments(tmp_path: Path) -> None:
    """Rows at or below the horizon are hidden to the hour; whole segments below it are gone from the store."""
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    view = View(store, job)
    store.commit(entry(job, 1), rows(job, store, [Sold("a", hour, 1) for hour in range(100)]))
    passed = entry(job, 2, horizon_ms=50 * HOUR_MS)
    store.commit(passed, {})
    view.show(passed)
    assert min(hour for _, hour in pieces(view)) == 50
    assert [window.start_ms // HOUR_MS for window, _ in view.read("a", None, None, 3).rows] == [50, 51, 52]
    kept = [key_layout.parse(key) for key, _ in store.pin().rows(b"\x01", key_layout.WINDOWS_END)]
    assert store.segment_ms == 4 * HOUR_MS, "an eighth of retention, lateness and size, in whole slides"
    assert min(window.start_ms for window in kept) == 48 * HOUR_MS
    view.close()


def test_a_milestone_does_not_wait_until_what_was_loaded_is_sorted(tmp_path: Path) -> None:
    """RocksDB refuses writes at 36 files of one range by itself: 20 M rows stood still for 24 s of a minute."""
    table = RocksTable(tmp_path / "table")
    table.loading(True)
    for number in range(50):
        path = tmp_path / f"{number}.sst"
        writer = SstFileWriter(Options(raw_mode=True))
        writer.open(str(path))
        for key in range(2_000):
            writer[b"%04d" % key] = b"%d" % number
        writer.finish()
        table.load([path])
    table.loading(False)
    assert table.sorting()
    assert not table._db.property_int_value("rocksdb.is-write-stopped")
    table.write({b"applied": b"1"})
    until(lambda: not table.sorting(), "the files to be sorted")
    assert (table.get(b"0007"), table.get(b"applied")) == (b"49", b"1")
    table.close()


def test_a_folder_that_is_opened_again_keeps_to_its_bounds(tmp_path: Path) -> None:
    """rocksdict would take what a file of options says, in which there is no cache, and no load that broke off."""

    def bounds(table: RocksTable) -> list[object]:
        said = (tmp_path / "table" / "LOG").read_text("utf-8")
        stop = re.findall(r"level0_stop_writes_trigger: (\d+)", said)[-1]
        return [
            table.figures().memory_max_bytes,
            table._db.property_int_value("rocksdb.block-cache-capacity"),
            stop,
        ]

    table = RocksTable(tmp_path / "table")
    first = bounds(table)
    table.loading(True)
    table.close()
    table = RocksTable(tmp_path / "table")
    assert bounds(table) == first
    said = (tmp_path / "table" / "LOG").read_text("utf-8")
    assert re.findall(r"disable_auto_compactions: (\d)", said)[-1] == "0"
    table.close()


def test_of_what_is_loaded_ahead_passed_windows_go(tmp_path: Path) -> None:
    """Nothing is committed for as long as it is a candidate, and its horizon rises all the same."""
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    old, new = (rows(job, store, [Sold("s", hour, 1)]) for hour in (1, 500))
    for number, (sold, horizon_ms) in enumerate(((old, 0), (new, 400 * HOUR_MS))):
        path = tmp_path / f"{number}.sst"
        writer = SstFileWriter(Options(raw_mode=True))
        writer.open(str(path))
        for key, value in sold.items():
            writer[key] = value
        writer.finish()
        store.load([path], entry(job, 1, horizon_ms).milestone, Done({0: number}), horizon_ms)
    assert [store._db.get(*one) for one in (old, new)] == [None, *new.values()]
    store.close()


def test_more_is_loaded_than_a_milestone_holds(tmp_path: Path) -> None:
    """Its rows would be shown under the wrong milestone."""
    job, _ = make_job(tmp_path)
    store, nobody = Store(tmp_path / "v", job, GENERATION), Cluster("127.0.0.1:1")
    store.load([], entry(job, 1).milestone, Done({0: 9}), 0)
    with pytest.raises(DivergenceError, match=r"is loaded up to 9, and milestone .* ends at 5"):
        BulkLoader(nobody, job, "t", store, SimpleNamespace()).load(entry(job, 2).milestone, [Slice(0, 0, 5)])
    store.close()


def test_ranges_of_one_key(tmp_path: Path) -> None:
    """A range is half open on the window start, in order, across segments, and says where it goes on."""
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    view = View(store, job)
    hours = [0, 3, 4, 5, 40, 41, 5_000]
    sold = [Sold(key, hour, hour) for key in ("a", "a\x00b", "ab", "") for hour in hours]
    store.commit(entry(job, 1), rows(job, store, sold))
    view.show(entry(job, 1))

    def read(key: str, first: int | None, end: int | None, limit: int = 100) -> tuple[list[int], int | None]:
        to_ms = None if end is None else end * HOUR_MS
        page = view.read(key, None if first is None else first * HOUR_MS, to_ms, limit)
        following = page.next_from_ms
        return [
            row["pieces"] for row in view.present(page.rows)
        ], None if following is None else following // HOUR_MS

    for key in ("a", "a\x00b", "ab", ""):
        assert read(key, None, None) == (hours, None)
        assert read(key, 3, 41) == ([3, 4, 5, 40], None)
        assert read(key, 4, None, 2) == ([4, 5], 40)
        assert read(key, 40, 40) == ([], None)
        assert read(key, -(1 << 40), 1 << 40)[0] == hours
    assert read("zz", None, None) == ([], None)
    assert read("a", 6_000, None) == ([], None)
    view.close()


def test_scan_pages_hold_every_row_once(tmp_path: Path) -> None:
    """Paging by the cursor meets every row exactly once, whatever the page size."""
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    view = View(store, job)
    sold = [Sold(f"s{number % 7}", number, number) for number in range(50)]
    store.commit(entry(job, 1), rows(job, store, sold))
    view.show(entry(job, 1))
    for size in (1, 7, 49, 50, 51):
        found: list[int] = []
        after: bytes | None = None
        while True:
            page = view.scan(after, size)
            found += [row["pieces"] for row in view.present(page.rows)]
            if (after := page.after) is None:
                break
        assert sorted(found) == list(range(50))
    view.close()


def test_a_scan_does_not_go_on_in_another_order(tmp_path: Path) -> None:
    """The same rows in longer segments lie in another order: from a cursor of these some would be left out."""
    job, _ = make_job(tmp_path)
    sold = [Sold(f"s{number % 7}", number, number) for number in range(50)]
    with ExitStack() as stack:
        views = []
        for days in (1, 9):
            store = Store(tmp_path / f"v{days}", job, GENERATION, segment=days * 24 * HOUR_MS)
            views.append(View(store, job))
            stack.callback(views[-1].close)
            store.commit(entry(job, 1), rows(job, store, sold))
            views[-1].show(entry(job, 1))
        after = views[0].scan(None, 9).after
        assert views[0].scan(after, 50).after is None
        with pytest.raises(UsageError, match="in another order: start the scan again"):
            views[1].scan(after, 50)


def test_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    """A store of another job, generation or schema is not opened, and the message says what differs."""
    job, _ = make_job(tmp_path)
    Store(tmp_path / "v", job, GENERATION).close()
    wrong: list[tuple[Job, Generation, str]] = [
        (replace(job, name="other"), GENERATION, "job is"),
        (job, Generation(2, "local"), "generation is"),
        (replace(job, measures=job.measures[:1]), GENERATION, "schema is"),
    ]
    for other, generation, text in wrong:
        with pytest.raises(UsageError, match=text):
            Store(tmp_path / "v", other, generation)
    Store(tmp_path / "v", job, GENERATION).close()


def test_folder_in_use_and_folder_that_is_none(tmp_path: Path) -> None:
    """A folder served by another process, and a path that is a file, are named with what to do."""
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    with pytest.raises(MachineError, match=r"/v: opening: .*Another process"):
        Store(tmp_path / "v", job, GENERATION)
    store.close()
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="/file"):
        Store(tmp_path / "file", job, GENERATION)


def test_a_scan_sees_its_moment_and_nothing_beyond_its_bounds(tmp_path: Path) -> None:
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    written = rows(job, store, [Sold(f"s{number}", 1, number) for number in range(50)])
    store.commit(entry(job, 1), written)
    names = sorted(written)
    reading = store.scan(names[3], names[40], 7)
    first = next(reading)
    store.commit(entry(job, 2), {**dict.fromkeys(names[:45], b""), names[2] + b"\x00": b"new"})
    store._db.flush()
    pieces_read = [first, *reading]
    assert [row for piece in pieces_read for row in piece] == [(name, written[name]) for name in names[3:40]]
    assert [len(piece) for piece in pieces_read] == [7, 7, 7, 7, 7, 2]
    assert list(store.scan(names[40], names[40], 7)) == []
    store.close()


@pytest.mark.slow
def test_a_scan_of_a_damaged_file_does_not_end_as_if_it_were_whole(tmp_path: Path) -> None:
    """What is missing of a state would be said to have vanished."""
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    written = rows(job, store, [Sold(f"s{number}", 1, number) for number in range(20_000)])
    store.put(written)
    store._db.flush()
    store.close()
    table = max((tmp_path / "v").glob("*.sst"), key=lambda file: file.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 0xFF
    table.write_bytes(data)
    store = Store(tmp_path / "v", job, GENERATION)
    read = 0
    with pytest.raises(MachineError, match=r"/v: reading failed: .*[Cc]hecksum"):  # noqa: PT012
        for piece in store.scan(min(written), max(written) + b"\x00", 500):
            read += len(piece)
    assert 0 < read < len(written)
    store.close()


class _Short(RocksTable):
    """Its scan ends after three rows, as where reading failed for a moment."""

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        return islice(super().scan(start, stop), 3)


def test_a_scan_that_ended_too_soon_is_told_though_the_disk_reads_again(tmp_path: Path) -> None:
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION, open_table=_Short)
    written = rows(job, store, [Sold(f"s{number}", 1, number) for number in range(4)])
    store.put(written)
    with pytest.raises(MachineError, match=r"/v: reading ended too early"):
        list(store.scan(min(written), max(written) + b"\x00", 500))
    assert [len(piece) for piece in store.scan(min(written), max(written), 500)] == [3]
    store.close()


class _Unread(RocksTable):
    """Its scan does not even begin; rocksdict raises the bare class."""

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        raise Exception("IO error: no such file")


def test_a_scan_that_cannot_begin_is_told_as_a_failure_of_the_disk(tmp_path: Path) -> None:
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION, open_table=_Unread)
    with pytest.raises(MachineError, match=r"/v: reading the rows: IO error: no such file"):
        list(store.scan(b"", b"\xff", 500))
    store.close()


def test_damage_is_not_taken_for_a_lock(tmp_path: Path) -> None:
    """RocksDB speaks of a block's checksum: whoever reads "lock" in that looks for a process that is not there."""
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    store._db.flush()
    store.close()
    table = next((tmp_path / "v").glob("*.sst"))
    table.write_bytes(b"x" + table.read_bytes()[1:])
    with pytest.raises(MachineError, match=r"/v: .*block checksum.*The files are damaged"):
        Store(tmp_path / "v", job, GENERATION)


FULL = """
    import resource, sys
    from pathlib import Path
    sys.path[:0] = [{tests!r}]
    from support.views.changelogs import GENERATION, Sold, make_job
    from cutwater.core.errors import MachineError
    from cutwater.views.store.folders import restoring_folder
    from cutwater.views.store.store import Store
    from unit.views.store.test_store import entry, rows

    folder = Path({folder!r})
    job, _ = make_job(folder)
    store = Store(folder / "v", job, GENERATION)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    try:
        for number in range(1, 200):
            store.commit(entry(job, number), rows(job, store, [Sold(f"s{{n}}", number, n) for n in range(200)]))
    except MachineError as error:
        print(store.applied.milestone.sequence, error)
        sys.exit(error.exit_code)
"""


def test_disk_that_takes_no_more_is_named(tmp_path: Path) -> None:
    """When RocksDB cannot write, the error names the folder and the process can end with code 3."""
    script = textwrap.dedent(FULL).format(tests=str(Path(__file__).parents[3]), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3, done.stderr
    assert str(tmp_path / "v") in done.stdout
    assert "disk has room" in done.stdout
    assert int(done.stdout.split()[0]) >= 1, "it failed in the middle, not at the start"


class Closing:
    """A table whose end fails, and whose writes do where they are told to."""

    def __init__(self, folder: Path, full: bool) -> None:
        self._table, self._full = RocksTable(folder), full

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def write(self, *arguments: Any, **named: Any) -> None:
        if self._full and named.get("logged") is False:
            raise OSError("No space left on device")
        self._table.write(*arguments, **named)

    def close(self) -> None:
        self._table.close()
        raise OSError("Writer has previous error")


@pytest.mark.parametrize("full", [False, True])
def test_the_first_failure_is_the_one_that_is_told(tmp_path: Path, full: bool) -> None:
    """A failing end is an error of its own; behind another one it would only hide it."""
    store = Store(tmp_path / "v", make_job(tmp_path)[0], GENERATION, open_table=lambda path: Closing(path, full))
    if full:
        with pytest.raises(MachineError, match="No space left on device"):
            store.put({b"key": b"value"}, bulk=True)
        store.close()
    else:
        with pytest.raises(MachineError, match="closing: Writer has previous error"):
            store.close()
