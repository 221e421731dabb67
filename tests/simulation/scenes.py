"""Histories by name: the few that chance seldom finds, step by step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from cutwater.adapters.avro import protocol_records
from cutwater.core.protocol import topics
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, Writer
from cutwater.core.protocol.records import Barrier, Committed, Heartbeat, Milestone, Start
from cutwater.core.protocol.topics import DELETE_RETENTION_MS, MIN_COMPACTION_LAG_MS
from simulation.checker import UNNOTICED, Anomaly
from simulation.disk import TableDisk
from simulation.job import GENERATION, HOUR_MS, JOB, key_bytes
from simulation.log import Outcome, Record
from simulation.spark import CHANGELOG, HEARTBEAT_MS, writer_of
from simulation.world import Profile, Step, World

META, APPLIED = b"\x00", b"\x00applied"
"""How a store's notes of itself begin, and that of its milestone."""
MOST = 400
"""Calls to the outside that a part of a scene may take."""
LUCKS = range(1, 201)


class OtherwiseRun(Exception):
    """Luck led past the scene: it must be tried with another."""


class Scene:
    """A world, and a hand that moves one process at a time."""

    def __init__(self, profile: Profile, luck: int) -> None:
        self.world = World(profile)
        self._luck = luck

    def events(self) -> None:
        self._luck += 1
        self.world.apply(Step("events", "", self._luck * 7_919_000_001))

    def run(self, slot: str, until: Callable[[], bool], stalled: bool = False) -> None:
        """Move one process until something holds, looking after each call that it makes."""
        where = self.world.stalled if stalled else self.world.live
        for _ in range(MOST):
            if until():
                return
            self._luck += 1
            self.world.luck.set(self._luck * 2_654_435_761)
            self.settle()
            if slot not in where:
                if stalled or slot in self.world.stopped:
                    break
                self.world.start(slot)
            self.world._resume(where, slot, 1)
        if not until():
            raise OtherwiseRun(slot)

    def settle(self) -> None:
        """All markers arrive."""
        while self.world.log.markers:
            self.world.log.write_marker(0)

    def stall(self, slot: str) -> None:
        self.world.apply(Step("stall", slot))

    def told(self, kind: type, epoch: int, attempt: int) -> bool:
        """Does this signal stand on the barriers topic?"""
        return any(
            isinstance(one, kind) and (getattr(one, "epoch", epoch), one.attempt) == (epoch, attempt)
            for one in self._records(topics.barriers(JOB.name))
        )

    def milestones(self) -> int:
        return sum(isinstance(one, Milestone) for one in self._records(topics.milestones(JOB.name)))

    def candidates(self) -> int:
        """Milestones of generations that are not promoted."""
        return sum(isinstance(one, Milestone) for one in self._records(topics.candidates(JOB.name)))

    def rows(self, epoch: int, attempt: int) -> int:
        """Rows of one attempt at an epoch on the changelog."""
        wanted = Writer(GENERATION, attempt, epoch)
        found = [one.headers for partition in self.world.log.topics[CHANGELOG] for one in partition.records]
        return sum(writer_of(one) == wanted for one in found)

    def _records(self, topic: str) -> list[protocol_records.Record]:
        return [
            protocol_records.decode(one.value or b"")
            for one in self.world.log.topics[topic][0].records
            if not one.marker and one.transaction and one.transaction.outcome is Outcome.COMMITTED
        ]


def _committed(scene: Scene, epoch: int) -> Callable[[], bool]:
    return lambda: epoch in scene.world.disk.commits


def old_barrier(luck: int) -> Scene:
    """A stalls before its barrier of epoch 1; B replays 1 and tells it; A wakes and tells it too."""
    scene = Scene(Profile(differs=True), luck)
    scene.events()
    scene.run("driver", _committed(scene, 0))
    scene.events()
    scene.run("driver", lambda: scene.world.disk.plans.get(1) is not None)
    told = scene.rows(1, 1)
    scene.run("driver", lambda: scene.rows(1, 1) > told and _before_transaction(scene, "driver"))
    scene.stall("driver")
    scene.run("driver", lambda: scene.told(Barrier, 1, 2))
    if 1 in scene.world.disk.commits:
        raise OtherwiseRun("B was too quick")
    with suppress(OtherwiseRun):  # it ends without the barrier, if it is fenced
        scene.run("driver", lambda: scene.told(Barrier, 1, 1) or not scene.world.stalled, stalled=True)
    scene.events()
    scene.run("driver", _committed(scene, 2))
    return scene


def beat_behind_a_barrier(luck: int) -> Scene:
    """A stalls when it is about to call its job idle; B tells epoch 1, and A wakes before Spark commits it."""
    scene = Scene(Profile(hints=True), luck)
    scene.events()
    scene.run("driver", lambda: scene.told(Committed, 0, 1))
    scene.run("signal", lambda: scene.milestones() == 1)
    scene.world.log.now_ms += HEARTBEAT_MS
    scene.run("driver", lambda: _before_transaction(scene, "driver"))
    scene.stall("driver")
    scene.events()
    scene.run("driver", lambda: scene.told(Barrier, 1, 2))
    if 1 in scene.world.disk.commits:
        raise OtherwiseRun("B was too quick")
    with suppress(OtherwiseRun):  # it ends without having said so, if it is fenced
        scene.run("driver", lambda: scene.told(Heartbeat, 0, 1) or not scene.world.stalled, stalled=True)
    return scene


def events_while_it_looked(luck: int) -> Scene:
    """The driver has seen the end of the source, and stands still for hours before it calls its job idle."""
    scene = Scene(Profile(), luck)
    scene.events()
    scene.run("driver", lambda: scene.told(Committed, 0, 1))
    scene.world.log.now_ms += HEARTBEAT_MS
    scene.run("driver", lambda: is_within(scene, "driver", "check_idle"))
    scene.events()
    scene.world.log.now_ms += 13 * HOUR_MS
    scene.run("driver", lambda: scene.told(Heartbeat, 0, 1))
    return scene


def clock_ahead(luck: int) -> Scene:
    """The driver's clock is two hours ahead: a milestone looks young when compaction takes a row below its cut."""
    scene = Scene(Profile(), luck)
    world = scene.world
    world.skew_ms["driver"] = 2 * HOUR_MS
    scene.events()
    scene.run("driver", lambda: scene.told(Committed, 0, 1) or world.faults["UnavailableError driver"] > 0)
    if not scene.told(Committed, 0, 1):
        world.skew_ms["driver"] = 0  # the operator has read why no epoch is completed
        return scene
    scene.events()
    scene.run("driver", lambda: scene.told(Committed, 1, 1))
    scene.events()
    scene.run("driver", lambda: scene.rows(2, 1) > 0)
    world.apply(Step("kill", "driver"))
    scene.run("signal", lambda: scene.milestones() == 2)
    keys: list[set[bytes | None]] = [set(), set(), set()]
    for partition in world.log.topics[CHANGELOG]:
        for record in partition.records:
            keys[_epoch(record)].add(record.key)
    if not keys[0] & keys[2] - keys[1]:
        raise OtherwiseRun("epoch 2 has overwritten no row of epoch 0")
    world.log.now_ms += MIN_COMPACTION_LAG_MS + HOUR_MS // 2
    for number in range(len(world.log.topics[CHANGELOG])):
        world.log.compact((CHANGELOG, number), MIN_COMPACTION_LAG_MS, DELETE_RETENTION_MS)
    scene.run("view", lambda: world.shown.get("view") == 2 or "view" in world.stopped)
    return scene


def _before_transaction(scene: Scene, slot: str) -> bool:
    """Is the process about to commit a transaction?"""
    return is_within(scene, slot, "commit_transaction")


def is_within(scene: Scene, slot: str, function: str) -> bool:
    """Does the process wait for an answer in that function, or in what it has called?"""
    process = scene.world.live.get(slot)
    fibers = process._fibers if process else ()
    return any(fiber.gr_frame is not None and _calls(fiber.gr_frame, function) for fiber in fibers)


def _calls(frame: object, function: str) -> bool:
    while frame is not None:
        if frame.f_code.co_name == function:  # type: ignore[attr-defined]
            return True
        frame = frame.f_back  # type: ignore[attr-defined]
    return False


def repeated_rows(luck: int) -> Scene:
    """As `two_tellings`, and both write the same: B's rows stand above the milestone that A told."""
    return two_tellings(luck, differs=False)


def two_tellings(luck: int, differs: bool = True) -> Scene:
    """A stalls between its barrier and Spark's commit of epoch 0; B replays 0; A wakes and commits what A told."""
    scene = Scene(Profile(differs=differs), luck)
    scene.events()
    scene.run("driver", lambda: scene.told(Barrier, 0, 1))
    if 0 in scene.world.disk.commits:
        raise OtherwiseRun("A was too quick")
    scene.stall("driver")
    scene.run("driver", lambda: scene.rows(0, 2) > 0)
    scene.run("driver", _committed(scene, 0), stalled=True)
    scene.world.foreign = True
    scene.run("driver", lambda: scene.told(Committed, 0, 2) or scene.told(Barrier, 0, 2))
    if scene.told(Barrier, 0, 2):
        raise OtherwiseRun("B's barrier came before its hint")
    scene.run("signal", lambda: scene.milestones() == 1)
    scene.run("view", lambda: scene.world.shown.get("view") == 1)
    scene.run("driver", lambda: scene.told(Barrier, 0, 2))
    scene.events()
    return scene


def late_row(luck: int) -> Scene:
    """A zombie writes a row of epoch 0 while epoch 2 runs, and epoch 1 has given that key another value."""
    scene = Scene(Profile(), luck)
    for epoch in (0, 1):
        scene.events()
        scene.run("driver", _committed(scene, epoch))
    scene.events()
    scene.run("driver", lambda: scene.rows(2, 1) > 0 and not scene.told(Barrier, 2, 1))
    by_epoch: list[dict[bytes, tuple[int, Record]]] = [{}, {}, {}]
    for number, partition in enumerate(scene.world.log.topics[CHANGELOG]):
        for record in partition.records:
            by_epoch[_epoch(record)][record.key or b""] = (number, record)
    old, newer, newest = by_epoch
    overwritten = [key for key in old if key in newer and old[key][1].value != newer[key][1].value]
    late = [old[key] for key in overwritten if key not in newest]
    if not late:
        raise OtherwiseRun("no key of the kind")
    number, record = late[0]
    scene.world.foreign = True
    scene.world.log.append((CHANGELOG, number), record.key, record.value, record.headers)
    scene.run("driver", lambda: _committed(scene, 2)() or "driver" not in scene.world.live)
    return scene


def lost_row(luck: int) -> Scene:
    """The log loses a row of a milestone that the view has not read yet."""
    scene = Scene(Profile(), luck)
    scene.events()
    scene.run("driver", lambda: scene.told(Committed, 0, 1))
    scene.run("signal", lambda: scene.milestones() == 1)
    scene.run("view", lambda: scene.world.shown.get("view") == 1)
    scene.events()
    scene.run("driver", lambda: scene.told(Committed, 1, 1))
    scene.run("signal", lambda: scene.milestones() == 2)
    rows = [one for one in scene.world.log.topics[CHANGELOG] if _newest_epoch(one) == 1]
    if not rows:
        raise OtherwiseRun("epoch 1 has no rows")
    scene.world.rotten = True
    rows[0].records.pop()
    scene.run("view", lambda: scene.world.shown.get("view") == 2 or "view" in scene.world.stopped)
    return scene


def written_on(luck: int) -> Scene:
    """As `grown_again`, by a row of an epoch that came later and was never proved; brokers tell no leaders."""
    return grown_again(luck, Profile(leaders=False), later=True)


def grown_again(luck: int, profile: Profile | None = None, later: bool = False) -> Scene:
    """A partition in which the newest milestone wrote nothing loses its end; a zombie's repeat takes the place."""
    scene = Scene(profile or Profile(), luck)
    for epoch in (0, 1):
        scene.events()
        scene.events()
        scene.run("driver", lambda: scene.told(Committed, epoch, 1))  # noqa: B023 - it is asked at once
    scene.run("signal", lambda: scene.milestones() == 2)
    log = scene.world.log
    for partition in log.topics[CHANGELOG]:
        keys = {record.key for record in partition.records}
        if (
            len(keys) > 1
            and _newest_epoch(partition) == 0
            and partition.records[0].key != partition.records[-1].key
        ):
            break
    else:
        raise OtherwiseRun("no partition of the kind")
    scene.world.rotten = scene.world.foreign = True
    number = log.topics[CHANGELOG].index(partition)
    log.lose_tail((CHANGELOG, number), partition.end - 1)
    again = partition.records[0]
    headers = [(WRITER_HEADER, Writer(GENERATION, 1, 2).header)] if later else again.headers
    log.append((CHANGELOG, number), again.key, again.value, headers)
    scene.run("view", lambda: scene.world.shown.get("view") == 2 or "view" in scene.world.stopped)
    return scene


def source_grown_again(luck: int) -> Scene:
    """The source loses an event that a milestone has counted; others take its place, and more come."""
    scene = _counted_once(luck)
    world, number = scene.world, _lose_event(scene)
    before = len(world.events[number]) + 1
    while len(world.events[number]) < before + 1:
        scene.events()
    scene.run("driver", lambda: _committed(scene, 1)() or "driver" in world.stopped)
    if "driver" not in world.stopped:
        raise Anomaly(UNNOTICED, f"{JOB.topic}/{number} has lost an event of epoch 0, and epoch 1 is written")
    return scene


def source_lost_while_away(luck: int) -> Scene:
    """The source loses an event that a milestone has counted, while no driver runs. Then one starts."""
    scene = _counted_once(luck)
    scene.world.apply(Step("kill", "driver"))
    number = _lose_event(scene)
    scene.run("driver", lambda: scene.told(Start, 1, 2) or "driver" in scene.world.stopped)
    if scene.told(Start, 1, 2):
        raise Anomaly(UNNOTICED, f"{JOB.topic}/{number} has lost an event of epoch 0, and attempt 2 is written")
    return scene


def half_applied(luck: int) -> Scene:
    """The view dies between two chunks of a milestone, of which some rows are on its disk."""
    scene = _counted_once(luck, Profile(chunk_rows=2))
    world, disk = scene.world, scene.world.tables["view"]
    scene.run("view", lambda: world.shown.get("view") == 1)
    scene.events()
    scene.events()
    scene.run("driver", lambda: scene.told(Committed, 1, 1))
    scene.run("signal", lambda: scene.milestones() == 2)
    rows, applied = _rows_of(disk), disk.rows[APPLIED]
    scene.run("view", lambda: _rows_of(disk) != rows)
    if disk.rows[APPLIED] != applied:
        raise OtherwiseRun("the milestone is applied at once")
    world.apply(Step("kill", "view"))
    scene.run("view", lambda: world.shown.get("view") == 2 or "view" in world.stopped)
    return scene


def _rows_of(disk: TableDisk) -> dict[bytes, bytes]:
    """What a store holds, without its notes of itself."""
    return {key: value for key, value in disk.rows.items() if not key.startswith(META)}


def _counted_once(luck: int, profile: Profile | None = None) -> Scene:
    """Some events, and a milestone that counts them."""
    scene = Scene(profile or Profile(), luck)
    scene.events()
    scene.run("driver", lambda: scene.told(Committed, 0, 1))
    scene.run("signal", lambda: scene.milestones() == 1)
    return scene


def _lose_event(scene: Scene) -> int:
    """Take the last event of a partition. Return its number."""
    world = scene.world
    events = next(events for events in world.events if events)
    number = world.events.index(events)
    world.rotten = world.foreign = True
    world.log.lose_tail((JOB.topic, number), len(events) - 1)
    del events[-1]
    return number


def half_of_a_transaction(luck: int) -> Scene:
    """The output loses the rows of an open transaction; its end marker is written behind the loss."""
    scene = Scene(Profile(), luck)
    scene.events()
    scene.run("driver", lambda: scene.told(Committed, 0, 1))
    scene.run("signal", lambda: scene.milestones() == 1)
    world, output = scene.world, topics.output(JOB.name)
    written = world.log.topics[output]
    scene.run("publisher", lambda: any(partition.records for partition in written))
    number = next(number for number, partition in enumerate(written) if partition.records)
    if any(record.key is None for record in written[number].records):
        raise OtherwiseRun("the end marker is written too")
    world.rotten = True
    world.log.lose_tail((output, number), 0)
    scene.run("publisher", lambda: any(one.marker for one in written[number].records))
    world.drain()
    return scene


def _newest_epoch(partition: object) -> int:
    records = partition.records  # type: ignore[attr-defined]
    return _epoch(records[-1]) if records else -1


def _epoch(record: Record) -> int:
    writer = writer_of(record.headers)
    assert writer is not None
    return writer.epoch


def zombie_of_the_generation(luck: int) -> Scene:
    """A stalls in epoch 1; B replays 1 and runs 2 and 3; A wakes, writes an old row and a barrier, and dies."""
    scene = Scene(Profile(), luck)
    scene.events()
    scene.run("driver", _committed(scene, 0))
    scene.events()
    scene.run("driver", lambda: scene.rows(1, 1) > 0 and not scene.told(Barrier, 1, 1))
    scene.stall("driver")
    for epoch in (1, 2, 3):
        scene.run("driver", _committed(scene, epoch))
        scene.events()
        scene.run("signal", lambda: scene.milestones() >= epoch)  # noqa: B023 - it is asked at once
        scene.run("view", lambda: scene.world.shown.get("view", 0) >= epoch)  # noqa: B023
    before = scene.rows(1, 1)
    late = next(one for part in scene.world.log.topics[CHANGELOG] for one in part.records if _is(one, 1, 1))
    partition = next(
        number for number, part in enumerate(scene.world.log.topics[CHANGELOG]) if late in part.records
    )
    scene.world.foreign = True
    scene.world.log.append((CHANGELOG, partition), late.key, late.value, late.headers)
    scene.run("driver", lambda: not scene.world.stalled, stalled=True)
    assert not scene.world.stalled, "A is still there"
    assert scene.rows(1, 1) > before, "A wrote no old row"
    assert not scene.told(Barrier, 1, 1), "A's barrier was not fenced"
    assert scene.told(Start, 1, 2), "B never started"
    return scene


def cleared_while_away(luck: int) -> Scene:
    """The view is away while windows pass the horizon, are cleared, and their tombstones are compacted away."""
    scene = Scene(Profile(), luck)
    world = scene.world
    scene.events()
    scene.run("driver", lambda: scene.told(Committed, 0, 1))
    scene.run("signal", lambda: scene.milestones() == 1)
    scene.run("view", lambda: world.shown.get("view") == 1)
    world.apply(Step("kill", "view"))
    shown = set(world.checker.truths[0].state)
    world.event_ms += 12 * HOUR_MS
    for _ in range(5):  # the watermark follows the events, and the horizon the watermark
        before = len(world.disk.commits)
        scene.events()
        scene.run("driver", lambda: len(world.disk.commits) > before)  # noqa: B023 - it is asked at once
    scene.run("signal", lambda: scene.milestones() >= 5)
    world.checker.look_at_stream()
    horizon_ms = world.checker.truths[-1].milestone.horizon_ms
    assert all(start + HOUR_MS <= horizon_ms for _, start in shown), "the windows are not below the horizon"
    gone = {key_bytes(*window) for window in shown}
    for partition in world.log.topics[CHANGELOG]:
        partition.records = [one for one in partition.records if one.key not in gone]
    world.log.now_ms += 2 * DELETE_RETENTION_MS
    return scene


def _is(record: object, epoch: int, attempt: int) -> bool:
    return writer_of(record.headers) == Writer(GENERATION, attempt, epoch)  # type: ignore[attr-defined]


def ended(play: Callable[[int], Scene], luck: int) -> Scene:
    """The scene, and everything that follows it. Raises Anomaly; OtherwiseRun where luck leads past it."""
    scene = play(1_000 * luck)
    if not scene.world.rotten:
        scene.world.drain()
    return scene


def seen(play: Callable[[int], Scene]) -> Scene:
    """The scene with the first luck that leads through it, and everything that follows. Raises Anomaly."""
    for luck in LUCKS:
        with suppress(OtherwiseRun):
            return ended(play, luck)
    raise AssertionError(f"{play.__name__}: no luck in {len(LUCKS)} tries")
