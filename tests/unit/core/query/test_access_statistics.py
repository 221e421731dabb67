"""Reads of keys and windows: those of the last minutes, within the error that is named, in bounded memory."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.query.access_statistics import NAMES_HELD, PERIOD_MS, SHOWN, AccessStatistics, ReadCount

READS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.lists(st.integers(0, 3), max_size=4), st.integers(0, PERIOD_MS // 4)),
    max_size=60,
)


@given(READS)
def test_the_counts_are_those_of_the_last_one_to_two_periods(reads: list[tuple[str, list[int], int]]) -> None:
    """Beside a plain list of all reads. With few names the counts are exact."""
    statistics, now, every = AccessStatistics(), 0, list[tuple[int, str, list[int]]]()
    statistics.report(0)
    for key, windows, after_ms in reads:
        now += after_ms
        statistics.count(key, windows, now)
        every.append((now, key, windows))
    report = statistics.report(now)
    since = max(0, now - now % PERIOD_MS - PERIOD_MS)
    kept = [one for one in every if one[0] >= since]
    assert report.since_ms in (since, now - now % PERIOD_MS)
    assert report.reads == len(kept)
    assert {one.name: one.reads for one in report.keys} == Counter(key for _, key, _ in kept)
    assert {int(one.name): one.reads for one in report.windows} == Counter(
        window for _, _, windows in kept for window in windows
    )
    assert [one.reads for one in report.keys] == sorted((one.reads for one in report.keys), reverse=True)
    assert (report.keys_error, report.windows_error) == (0, 0)


def test_among_very_many_keys_the_hot_one_is_found() -> None:
    """Memory holds a bounded number; no count is wrong by more than the error."""
    chance, statistics, true = random.Random(1), AccessStatistics(), Counter[str]()
    for _ in range(60_000):
        key = "hot" if chance.random() < 0.05 else f"key {chance.randrange(100_000)}"
        true[key] += 1
        statistics.count(key, (), 0)
    report = statistics.report(0)
    assert report.keys[0].name == "hot"
    assert len(report.keys) == SHOWN
    assert 0 < report.keys_error < 60_000 / (NAMES_HELD / 2)
    assert all(one.reads <= true[one.name] <= one.reads + report.keys_error for one in report.keys)


def test_what_was_read_long_ago_is_forgotten() -> None:
    statistics = AccessStatistics()
    statistics.count("old", [1], 0)
    assert statistics.report(2 * PERIOD_MS - 1).keys == (ReadCount("old", 1),)
    late = statistics.report(2 * PERIOD_MS)
    assert (late.reads, late.keys, late.since_ms) == (0, (), PERIOD_MS)


def test_a_clock_that_was_set_back_loses_nothing() -> None:
    statistics = AccessStatistics()
    statistics.count("a", [], 10 * PERIOD_MS)
    statistics.count("a", [], 0)
    assert statistics.report(0).keys == (ReadCount("a", 2),)


def test_after_a_pause_only_the_present_is_known() -> None:
    """The period before the pause is not the one before now."""
    statistics = AccessStatistics()
    statistics.count("old", [1], 0)
    assert statistics.report(5 * PERIOD_MS).reads == 0
