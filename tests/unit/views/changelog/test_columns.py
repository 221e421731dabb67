"""Rows of a step by columns are those that a look at each gives; what is not plain is left to that look."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.avro.codec import Codec
from cutwater.core.errors import DivergenceError
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.state.selection import Selection
from cutwater.views.changelog.columns import OwnRowReader
from cutwater.views.changelog.record_reader import RowReader
from cutwater.views.store.key_layout import storage_key
from support.views.changelogs import HOUR_MS, make_job

OWN, OTHER = b"g1-local-00000000/1/7", b"g1-local-00000000/2/7"
KEYS = Codec(WINDOW_KEY_SCHEMA)
SEGMENT_MS, FLOOR_MS = 4 * HOUR_MS, 2 * HOUR_MS

texts = st.one_of(st.text(max_size=6), st.sampled_from(["a", "a\0b", "ä" * 40, "w" * 63, "w" * 64, "w" * 300]))
windows = st.tuples(texts, st.integers(0, 6))
selections = st.one_of(
    st.none(),
    st.builds(
        Selection,
        keys=st.sampled_from([frozenset(), frozenset({"a", "w" * 300})]),
        prefixes=st.lists(st.sampled_from(["a", "w", "ä"]), max_size=2).map(tuple),
        since_ms=st.sampled_from([None, 4 * HOUR_MS, 4 * HOUR_MS + 1]),
    ),
)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return make_job(tmp_path_factory.mktemp("job"))[0]


def key(text: str, hour: int) -> bytes:
    return KEYS.encode({"key": text, "window_start": hour * HOUR_MS, "window_end": (hour + 1) * HOUR_MS})


def message(
    job: Job, offset: int, key: bytes | None, writer: bytes | None = OWN, body: bytes | None = b"!"
) -> Message:
    value = None if body is None else Codec(job.state_schema).header + body
    headers = [] if writer is None else [("writer", writer)]
    return Message("changes", 0, offset, key, value, headers)


def one_by_one(job: Job, messages: Sequence[Message], selection: Selection | None) -> dict[bytes, bytes]:
    found = {}
    for row in map(RowReader(job).row, messages):
        kept = selection is None or selection.keeps(row.window.key, row.window.end_ms)
        if kept and row.window.end_ms > FLOOR_MS:
            found[storage_key(row.window, SEGMENT_MS)] = row.value
    return found


@given(rows=st.lists(windows, max_size=30), selection=selections)
def test_the_same_rows_as_one_by_one(job: Job, rows: list[tuple[str, int]], selection: Selection | None) -> None:
    """Escaped, long and empty keys too; of a row that came twice the last."""
    messages = [message(job, at, key(*row), body=bytes([at])) for at, row in enumerate(rows)]
    own = OwnRowReader(job, "changes")
    columns = own.of(messages, OWN)
    if not rows:
        assert columns is None or not columns.keys
        return
    assert columns is not None
    assert list(columns.rows()) == [(one.key(), one.value()) for one in messages]
    assert own.storage_rows(dict(columns.rows()), SEGMENT_MS, FLOOR_MS, selection) == one_by_one(
        job, messages, selection
    )


@pytest.mark.parametrize(
    "odd",
    [
        {"writer": OTHER},
        {"writer": None},
        {"body": None},
        {"key": None},
        {"key": b""},
        {"key": KEYS.header},
        {"key": b"no key of ours"},
    ],
    ids=str,
)
def test_a_record_that_is_not_plain_is_looked_at(job: Job, odd: dict[str, bytes | None]) -> None:
    """Wherever it stands among others: another attempt's, a tombstone, what is no row."""
    for at in range(3):
        records = [{"key": key("shop", hour)} for hour in range(3)]
        records[at] |= odd  # type: ignore[arg-type]
        messages = [message(job, offset, **one) for offset, one in enumerate(records)]  # type: ignore[arg-type]
        assert OwnRowReader(job, "changes").of(messages, OWN) is None


def test_of_whom_they_are_may_be_found_out_otherwise(job: Job) -> None:
    """Then no header is looked at; a tombstone is."""
    rows = [message(job, 0, key("shop", 1), OTHER), message(job, 1, key("shop", 2), None)]
    columns = OwnRowReader(job, "changes").of(rows, None)
    assert columns is not None
    assert list(columns.keys) == [one.key() for one in rows]
    assert OwnRowReader(job, "changes").of([*rows, message(job, 2, key("shop", 3), body=None)], None) is None


def test_a_value_of_another_schema_is_looked_at(job: Job) -> None:
    """And one that is framed with a registry's number is not: the milestone says its schema."""
    head = ("changes", 0, 0, key("shop", 1))
    other = Message(*head, b"\xc3\x01" + bytes(range(8)) + b"!", [("writer", OWN)])
    framed = Message(*head, b"\0" + bytes(4) + b"!", [("writer", OWN)])
    own = OwnRowReader(job, "changes")
    assert own.of([other], OWN) is None
    assert own.of([framed], OWN) is not None


def test_a_key_without_a_window_is_told(job: Job) -> None:
    with pytest.raises(DivergenceError, match="no key of the changelog"):
        OwnRowReader(job, "changes").storage_rows({key("shop", 1)[:-1]: b""}, SEGMENT_MS, FLOOR_MS, None)
