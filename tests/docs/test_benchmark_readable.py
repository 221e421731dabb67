"""B2 until the output is readable: what is run, what the consumer holds, and the figures, with plain values."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from cutwater.adapters.avro.codec import Codec
from cutwater.core.errors import UnavailableError

PEER = "kafka-streams"


def run(part: Any, contender: str, until: str, drain_s: float) -> Any:
    return part("harness.figures").Run(
        contender=contender, pair=1, events=1000, start_s=3.0, drain_s=drain_s, cpu_s=2 * drain_s, start_cpu_s=5.0,
        broker_cpu_s=1.0, memory_mb_peak=500.0, exact=True, shape="three-windows", until=until,
    )  # fmt: skip


def message(partition: int, offset: int, key: bytes | None = None, error: int | None = None) -> Any:
    found = None if error is None else KafkaError(error)
    return SimpleNamespace(
        partition=lambda: partition, offset=lambda: offset, key=lambda: key, value=lambda: b"%d" % offset,
        error=lambda: found, topic=lambda: "output",
    )  # fmt: skip


def test_each_pair_runs_both_moments_and_a_sink_without_output_only_the_first(part: Any) -> None:
    """Spark's noop sink has nothing that could become readable; alone it is refused."""
    command = part("b2").COMMAND
    assert command.parse([]).entries == [
        ("cutwater", "durable"), ("spark-noop", "durable"), (PEER, "durable"),
        ("cutwater", "readable"), (PEER, "readable"),
    ]  # fmt: skip
    assert command.parse(["--until", "readable", "--contenders", "flink"]).entries == [("flink", "readable")]
    with pytest.raises(SystemExit):
        command.parse(["--until", "readable", "--contenders", "spark-noop"])


def test_readable_runs_have_ratios_and_rows_of_their_own(part: Any, tmp_path: Path) -> None:
    """Durable: twice as fast as the peer; readable: less than half as fast. Neither is taken for the other."""
    # One of each kind comes last, so that neither is right by its place alone.
    seconds = {
        ("cutwater", "readable"): 20, ("cutwater", "durable"): 5, (PEER, "durable"): 10, (PEER, "readable"): 8,
    }  # fmt: skip
    runs = [run(part, name, until, drain_s) for (name, until), drain_s in seconds.items()]
    written = part("b2").write(tmp_path, {"cores": 2}, runs, [])
    medians = {name: one["median"] for name, one in written["ratios"].items()}
    assert medians[f"three-windows-durable/{PEER}"] == 2.0
    assert medians[f"three-windows-readable/{PEER}"] == 0.4
    assert medians[f"three-windows-readable-cpu/{PEER}"] == 0.4
    assert {one["until"] for one in written["runs"]} == {"durable", "readable"}
    text = (tmp_path / "b2.md").read_text(encoding="utf-8")
    assert "| three-windows cutwater | 200 |" in text
    assert "| three-windows cutwater, readable | 50 |" in text


def test_the_last_row_counts_and_not_what_follows_it(part: Any) -> None:
    """End markers and the end of a partition bring the reader to the end, but no row: the moment stays."""
    collector = part("windows.output_reader").RowCollector(2, "newest")
    collector.add([message(0, 0, b"a"), message(1, 0, b"b")], 10.0)
    collector.add([message(0, 1, b"a"), message(0, 2, b"c")], 11.0)
    assert not collector.has_reached({0: 4, 1: 2})
    collector.add([message(0, 3), message(1, 2, error=KafkaError._PARTITION_EOF)], 12.0)
    assert collector.has_reached({0: 4, 1: 2})
    read = collector.result(cpu_s=0.5)
    assert (read.received, read.last_s, read.cpu_s) == (4, 11.0, 0.5)
    assert dict(read.rows) == {b"a": b"1", b"b": b"0", b"c": b"2"}


def test_every_row_is_held_where_keys_do_not_name_windows(part: Any) -> None:
    """Rows of Cutwater's output have the group's key: a newer one of the same key may be another window."""
    collector = part("windows.output_reader").RowCollector(1, "all")
    collector.add([message(0, 0, b"a"), message(0, 1, b"a")], 10.0)
    assert collector.result(0.0).rows == [(b"a", b"0"), (b"a", b"1")]


def test_a_reader_that_may_not_read_ends(part: Any) -> None:
    """An error that does not pass is raised, and is not taken for silence."""
    collector = part("windows.output_reader").RowCollector(1, "newest")
    with pytest.raises(UnavailableError):
        collector.add([message(0, 0, error=KafkaError.UNKNOWN_TOPIC_OR_PART)], 10.0)


def test_a_window_that_came_twice_is_a_fault_where_windows_come_once(part: Any) -> None:
    """Flink's rows: as many as windows, or some were written anew."""
    read, readable = part("windows.output_reader").OutputRead, part("windows.readable_contest")
    assert readable.repeats(read([(b"a", b"1"), (b"b", b"2")], 2, 0.0, 0.0)) is None
    assert "3 rows were written" in readable.repeats(read([(b"a", b"1"), (b"b", b"2")], 5, 0.0, 0.0))


def test_the_newest_row_of_a_window_is_what_the_output_comes_to(part: Any) -> None:
    """Rows are decoded as any reader would decode them, by the job's own output schema."""
    job = part("windows.shapes").THREE.job()
    codec = Codec(job.output_schema)

    def row(sequence: int, start_s: int, count: int) -> bytes:
        window = {
            f"window_{end}": datetime.fromtimestamp(start_s + more, UTC)
            for end, more in (("start", 0), ("end", 60))
        }
        values = {"ticks": count, "total": 10 * count, "highest": 9}
        return codec.encode({"sequence": sequence, "kind": "update", "key": "key-00007", **window, **values})

    state = part("windows.readable_contest").output_state([row(1, 20, 1), row(1, 40, 1), row(2, 20, 3)], job)
    assert state == {("key-00007", 20_000): (3, 30, 9), ("key-00007", 40_000): (1, 10, 9)}
