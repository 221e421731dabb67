"""What comes damaged from the origin, in the middle of a round: nothing is copied twice or left out by it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
import structlog

from cutwater.adapters.fetch import record_batches
from cutwater.adapters.fetch.record_batches import Chunk
from cutwater.adapters.kafka.topic_ids import Identity
from cutwater.core.errors import CutwaterError, DivergenceError, ProtocolError, UnavailableError
from cutwater.core.mirror.copy_progress import OriginPartition, initial_position
from cutwater.core.mirror.gaps import ANEW, LOST, Gap
from cutwater.mirror import copier
from cutwater.mirror.metrics import Metrics
from cutwater.mirror.topics.context import MirrorContext
from cutwater.mirror.topics.origin import Origin
from cutwater.mirror.topics.topic_copy import CopiedTopic, FetchedRecords
from cutwater.mirror.topics.topic_watch import Watch
from support.regions.mirroring import Events, epoch, mirroring, positions, require_held, wait_arrived
from support.views.changelogs import Writing, until


class Faults:
    """Damages what is fetched of one partition while it is armed, and hears what the mirror makes of it."""

    def __init__(self, topic: str, patch: pytest.MonkeyPatch) -> None:
        self.place = f"{topic}/1"
        self.armed = threading.Event()
        self.damaged = 0
        """Answers."""
        self.judged: list[tuple[str, Gap | None]] = []
        """What could not be read, and whether it stops the topic."""
        self._chunk, self._gap = record_batches.chunk, Watch.gap
        patch.setattr(record_batches, "chunk", self._damaging)
        judging = self._judging

        def judged(watch: Watch, one: CopiedTopic, error: CutwaterError) -> Gap | None:
            return judging(watch, one, error)

        patch.setattr(Watch, "gap", judged)

    def _damaging(self, place: str, raw: bytes, *more: Any) -> Chunk:
        if place == self.place and raw and self.armed.is_set():
            self.damaged += 1
            raw = raw[:-1] + bytes([raw[-1] ^ 1])
        return self._chunk(place, raw, *more)

    def _judging(self, watch: Watch, one: CopiedTopic, error: CutwaterError) -> Gap | None:
        gap = self._gap(watch, one, error)
        self.judged.append((str(error), gap))
        return gap


@pytest.fixture
def faults(events: Events, monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(events.topic, monkeypatch)


def within_a_round(topic: str, patch: pytest.MonkeyPatch, act: Callable[[CopiedTopic], None]) -> threading.Event:
    """Acts once, between two passes of a round that has taken records of the topic: the next, once it is set."""
    wanted, real = threading.Event(), copier.add_chunks

    def gathered(one: CopiedTopic, chunks: Mapping[int, Chunk], into: Any) -> None:
        real(one, chunks, into)
        if wanted.is_set() and one.name == topic and any(chunk.batches for chunk in chunks.values()):
            wanted.clear()
            act(one)

    patch.setattr(copier, "add_chunks", gathered)
    return wanted


def test_what_a_round_holds_already_is_not_copied_again(
    broker: Any, writing: Writing, events: Events, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pass of a round has taken records, and the next one hears of a damaged answer."""

    def damage(_: CopiedTopic) -> None:
        faults.armed.set()
        events.produce(30)
        until(lambda: faults.damaged > 1, "the damaged answer, told, and asked for again")
        faults.armed.clear()

    strikes = within_a_round(events.topic, monkeypatch, damage)
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
        strikes.set()
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 2))
        found = wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 3))
    assert [gap for text, gap in faults.judged if f"{faults.place}: the checksum" in text] == [None]
    require_held(writing, broker.cluster, found)


@pytest.mark.slow
def test_a_partition_that_stays_damaged_holds_up_no_other(
    broker: Any, writing: Writing, events: Events, faults: Faults
) -> None:
    """Of the same topic. Once it is sound again it is copied on, too."""
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
        before = positions(broker.cluster, writing.job)[events.topic, 1].next
        faults.armed.set()
        epoch(writing, events, 2)
        mirror.until(lambda: len(faults.judged) > 3, "that it is heard again and again")
        sequence = epoch(writing, events, 3)
        ends = {place.partition: end for place, end in events.cut()}

        def others() -> bool:
            now = positions(broker.cluster, writing.job)
            return all(now[events.topic, one].next == end for one, end in ends.items() if one != 1)

        mirror.until(others, "the other partitions to be copied")
        assert positions(broker.cluster, writing.job)[events.topic, 1].next == before < ends[1]
        assert mirror.mirror.copier.stopped == {}
        faults.armed.clear()
        found = wait_arrived(mirror, broker.cluster, writing.job, sequence)
    require_held(writing, broker.cluster, found)


@pytest.mark.slow
def test_what_cannot_be_made_records_is_read_again_while_nobody_knows_why(
    broker: Any, writing: Writing, events: Events, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was handed out, with pieces of other partitions, and the origin does not say what is kept of it."""
    struck, real, identities = threading.Event(), record_batches.records, Origin.identities

    def records(chunk: Chunk) -> Any:
        if chunk.place == faults.place and chunk.batches and struck.is_set() and not faults.judged:
            raise ProtocolError(f"{chunk.place}: the batch cannot be decompressed")
        return real(chunk)

    def unreachable(self: Origin, names: Any) -> Any:
        if struck.is_set() and not faults.judged:
            raise UnavailableError("the origin is away")
        return identities(self, names)

    def strike(one: CopiedTopic) -> None:
        events.produce(30)
        until(lambda: any(chunk.batches for chunk in list(one.fetcher._ways[1].chunks)), "more of the partition")
        struck.set()

    strikes = within_a_round(events.topic, monkeypatch, strike)
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
        monkeypatch.setattr(record_batches, "records", records)
        monkeypatch.setattr(Origin, "identities", unreachable)
        strikes.set()
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 2))
        found = wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 3))
    assert [gap for text, gap in faults.judged if "cannot be decompressed" in text] == [None]
    require_held(writing, broker.cluster, found)


def followed_at(next_: int) -> CopiedTopic:
    at = initial_position("sales", "us", OriginPartition("events", 0, "old", 1), next_, 0, 0)
    return CopiedTopic("events", "events.from-us", "old", 1, 0, False, {0: at}, {0: 0}, 1_000, cast(Any, None))


@pytest.mark.parametrize("first", [4, 6], ids=["again", "left out"])
def test_what_is_gathered_follows_what_was(first: int) -> None:
    """Or nothing of it is added: within one transaction no position would tell."""
    taken = FetchedRecords(followed_at(0), 0, 0, 0)
    taken.add(Chunk(0, 5, [], 0, "events/0", 9))
    with pytest.raises(DivergenceError, match=f"events/0 was read from offset {first}, but the position is 5"):
        taken.add(Chunk(first, 8, [], 0, "events/0", 12))
    assert (taken.piece.first, taken.piece.following, taken.piece.end) == (0, 5, 9)


class Renamed:
    """An origin whose topic is made anew while it is asked, after so many answers."""

    def __init__(self, answers: int) -> None:
        self._answers = answers

    def _is_new(self) -> bool:
        self._answers -= 1
        return self._answers < 0

    def identities(self, names: list[str]) -> dict[str, Identity]:
        return {name: Identity("new" if self._is_new() else "old", 1) for name in names}

    def is_still(self, topic: str, identity: Identity) -> bool:
        return self.identities([topic])[topic] == identity

    def log_bounds(self, _topic: str, _partitions: object, briefly: bool) -> dict[int, tuple[int, int]]:
        return {0: (0, 3) if self._is_new() else (0, 200)}


def watch_of(origin: Renamed) -> Watch:
    nothing: Any = None
    context = MirrorContext(nothing, cast(Any, origin), "flights", "us", structlog.get_logger(), Metrics())
    return Watch(context, lambda _: False)


@pytest.mark.parametrize(("answers", "cause"), [(0, ANEW), (1, None), (2, None), (3, None)])
def test_another_topic_s_log_does_not_tell_that_records_are_lost(answers: int, cause: str | None) -> None:
    """Its end is asked by name, and may lie below the position. The next look finds out that it is another one."""
    watch = watch_of(Renamed(answers))
    gap = watch.gap(followed_at(100), UnavailableError("damaged"))
    assert (gap.cause if gap else None) == cause


def test_a_log_that_ends_below_the_position_has_lost_records() -> None:
    origin = Renamed(99)
    origin.log_bounds = lambda *_asked, **_named: {0: (0, 3)}  # type: ignore[method-assign]
    watch = watch_of(origin)
    gap = watch.gap(followed_at(100), UnavailableError("damaged"))
    assert gap is not None
    assert gap.cause == LOST
