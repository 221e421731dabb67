"""States are compared before their hand-over: what may differ by then is known, or all rows are compared."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from cutwater.core.errors import MachineError
from cutwater.core.output.state_diff import diff_states
from cutwater.core.output.suspects import Suspects
from cutwater.publisher.handover import ahead_comparison
from cutwater.publisher.handover.state_stores import StateStores
from cutwater.publisher.sources.stored_rows import closed_pieces, named_pieces
from cutwater.views.changelog.range_reader import Stopped
from cutwater.views.store import key_layout
from cutwater.views.store.key_layout import Window
from cutwater.views.store.store import Store
from support.protocol_samples import milestone
from support.views.changelogs import GENERATION, HOUR_MS, make_job

NEXT = replace(GENERATION, number=GENERATION.number + 1)
FLOOR_MS, EVER_MS = 2 * HOUR_MS, 99 * HOUR_MS
Put = Callable[[Store, dict[int, bytes]], None]


class Log:
    """What is logged of comparisons."""

    def __init__(self) -> None:
        self.differ: list[object] = []

    def info(self, _event: str, **told: object) -> None:
        self.differ.append(told["differ"])


@pytest.fixture
def states(tmp_path: Path) -> StateStores:
    return StateStores(tmp_path, make_job(tmp_path)[0])


@pytest.fixture
def stores(states: StateStores) -> Iterator[tuple[Store, Store]]:
    old, new = (states.open_preload(milestone(1, generation=one)) for one in (GENERATION, NEXT))
    both = old, new
    yield both
    for one in both:
        with suppress(MachineError):  # the test has closed it
            one.close()


def put(store: Store, values: dict[int, bytes]) -> None:
    """Rows by number; one in four is of a window at or below the floor."""
    store.put({name(number, store): b"0123456789" + value for number, value in values.items()})


def name(number: int, store: Store) -> bytes:
    end_ms = (1 + number % 4) * HOUR_MS + (number % 4 == 1)
    return key_layout.storage_key(Window(f"key-{number // 4}", end_ms - HOUR_MS, end_ms), store.segment_ms)


def differences(old: Store, new: Store, names: list[bytes] | None) -> list[tuple[bytes, bytes | None]]:
    def side(store: Store) -> Iterator[list[tuple[bytes, bytes]]]:
        if names is None:
            return closed_pieces(store, store.job, FLOOR_MS, EVER_MS)  # type: ignore[return-value]
        return named_pieces(store, names, FLOOR_MS, EVER_MS)  # type: ignore[return-value]

    return list(diff_states(side(old), side(new), lambda one, two: one == two))


def compare(states: StateStores, stores: tuple[Store, Store], log: Log | None = None) -> None:
    states.compare_ahead(*stores, FLOOR_MS, lambda: False, log or Log())


@pytest.mark.parametrize("seed", range(20))
def test_the_suspects_show_every_difference(states: StateStores, stores: tuple[Store, Store], seed: int) -> None:
    """Whatever is written to either store in between, and compared again or not."""
    luck, (old, new) = random.Random(seed), stores
    rows = {number: b"%d" % (number % 7) for number in range(3_000)}
    put(old, rows)
    put(new, {number: value for number, value in rows.items() if luck.random() < 0.99})
    compare(states, stores)
    for _ in range(luck.randrange(6)):
        some = {luck.randrange(3_100): b"%d" % luck.randrange(7) for _ in range(luck.randrange(50))}
        for store in luck.choice(([old], [new], [old, new])):
            put(store, some)
        if luck.random() < 0.5:
            compare(states, stores)
    names = states.suspects(old, new, FLOOR_MS)
    assert names is not None
    assert len(names) < 1_000
    assert differences(old, new, list(names)) == differences(old, new, None)
    assert states.suspects(old, new, FLOOR_MS - 1) is None  # more windows than were compared
    assert states.suspects(new, old, FLOOR_MS) is None


def test_rows_that_are_equal_again_are_no_suspects(states: StateStores, stores: tuple[Store, Store]) -> None:
    put(stores[0], {3: b"before"})
    put(stores[1], {3: b"before"})
    compare(states, stores)
    for store in stores:
        put(store, {3: b"after", 7: b"new"})
    assert len(states.suspects(*stores, FLOOR_MS) or ()) == 2
    compare(states, stores)
    assert states.suspects(*stores, FLOOR_MS) == []


def test_with_too_many_differences_all_rows_are_compared_and_later_it_tries_again(
    states: StateStores, stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead_comparison, "SUSPECTS_MAX", 5)
    log, (old, new) = Log(), stores
    rows = {number: b"1" for number in range(40)}
    put(old, rows)
    monkeypatch.setattr(ahead_comparison, "APART", 1e9)
    compare(states, stores, log)
    put(new, rows)
    compare(states, stores, log)
    assert (log.differ, states.suspects(old, new, FLOOR_MS)) == (["too many"], None)  # not at once
    states.drop_preload(replace(GENERATION, number=99))  # of no concern
    again = StateStores(old.folder.parent, old.job)
    compare(again, stores, log)
    assert (log.differ[1:], again.suspects(old, new, FLOOR_MS)) == ([0], [])
    put(new, {number: b"2" for number in range(40)})
    assert again.suspects(old, new, FLOOR_MS) is None


def test_a_comparison_that_stops_knows_nothing(states: StateStores, stores: tuple[Store, Store]) -> None:
    put(stores[0], {3: b"1"})
    with pytest.raises(Stopped):
        states.compare_ahead(*stores, FLOOR_MS, lambda: True, Log())
    assert states.suspects(*stores, FLOOR_MS) is None


def test_another_store_of_a_generation_was_not_compared(states: StateStores, stores: tuple[Store, Store]) -> None:
    """What was preloaded is too old at the hand-over, or another folder is in its place."""
    compare(states, stores)
    assert states.suspects(*stores, FLOOR_MS) == []
    states.mark_preload_started(NEXT, FLOOR_MS, 0)
    stores[1].close()
    states.adopt_preload(NEXT, FLOOR_MS - 1, 0)
    assert states.suspects(*stores, FLOOR_MS) is None


def test_a_preloaded_store_that_is_taken_over_stays_compared(
    states: StateStores, stores: tuple[Store, Store]
) -> None:
    """What is written to it from then on is a suspect, until the store is deleted."""
    old, new = stores
    compare(states, stores)
    states.mark_preload_started(NEXT, FLOOR_MS, 0)
    new.close()
    states.adopt_preload(NEXT, FLOOR_MS, 0)
    taken = states.open(NEXT)
    put(taken, {3: b"1"})
    assert states.suspects(old, taken, FLOOR_MS) == [name(3, taken)]
    taken.close()
    states.forget(NEXT)
    assert states.suspects(old, taken, FLOOR_MS) is None


def test_suspects_that_gave_up_keep_no_names() -> None:
    some = Suspects(2)
    some.add([b"b", b"a"])
    assert some.in_order() == [b"a", b"b"]
    some.add([b"c"])
    some.add([b"d"])
    assert (some.given_up, len(some)) == (True, 0)


def test_the_comparison_says_what_it_found(states: StateStores, stores: tuple[Store, Store]) -> None:
    put(stores[0], {3: b"1", 7: b"1"})
    put(stores[1], {3: b"1"})
    with capture_logs() as logged:
        states.compare_ahead(*stores, FLOOR_MS, lambda: False, structlog.get_logger())
    [line] = logged
    assert (line["event"], line["differ"]) == ("states compared ahead", 1)
    assert (line["old"], line["new"]) == (str(GENERATION), str(NEXT))
