"""B1's rows, its way to compare stores, and its figures, with plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.hashing import row_hash
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.job.job import PLAIN_KEY_SCHEMA, WINDOW_KEY_SCHEMA, Job
from cutwater.core.protocol.changelog_rows import fold
from cutwater.views.changelog.record_reader import KeyReader
from cutwater.views.store.key_layout import storage_key

ROOT = Path(__file__).parents[2]


@pytest.fixture
def job() -> Job:
    return load_job(ROOT / "benchmarks" / "jobs" / "b1.yaml")


def maker(part: Any, job: Job, seed: int = 7) -> Any:
    headers = Codec(WINDOW_KEY_SCHEMA).header, Codec(job.state_schema).header
    return part("rehydrate.workloads").Maker(50, seed, *headers)


def test_rows_are_those_that_avro_writes(part: Any, job: Job) -> None:
    """Made column by column, and byte for byte what the generic library makes of them: 16 and 100 bytes."""
    workloads, keys, values = part("rehydrate.workloads"), Codec(PLAIN_KEY_SCHEMA), Codec(job.state_schema)
    for number in (0, 15):
        (rows,) = maker(part, job).round(number)
        for key, value, group, window in zip(rows.keys, rows.values, rows.group, rows.window, strict=True):
            at, state = keys.decode(key), values.decode(value)
            assert (keys.encode(at), values.encode(state)) == (key, value)
            assert (at["key"], at["window_start"]) == (
                workloads.group_name(int(group)), workloads.window_of(int(window))[0]
            )  # fmt: skip
            assert (len(at["key"]), len(value), state["ticks"]) == (16, 100, number + 1)


def test_a_round_writes_every_key_once_and_a_seed_gives_one_log(part: Any, job: Job) -> None:
    """No epoch may write a key twice; the log is the same for the same seed."""
    (rows,) = maker(part, job).round(0)
    assert len(set(rows.keys)) == len(rows.keys) == 50 * part("rehydrate.workloads").WINDOWS
    (same,) = maker(part, job).round(0)
    (other,) = maker(part, job, seed=8).round(0)
    assert (rows.keys, rows.values) == (same.keys, same.values)
    assert rows.keys != other.keys


def test_a_log_has_about_as_many_records_as_asked_for(part: Any) -> None:
    """Updates of every key, the tail, and the tombstones of closed windows."""
    workloads = part("rehydrate.workloads")
    for one in workloads.WORKLOADS:
        records = one.groups(1_000_000) * (workloads.WINDOWS * (one.updates + one.tail) + one.closed)
        assert 999_000 < records <= 1_000_000


def test_a_tail_is_a_part_of_the_rows_written_once_more(part: Any, job: Job) -> None:
    """Each at most once, with values of their own."""
    made = maker(part, job)
    (all_rows,) = made.round(0)
    (tail,) = made.some(0.1, 1)
    assert len(tail.keys) == len(set(tail.keys)) == len(all_rows.keys) // 10
    before = dict(zip(all_rows.keys, all_rows.values, strict=True))
    assert all(before[key] != value for key, value in zip(tail.keys, tail.values, strict=True))


def test_a_view_s_store_has_the_digest_of_the_changelog(part: Any, job: Job) -> None:
    """Its keys are laid out otherwise; the digest is that of the changelog's keys, and a lost row changes it."""
    (rows,) = maker(part, job).round(0)
    reader = KeyReader()
    stored = [
        (storage_key(reader.window(key), 14_400_000), value)
        for key, value in zip(rows.keys, rows.values, strict=True)
    ]
    contents = part("rehydrate.view")._contents
    right = (len(stored), fold(map(row_hash, rows.keys, rows.values)))
    assert contents(iter(stored)) == right
    assert contents(iter(stored[1:])) != right
    assert contents(iter([(stored[0][0], b"else"), *stored[1:]])) != right


def restore(part: Any, workload: str, contender: str, drain_s: float, **more: Any) -> Any:
    rest = {"start_cpu_s": 0.0, "broker_cpu_s": 1.0, "memory_mb_peak": 200.0, "exact": True}
    known = {"pair": 1, "events": 100, "start_s": 1.0, "cpu_s": 2.0, "first_read_s": 1 + drain_s, **rest}
    return part("rehydrate.contest").Restore(
        workload=workload, contender=contender, drain_s=drain_s, **(known | more)
    )


def test_restores_are_compared_within_their_workload(part: Any) -> None:
    """Each workload has ratios of its own name; CPU counts what is owed too, the first read the start."""
    b1 = part("b1")
    runs = [
        restore(part, "log-unique", "cutwater", 2.0, settle_cpu_s=2.0),
        restore(part, "log-unique", "kafka-streams", 8.0),
        restore(part, "log-16-updates", "cutwater", 4.0),
        restore(part, "log-16-updates", "kafka-streams-tuned", 2.0, memory_mb_peak=400.0),
    ]
    assert {name: one["median"] for name, one in b1.compared(runs).items()} == {
        "log-unique/kafka-streams": 4.0,
        "log-unique-first-read/kafka-streams": 3.0,
        "log-unique-cpu/kafka-streams": 0.5,
        "log-unique-memory/kafka-streams": 1.0,
        "log-16-updates/kafka-streams-tuned": 0.5,
        "log-16-updates-first-read/kafka-streams-tuned": 0.6,
        "log-16-updates-cpu/kafka-streams-tuned": 1.0,
        "log-16-updates-memory/kafka-streams-tuned": 2.0,
    }


def test_the_table_has_a_line_for_each_workload_and_contender(part: Any, tmp_path: Path) -> None:
    """Medians of different logs are never mixed; a run that is not exact is named with its workload."""
    runs = [
        restore(part, "log-unique", "cutwater", 2.0),
        restore(part, "log-16-updates", "cutwater", 4.0, exact=False, fault="the store holds less"),
    ]
    written = part("b1").write(tmp_path, {"cores": 2}, runs, ["a limit"])
    text = (tmp_path / "b1.md").read_text()
    assert "| log-unique: cutwater | 50 | 2.00 | 3.00 |" in text
    assert "| log-16-updates: cutwater | 25 | 4.00 | 5.00 |" in text
    assert "log-16-updates: cutwater, pair 1: the store holds less" in text
    assert written["exact"] is False


def test_a_workload_or_contender_that_does_not_exist_is_refused(part: Any) -> None:
    """With the allowed ones, before anything is started."""
    parse = part("b1").COMMAND.parse
    assert parse([]).workloads == ("log-unique", "log-16-updates")
    assert parse(["--workloads", "log-4-updates"]).workloads == ("log-4-updates",)
    for wrong in (["--workloads", "log"], ["--contenders", "spark-noop"], ["--size", "20000001"]):
        with pytest.raises(SystemExit) as refused:
            parse(wrong)
        assert refused.value.code == 2
