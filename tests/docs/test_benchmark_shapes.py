"""B2's shapes: their events, jobs, right answers and rows, with plain values."""

from __future__ import annotations

import importlib
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.loader import load_job

SHAPED = "wide-shaped"
"""Its job has expressions, which only Spark can check: it is loaded by the benchmark alone."""
NAMES = ("three-windows", "sixty-windows", "wide", "nexmark-q5", "nexmark-q7", "nexmark-q8")


@pytest.fixture
def shape(part: Any) -> Any:
    """Gives a shape by its name."""
    known = {one.name: one for one in part("windows.shapes").SHAPES}
    assert {*known} == {*NAMES, SHAPED}
    return known.__getitem__


def rows(made: Any) -> list[dict[str, Any]]:
    """The events one by one."""
    columns = {name: made.frame([name])[name].tolist() for name in made.fields}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize("name", NAMES)
def test_events_are_encoded_as_avro_encodes_them(part: Any, shape: Any, name: str) -> None:
    """The fast encoder gives byte for byte what fastavro gives: numbers, texts, nulls; one seed, one list."""
    one, columns = shape(name), part("windows.columns")
    job, made = one.job(), one.generate(3_000, 3)
    assert list(made.fields) == [field["name"] for field in job.event_schema["fields"]]
    codec = Codec(job.event_schema)
    encoded = list(columns.encode(list(made.fields.values()), codec.header))
    assert encoded == [codec.encode(row) for row in rows(made)]
    assert encoded == list(columns.encode(list(one.generate(3_000, 3).fields.values()), codec.header))
    assert encoded != list(columns.encode(list(one.generate(3_000, 4).fields.values()), codec.header))


def test_numbers_of_every_length_are_encoded(part: Any) -> None:
    """Where a number takes a byte more than its neighbour, below zero, and where it is null."""
    columns = part("windows.columns")
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "n", "type": "long"}, {"name": "m", "type": ["null", "long"]}],
    }
    numbers = np.array([0, -1, 63, 64, -64, -65, 8191, 8192, 99_999, 1 << 40])
    known = np.arange(len(numbers)) % 3 > 0
    fields = [columns.Numbers(numbers), columns.Numbers(numbers, known)]
    wanted = [
        Codec(schema).encode({"n": one, "m": one if there else None})
        for one, there in zip(numbers.tolist(), known.tolist(), strict=True)
    ]
    assert list(columns.encode(fields, Codec(schema).header)) == wanted


@pytest.mark.parametrize("name", NAMES)
def test_a_key_has_one_partition_and_the_offsets_are_those_of_the_topic(shape: Any, name: str) -> None:
    """The record's key is the text of the job's key field; offsets count in each partition without a hole."""
    one = shape(name)
    made, field = one.generate(2_000, 5), one.job().key_field
    keys, partition = made.key.values(), made.partition
    assert keys.tolist() == [str(key) for key in made.frame([field])[field]]
    assert len(set(zip(keys.tolist(), partition.tolist(), strict=True))) == len(set(keys.tolist()))
    for number in range(4):
        held = made.offset[partition == number]
        assert held.tolist() == list(range(len(held)))
        assert len(held) > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_job_file_may_have_another_name(shape: Any, name: str, tmp_path: Path) -> None:
    """A run's job is the shape's under a name of its own; nothing else differs. Peers' programs exist."""
    one = shape(name)
    job, own = one.job(), load_job(one.write_job(tmp_path, "own"))
    assert own.name == "own"
    assert (own.topic, own.window, own.lateness_ms) == (job.topic, job.window, job.lateness_ms)
    assert [measure.name for measure in own.measures] == [measure.name for measure in job.measures]
    for peer in one.peers.values():
        assert peer.source.is_file()


def test_shapes_of_one_topic_have_the_same_events(part: Any) -> None:
    """A topic is written once: whoever drains it again must expect the same."""
    by_topic: dict[str, Any] = {}
    for one in part("windows.shapes").SHAPES:
        topic = re.findall(r"^  topic: (\S+)$", one.source.read_text(), re.MULTILINE)
        assert by_topic.setdefault(*topic, one.generate) is one.generate


def test_nexmark_s_bids_are_of_its_distributions(part: Any) -> None:
    """Half of the bids go to the hot auction, others to a hundred in flight; the logarithm of a price is even."""
    nexmark, size = part("windows.nexmark"), 46_000
    made = nexmark.bids(size, 7)
    round_ = np.arange(size) // nexmark.BIDS
    last = round_ * nexmark.AUCTIONS + nexmark.AUCTIONS - 1
    auction = made.fields["auction"].numbers - nexmark.FIRST_ID
    hot = last // nexmark.HOT_EVERY * nexmark.HOT_EVERY
    assert 0.49 < (auction == hot).mean() < 0.53
    others = (last - auction)[auction != hot]
    assert others.min() == -nexmark.LEAD
    assert others.max() == nexmark.IN_FLIGHT
    price = np.log10(made.fields["price"].numbers / 100)
    assert 0 <= price.min() < 0.01
    assert 5.99 < price.max() <= 6
    assert abs(price.mean() - 3) < 0.05
    bidder = made.fields["bidder"].numbers - nexmark.FIRST_ID
    assert 0.74 < (bidder == round_ // nexmark.HOT_EVERY * nexmark.HOT_EVERY + 1).mean() < 0.77
    times = made.fields["at"].numbers
    assert (np.diff(times) >= 0).all()
    assert times[-1] - times[0] == (size // nexmark.BIDS * nexmark.ROUND - 1) // 10  # ms
    shares = np.bincount(made.partition) / size  # hot auctions are a hundred apart: by remainder all in one
    assert len(shares) == 4
    assert all(0.15 < share < 0.35 for share in shares)


def test_nexmark_s_persons_and_auctions_are_of_its_distributions(part: Any) -> None:
    """One person and three auctions a round; three of four auctions are of the hot seller, one of the active."""
    nexmark = part("windows.nexmark")
    made = nexmark.arrivals(40_000, 7)
    person = made.fields["person"].numbers - nexmark.FIRST_ID
    is_person = made.fields["name"].present
    assert is_person.tolist() == [True, False, False, False] * 10_000
    assert person[is_person].tolist() == list(range(10_000))
    auction = made.fields["auction"]
    assert (auction.present == ~is_person).all()
    assert (auction.numbers[auction.present] - nexmark.FIRST_ID).tolist() == list(range(30_000))
    newest = (np.arange(40_000) // 4)[~is_person]
    seller = person[~is_person]
    hot = newest // nexmark.HOT_EVERY * nexmark.HOT_EVERY
    assert 0.74 < (seller == hot).mean() < 0.77
    others = (newest - seller)[seller != hot]
    assert (others.min(), others.max()) == (-nexmark.LEAD, nexmark.ACTIVE - 1)


def test_the_oracle_answers_nexmark_s_queries(part: Any, shape: Any) -> None:
    """Counts, the highest price, and the two kinds of events of a person, against plain loops over the events."""
    oracle = part("windows.oracle")
    for name, measure in (
        ("nexmark-q5", lambda held: (len(held),)),
        ("nexmark-q7", lambda held: (max(one["price"] for one in held),)),
        ("nexmark-q8", lambda held: tuple(sum(one[of] is not None for one in held) for of in ("name", "auction"))),
    ):
        one = shape(name)
        made, job = one.generate(20_000, 7), one.job()
        held: dict[Any, list[Any]] = {}
        for row in rows(made):
            for start in job.window.starts(row["at"]):
                held.setdefault((str(row[job.key_field]), start), []).append(row)
        found, _ = oracle.expected(made, one.measures, job.window.size_ms, job.window.slide_ms)
        assert found == {place: measure(events) for place, events in held.items()}


def test_the_first_and_last_text_are_those_by_time_and_offset(part: Any) -> None:
    """Of events of one time the offset decides; a delay that is null counts nowhere but in the movements."""
    columns, wide, oracle = part("windows.columns"), part("windows.wide"), part("windows.oracle")
    texts, places = ("a", "b", "c"), np.array([0, 1, 2])
    key = columns.Texts(np.zeros(3, dtype=np.int64), ("k",))
    fields = {
        "at": columns.Numbers(np.array([60_000, 60_000, 60_000])),
        "delay": columns.Numbers(np.array([7, 5, 4]), np.array([False, True, True])),
        "carrier": columns.Texts(places, texts),
        "flight": columns.Texts(places, texts),
        "distance": columns.Numbers(np.array([1, 2, 3])),
    }
    made = columns.Backlog(fields, key, np.zeros(3, dtype=np.int64))
    state, _ = oracle.expected(made, wide.MEASURES, 60_000, 60_000)
    assert state == {("k", 60_000): (3, 2, 9, 5, 4, 4.5, "a", "c", 3, 6)}
    some, _ = oracle.expected(made, "count(*)", 60_000, 60_000, "distance > 1")
    assert some == {("k", 60_000): (2,)}


def test_an_estimate_may_be_off_by_its_error_and_nothing_else_may(part: Any) -> None:
    """Few values are counted exactly; of many five standard errors are allowed; all other measures are exact."""
    equal = part("windows.wide").equal

    def row(carriers: int, miles: int = 6) -> tuple[Any, ...]:
        return (3, 2, 9, 5, 4, 4.5, "a", "c", carriers, miles)

    assert equal(row(300), row(300))
    assert not equal(row(303), row(300))
    assert equal(row(1_070), row(1_000))
    assert not equal(row(1_090), row(1_000))
    assert not equal(row(300, miles=7), row(300))


def test_the_row_of_the_wide_java_program_is_read(part: Any) -> None:
    """Six numbers, two texts with their places, and a sketch; without a delay there is none of its measures."""
    wide, library = part("windows.wide"), importlib.import_module("datasketches")
    sketch = library.hll_sketch(12)
    for carrier in ("a", "b", "a"):
        sketch.update(carrier)
    placed = struct.pack(">qiqi", 5, 1, 7, 2) + b"F1" + struct.pack(">qiqi", 6, 1, 8, 1) + b"c"
    value = struct.pack(">qqqqqq", 3, 2, 9, 5, 4, 6) + placed + sketch.serialize_updatable()
    assert wide.read_row(value) == (3, 2, 9, 5, 4, 4.5, "F1", "c", 2, 6)
    empty = struct.pack(">qqqqqq", 3, 0, 0, 0, 0, 6) + placed + sketch.serialize_updatable()
    assert wide.read_row(empty) == (3, 0, None, None, None, None, "F1", "c", 2, 6)


def test_windows_are_read_of_a_changelog_s_panes(part: Any, shape: Any) -> None:
    """A window has the merge of its panes, measure by measure, as a reader sees it."""
    exactness, job = part("windows.exactness"), shape("nexmark-q5").job()
    values = Codec(job.state_schema)
    panes = [("1000", start, values.encode({"bids": bids})) for start, bids in ((10_000, 2), (14_000, 5))]
    found = exactness.windows_of(panes, job)
    assert found == {
        **{("1000", start): (2,) for start in (2_000, 4_000)},
        **{("1000", start): (7,) for start in (6_000, 8_000, 10_000)},
        **{("1000", start): (5,) for start in (12_000, 14_000)},
    }


def test_a_shape_runs_the_contenders_that_it_has(part: Any) -> None:
    """Every shape has Cutwater, Spark without a sink and Kafka Streams; Flink where it has a program."""
    contenders = {one.name: one.contenders for one in part("windows.shapes").SHAPES}
    first = ("cutwater", "spark-noop", "kafka-streams")
    assert contenders.pop(SHAPED) == first[:2]
    assert all(one[:3] == first for one in contenders.values())
    assert contenders["wide"] == first
    assert contenders["nexmark-q8"] == (*first, "flink-sql")
