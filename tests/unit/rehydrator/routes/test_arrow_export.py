"""The Arrow stream: what pyarrow itself reads from it is what the view holds, and a part is never the whole."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from cutwater.adapters.columnar import arrow
from cutwater.adapters.columnar.arrow import MEDIA_TYPE
from cutwater.core.errors import MachineError
from cutwater.views.query import view as viewing
from cutwater.views.query.pages import Part
from support.views.apiserving import Own, app_of, serving
from support.views.changelogs import HOUR_MS, Sold, make_job, until
from support.views.measured_job import Expected, measured_job, measured_rows
from unit.views.store.test_store import rows


def batches_of(data: bytes) -> list[Any]:
    """Read as docs/EXPORTING.md says; raises ValueError or OSError where the stream is not whole."""
    reader, found = pa.ipc.open_stream(data), []
    for batch, about in iter(reader.read_next_batch_with_custom_metadata, None):
        if about is not None:
            if int(about["cutwater.rows"]) != sum(one.num_rows for one in found):
                raise ValueError("rows are missing")
            return found
        found.append(batch)
    raise ValueError("the end is missing")


def about_of(data: bytes) -> dict[str, str]:
    metadata = pa.ipc.open_stream(data).schema.metadata
    return {name.decode().removeprefix("cutwater."): text.decode() for name, text in metadata.items()}


def _ms(moment: datetime) -> int:
    return round(moment.astimezone(UTC).timestamp() * 1000)


def table(data: bytes) -> Expected:
    """By pyarrow alone, as a stranger would."""
    found = pa.ipc.open_stream(data).read_all().to_pylist()
    return {(row.pop("key"), _ms(row.pop("window_start")), _ms(row.pop("window_end"))): row for row in found}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Own]:
    """Two shops, ten hours."""
    job, _ = make_job(tmp_path)
    own = Own(tmp_path / "v", job)
    own.show(1, rows(job, own.store, [Sold(shop, hour, hour) for shop in ("aa", "ab") for hour in range(10)]))
    yield own
    own.close()


def asked(own: Own, **query: Any) -> Any:
    names = {name.rstrip("_"): value for name, value in query.items()}
    return TestClient(app_of(own.view)).get("/v1/arrow", params=names)


@pytest.mark.slow
def test_every_measure_of_every_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches of bounded size, with the milestone in the schema."""
    monkeypatch.setattr(viewing, "EXPORT_ROWS", 64)
    job, _ = measured_job(tmp_path)
    own = Own(tmp_path / "v", job)
    stored, expected = measured_rows(job, own.store, 500)
    own.show(3, stored)
    answer = asked(own)
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert table(answer.content) == expected
    sizes = [batch.num_rows for batch in pa.ipc.open_stream(answer.content)]
    assert (max(sizes), sizes[-1]) == (64, 0)
    about = about_of(answer.content)
    wanted = {"job": job.name, "token": "g1-local-00000000:3", "sequence": "3", "partitions": "all"}
    assert about | wanted == about
    own.close()


@pytest.mark.slow
def test_large_values_make_short_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewing, "EXPORT_BYTES", 20_000)
    job, _ = measured_job(tmp_path)
    own = Own(tmp_path / "v", job)
    stored, _ = measured_rows(job, own.store, 500)
    own.show(1, stored)
    largest = max(map(len, stored.values()))
    sizes = [batch.num_rows for batch in pa.ipc.open_stream(asked(own).content)]
    assert max(sizes) * largest < 3 * 20_000
    assert sum(sizes) == 500
    own.close()


def test_a_stream_that_is_cut_anywhere_is_noticed(small: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every byte; at some of them pyarrow alone would have taken a part for the whole."""
    monkeypatch.setattr(viewing, "EXPORT_ROWS", 4)
    whole = asked(small).content

    assert sum(batch.num_rows for batch in batches_of(whole)) == 20
    fooled = 0
    end = whole.rindex(b"cutwater.rows")
    for cut in range(end):
        with pytest.raises((ValueError, OSError)):
            batches_of(whole[:cut])
        if cut % 8 == 0:
            with suppress(ValueError, OSError):
                fooled += pa.ipc.open_stream(whole[:cut]).read_all().num_rows < 20
    assert fooled


def test_a_stream_with_a_batch_missing_is_noticed(small: Own) -> None:
    """The number at its end is compared with the rows that came."""
    sink, source = io.BytesIO(), pa.ipc.open_stream(asked(small).content)
    with pa.ipc.new_stream(sink, source.schema) as writer:
        while (found := source.read_next_batch_with_custom_metadata()).custom_metadata is None:
            writer.write_batch(found.batch.slice(1))
        writer.write_batch(found.batch, custom_metadata=found.custom_metadata)
    with pytest.raises(ValueError, match="rows are missing"):
        batches_of(sink.getvalue())


def test_prefix_and_range(small: Own) -> None:
    """Only these, half open as everywhere; the schema says what was asked for."""
    found = asked(small, prefix="ab", from_="1970-01-01T02:00:00Z", to=5 * HOUR_MS)
    assert sorted(table(found.content)) == [("ab", hour * HOUR_MS, (hour + 1) * HOUR_MS) for hour in (2, 3, 4)]
    about = about_of(found.content)
    assert (about["prefix"], about["from"], about["to"]) == ("ab", "1970-01-01T02:00:00Z", str(5 * HOUR_MS))
    assert table(asked(small, prefix="x").content) == {}
    assert asked(small, from_="yesterday").status_code == 422


def test_tokens_are_waited_for(small: Own) -> None:
    assert asked(small, at_least="g1-local-00000000:1").status_code == 200
    assert asked(small, at_least="g1-local-00000000:2", wait_ms=20).status_code == 412
    assert asked(small, at_least="g1-local-abcdef01:1").status_code == 410


def test_a_stream_stays_at_its_milestone(small: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is shown before its first row is read."""
    shown = small.view.pieces

    def and_then_the_next(*part: Part) -> Any:
        found = shown(*part)
        small.show(2, rows(small.job, small.store, [Sold("aa", 1, 99)]))
        return found

    monkeypatch.setattr(small.view, "pieces", and_then_the_next)
    found = asked(small).content
    assert sorted(row["pieces"] for row in table(found).values()) == sorted([*range(10)] * 2)
    assert about_of(found)["sequence"] == "1"
    monkeypatch.undo()
    assert table(asked(small).content)["aa", HOUR_MS, 2 * HOUR_MS]["pieces"] == 99


def test_streams_and_lines_share_the_bound(small: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one of each runs, of either kind no other begins; a client that leaves makes room."""
    milestone, stored = small.view.pieces()
    kept = list(stored)
    with serving(app_of(small.view)) as url:
        with monkeypatch.context() as patch, ExitStack() as stack:
            patch.setattr(small.view, "pieces", lambda *_part: (milestone, cycle(kept)))
            for path in ("/v1/export", "/v1/arrow"):
                assert stack.enter_context(httpx.stream("GET", f"{url}{path}")).status_code == 200
            for path in ("/v1/export", "/v1/arrow"):
                assert stack.enter_context(httpx.stream("GET", f"{url}{path}")).status_code == 503
        until(lambda: httpx.get(f"{url}/v1/arrow").is_success, "room for one more")


def test_without_pyarrow_it_says_what_to_install(small: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    """501; the lines of the other export need none."""
    monkeypatch.setattr(arrow, "find_spec", lambda _name: None)
    refused = asked(small)
    assert (refused.status_code, "pip install 'cutwater[arrow]'" in refused.json()["detail"]) == (501, True)
    assert TestClient(app_of(small.view)).get("/v1/export").status_code == 200


def test_a_stream_that_breaks_off_is_an_incomplete_read(small: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fails in the middle: HTTP itself says so, too."""
    monkeypatch.setattr(viewing, "EXPORT_ROWS", 2)
    milestone, stored = small.view.pieces()

    def some() -> Iterator[Any]:
        yield from islice(stored, 3)
        raise MachineError("the disk is away")

    monkeypatch.setattr(small.view, "pieces", lambda *_part: (milestone, some()))
    with serving(app_of(small.view)) as url, pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
        httpx.get(f"{url}/v1/arrow")
