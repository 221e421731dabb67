"""What readers say of a candidate that they load ahead, as records of the recovery trail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.adapters.topics.recovery_log import decode, encode
from cutwater.core.console.recovery_page import trail
from cutwater.core.pacing.reader_loads import (
    ANNOUNCED_MS,
    GIVEN_UP,
    LOADED,
    LOADING,
    ReaderLoad,
    all_announced,
    load_of,
    newest_loads,
    unfinished,
)
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.recovery_log import PRELOAD, Fact, Recovery, select_starts

CANDIDATE, OTHER = Generation(2, "local", "0000000a"), Generation(3, "local", "0000000b")


def record(
    state: str = LOADING,
    reader: str = "publisher",
    process: str = "host:1",
    generation: Generation = CANDIDATE,
    at_ms: int = 1_000,
) -> Recovery:
    found = Fact("reader", reader), Fact("state", state), Fact("epoch", "4")
    return Recovery("flights", generation, PRELOAD, process, 0, at_ms, "running", "why", found, ())


def test_a_load_is_what_was_recorded() -> None:
    """Also behind the bytes of the topic."""
    told = ReaderLoad(CANDIDATE, "publisher", "host:1", LOADED, 4, 1_000)
    assert load_of(record(LOADED)) == told
    assert load_of(decode(encode(record(LOADED)))) == told
    assert told.name == "publisher on host:1"


@pytest.mark.parametrize(
    "other",
    [
        replace(record(), service="publisher"),
        record("half of it"),
        replace(record(), found=(Fact("reader", "publisher"), Fact("state", LOADED))),
        replace(record(), found=(Fact("state", LOADED), Fact("epoch", "four"))),
    ],
)
def test_other_records_are_no_loads(other: Recovery) -> None:
    """Of other services, of a newer version, and damaged ones."""
    assert load_of(other) is None


def test_the_last_word_of_each_reader_counts() -> None:
    """Of one candidate: two processes of a service are two readers."""
    told = [
        record(),
        record(reader="rehydrator", process="host:2"),
        record(reader="rehydrator", process="host:3"),
        record(LOADED, generation=OTHER),
        record(LOADED),
        record(GIVEN_UP, "rehydrator", "host:3"),
    ]
    found = newest_loads(told, CANDIDATE)
    assert [(one.process, one.state) for one in found] == [
        ("host:1", LOADED),
        ("host:2", LOADING),
        ("host:3", GIVEN_UP),
    ]
    assert [one.process for one in unfinished(found)] == ["host:2"]


def test_records_of_a_reader_may_change_places() -> None:
    """Its clock tells which one is the later; of one moment, the load had begun first."""
    for loading_ms in (900, 1_000):
        (found,) = newest_loads([record(LOADED, at_ms=1_000), record(at_ms=loading_ms)], CANDIDATE)
        assert found.state == LOADED
    (found,) = newest_loads([record(LOADED, at_ms=1_000), record(at_ms=1_001)], CANDIDATE)
    assert found.state == LOADING


def test_who_has_died_is_not_waited_for() -> None:
    """Its service starts again on that host. Elsewhere, or earlier, this says nothing; nor what it has loaded."""
    start = replace(record(), service="rehydrator", found=())
    loading = record(reader="rehydrator", process="host:2")
    for process, found in {"host:7": [], "other:7": ["host:2"], "host:2": ["host:2"]}.items():
        again = replace(start, process=process)
        assert [one.process for one in newest_loads([loading, again], CANDIDATE)] == found
    assert len(newest_loads([replace(start, process="host:7"), loading], CANDIDATE)) == 1
    loaded = record(LOADED, "rehydrator", "host:2")
    assert len(newest_loads([loaded, replace(start, process="host:7")], CANDIDATE)) == 1


def test_all_have_said_so_a_while_behind_the_first_one() -> None:
    """Each reader looks every two seconds."""
    loads = newest_loads([record(at_ms=5_000), record(process="host:2", at_ms=1_000)], CANDIDATE)
    assert not all_announced(loads, 1_000 + ANNOUNCED_MS - 1)
    assert all_announced(loads, 1_000 + ANNOUNCED_MS)
    assert not all_announced([], 1_000_000)


def test_loads_are_no_starts() -> None:
    """Neither in `cutwater history` nor on the console, however many there are."""
    start = replace(record(), service="driver")
    assert select_starts([start, record()], None, None) == [start]
    assert select_starts([record()], PRELOAD, None) == []
    assert [one["service"] for one in trail([start, *[record()] * 500])] == ["driver"]
