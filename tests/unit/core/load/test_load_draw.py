"""The flaws of a load: how many, and that they are what they are called."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.load.load_draw import BAD, DUPLICATE, LATE, PLAIN, Drawn, Flaws, LoadDraw
from cutwater.core.load.recorded_draw import Recorded, RecordedDraw
from cutwater.core.load.time_field import TimeField
from cutwater.core.sizing.skew import KeySkew

FLIGHTS = load_job(Path(__file__).parents[4] / "deploy/jobs/flights.yaml")
JOB = replace(FLIGHTS, lateness_ms=600_000, amend_for_ms=300_000)
NOW_MS, DRAWS = 1_700_000_000_000, 4_000
CLOSED_MS = JOB.window.size_ms + JOB.lateness_ms + 300_000
TIME = TimeField(JOB)


def drawn(flaws: Flaws, seed: int = 1) -> list[Drawn]:
    draw = LoadDraw(JOB, KeySkew(50), Random(seed), flaws)
    return [draw.next(0.0, NOW_MS) for _ in range(DRAWS)]


def test_flaws_are_as_frequent_as_asked() -> None:
    found = Counter(one.kind for one in drawn(Flaws(late=0.1, bad=0.05, duplicate=0.2)))
    for kind, share in ((LATE, 0.1), (BAD, 0.05)):
        # A duplicate is one more event for a fifth of the others.
        expected = share * DRAWS / (1 + 0.2 * 0.85)
        assert abs(found[kind] - expected) < 5 * expected**0.5, kind
    assert 0.15 < found[DUPLICATE] / found[PLAIN] < 0.25
    assert set(Counter(one.kind for one in drawn(Flaws()))) == {PLAIN}


def test_each_flaw_is_what_it_is_called() -> None:
    disorder_ms, garbage, ahead, earliest_ms = 5_000, 0, 0, NOW_MS
    for one in drawn(Flaws(late=0.2, bad=0.2, disorder_ms=disorder_ms)):
        if one.event is None:
            garbage += 1
            assert (one.kind, one.value[:1], len(one.value)) == (BAD, b"\xff", 16)
            continue
        Codec(JOB.event_schema).encode(dict(one.event))
        at_ms = one.event["scheduled_at"]
        if one.kind == BAD:
            ahead += 1
            assert at_ms > NOW_MS + JOB.max_ahead_ms
        elif one.kind == LATE:
            assert at_ms <= NOW_MS - CLOSED_MS, "its window has closed, and cannot be amended"
        else:
            earliest_ms = min(earliest_ms, at_ms)
            assert NOW_MS - disorder_ms < at_ms <= NOW_MS
    assert garbage > DRAWS / 20
    assert ahead > DRAWS / 20
    assert earliest_ms < NOW_MS - disorder_ms / 2


def test_a_duplicate_is_the_event_before_it() -> None:
    pairs = [(one, two) for one, two in pairwise(drawn(Flaws(duplicate=0.5))) if two.kind == DUPLICATE]
    assert pairs
    assert all(one.event == two.event for one, two in pairs)


def test_a_seed_draws_the_same_events() -> None:
    flaws = Flaws(0.1, 0.1, 0.1, 1_000)
    assert drawn(flaws, 7) == drawn(flaws, 7)
    assert drawn(flaws, 7) != drawn(flaws, 8)


def test_recorded_events_come_again_with_times_of_now() -> None:
    """Each as far behind the newest as it was; all else stays, and begins again behind the last one."""
    times = {"A": 5_000, "B": 3_000, "C": 9_000}
    records = [Recorded({"airport": name, "scheduled_at": 0}, at_us) for name, at_us in times.items()]
    draw = RecordedDraw(records, TIME)
    found = [draw.next(0, NOW_MS).event for _ in range(4)]
    assert found == [
        {"airport": "A", "scheduled_at": NOW_MS},
        {"airport": "B", "scheduled_at": NOW_MS - 2},
        {"airport": "C", "scheduled_at": NOW_MS},
        {"airport": "A", "scheduled_at": NOW_MS},
    ]
