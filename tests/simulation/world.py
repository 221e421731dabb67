"""The simulated world: the services' own classes over a simulated log, and what happens to them step by step.

A history is a list of steps made from a seed beforehand. A step that does not apply does nothing, so any part of a
history is a history too: that is how a failing one is shrunken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.client.from_changelog import from_changelog
from cutwater.client.from_output import from_output
from cutwater.client.values import CommittedMilestone
from cutwater.commit_signal.signaller import CommitSignal
from cutwater.core.errors import (
    CutwaterError,
    DivergenceError,
    FencedError,
    ProtocolError,
    UnavailableError,
    UsageError,
)
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.topics import DELETE_RETENTION_MS, MIN_COMPACTION_LAG_MS
from cutwater.core.state.backlog import MARGIN_MS
from cutwater.core.state.partition_share import Partitions
from cutwater.publisher.handover.preload import BackgroundPreload
from cutwater.publisher.pipeline import Pipeline
from cutwater.publisher.publisher import Publisher
from cutwater.publisher.service import JobPublishers
from cutwater.publisher.sources.changed_rows import Changed, Source, has_store, source_of, store_segment_ms
from cutwater.views.changelog.milestone_rows import Updates
from cutwater.views.changelog.range_reader import Ranges
from cutwater.views.follow.follower import Follower
from cutwater.views.query.view import State, View
from cutwater.views.store.key_layout import segment_ms
from cutwater.views.store.store import Store
from simulation.changing.checker import ChangingChecker
from simulation.changing.definitions import first_definition
from simulation.changing.generations import ChangingGenerations, changed_rows
from simulation.changing.outputs import look_at_changing_rows
from simulation.checker import (
    FALSE_ALARM,
    FINALS,
    INVERSION,
    LOST_WRITE,
    ROWS,
    STUCK,
    UNNOTICED,
    WINDOWS,
    Anomaly,
    Checker,
    require_place,
)
from simulation.clients import SimCluster
from simulation.disk import Concurrent, Disk, SimTable, TableDisk
from simulation.generations import Generations, generation_of, slot_of
from simulation.job import GENERATION, HOUR_MS, JOB, KEYS, PARTITIONS, job_of
from simulation.log import Log, Place
from simulation.outputs import look_at_rows
from simulation.processes import Luck, Process, SimEvent, SimExecutor
from simulation.spark import CHANGELOG, Driver, Event, Habits, LateRow
from simulation.stores import Disks, SimFolders, SimStates

START_MS = 1_700_000_000_000
SLOTS = ("driver", "signal", "view", "part", "publisher", "consumer", "reader")
"""Part: a view of some partitions. Consumer: `committed()` on the output; reader: the same on the changelog."""
VIEWS: dict[str, Partitions | None] = {"view": None, "part": frozenset({1})}
"""What each view holds."""
STALLING = ("driver", "signal", "publisher")
"""Those of which a second one may start while the first does not move: fencing must tell them apart."""
DRAIN_ROUNDS = 400
TOLD = (
    *("hand-over", "published state lost", "left behind", "candidate preloaded", "states compared ahead"),
    *("overtaken", "other windows"),
)
"""What a publisher says of generations."""
RUNS_LONGER = 3
"""By this factor where generations share the steps."""


class Step(NamedTuple):
    kind: str
    what: str = ""
    luck: int = 0


@dataclass(frozen=True)
class Profile:
    """Which faults this history has: few at a time find more than all at once."""

    retries: bool = False
    zombies: bool = False
    differs: bool = False
    hints: bool = True
    chunk_rows: int = 50_000
    part_rows: int = 100_000
    evicts: bool = False
    """Does the view of all partitions evict windows, too? That of a part always does."""
    leaders: bool = True
    """Do brokers tell which leader a partition has?"""
    sliding: bool = False
    """Do windows overlap?"""
    final: bool = False
    """Is each window published once, when it is closed?"""
    generations: bool = False
    """Do other generations take over?"""
    preload: bool = False
    """Does the publisher load a candidate's state ahead, by the bulk loader?"""
    changes: bool = False
    """May a generation have another job file than its parent?"""


class _Silent:
    """Takes the place of log and metrics."""

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_args, **_named: None


class Heard(_Silent):
    """A log of which some lines are counted among the faults."""

    def __init__(self, faults: Counter[str], *lines: str) -> None:
        def hear(line: str, **_named: object) -> None:
            faults[line] += line in lines

        self.info = self.warning = self.error = hear


@dataclass
class Services:
    """The classes that run; a guard's test puts one with a hole in the place of one of them."""

    driver: type[Driver] = Driver
    signal: type[CommitSignal] = CommitSignal
    store: type[Store] = Store
    follower: type[Follower] = Follower
    publisher: type[Publisher] = Publisher
    changed: type[Changed] = Changed


class Below(NamedTuple):
    """What was lost below a cut of a milestone."""

    sequence: int
    generation: Generation
    place: TopicPartition
    end: int
    """Of the log behind the loss."""
    cut: int

    def __str__(self) -> str:
        return f"{self.place.topic}/{self.place.partition} below the cut {self.cut} of {self.generation}"

    def concerns(self, generation: Generation, parent_of: Callable[[Generation], Milestone]) -> bool:
        """Must a driver of the generation say so?

        A later one has taken the rows over, or was refused them. The source concerns it if it goes on behind the
        loss.
        """
        at = generation
        while at.number > self.generation.number:
            parent = parent_of(at)
            if parent.generation == self.generation:
                return self.place.topic == JOB.topic and parent.source_cut.offset(self.place) > self.end
            at = parent.generation
        return at == self.generation


@dataclass
class Client:
    """A program that reads milestones and remembers how far it came, with what it did with them."""

    token: Token | None = None
    seen: int = 0
    history: list[int] = field(default_factory=list)


class World:
    def __init__(self, profile: Profile, services: Services | None = None) -> None:
        self.profile = profile
        first = first_definition(profile.sliding, profile.final) if profile.changes else None
        self.job = first.job if first else job_of(profile.sliding, profile.final)
        self.services = services or Services()
        self.faults: Counter[str] = Counter()
        self.luck = Luck()
        self.log = Log(START_MS, tells_leaders=profile.leaders)
        for topic, partitions in (
            (topics.barriers(JOB.name), 1),
            (topics.milestones(JOB.name), 1),
            (topics.candidates(JOB.name), 1),
            (topics.published(JOB.name), 1),
            (topics.output(JOB.name), PARTITIONS),
            (CHANGELOG, PARTITIONS),
            (JOB.topic, PARTITIONS),
        ):
            self.log.create(topic, partitions)
        self.events: list[list[Event]] = [[] for _ in range(PARTITIONS)]
        self.event_ms = START_MS - START_MS % HOUR_MS
        self.disk = Disk()
        self.tables = {name: TableDisk() for name in VIEWS}
        self.stores: Disks = {}
        """On the disk of the publisher's machine."""
        self.habits = Habits(profile.retries, profile.zombies, profile.differs, profile.hints, self.job)
        self.checker = (
            ChangingChecker(self.log, self.disk, first)
            if first
            else Checker(self.log, self.disk, profile.differs, self.job)
        )
        self.silent = _Silent()
        self.changes = ChangingGenerations(self, first) if first else None
        self.generations = self.changes or (Generations(self) if profile.generations else None)
        self.serves = dict.fromkeys(VIEWS, GENERATION)
        """The generation in the table of each view."""
        self.checker.may_repeat = lambda: any(self.faults[one] for one in ("published state lost", "overtaken"))
        if isinstance(self.checker, ChangingChecker):
            self.checker.starts_over = lambda: self.faults["other windows"] > 0
        self.live: dict[str, Process] = {}
        self.stalled: dict[str, Process] = {}
        self.stopped: dict[str, str] = {}
        """Parts that have said that going on would be wrong."""
        self.skew_ms = dict.fromkeys(SLOTS, 0)
        self.views: dict[str, tuple[View, Follower]] = {}
        self.shown: dict[str, int] = {}
        self.clients = {"consumer": Client(), "reader": Client()}
        self.foreign = False
        """Has anything happened that may end the generation?"""
        self.rotten = False
        """Has the log lost what it had acknowledged?"""
        self.lost_below: Below | None = None
        self.lossy: set[str] = set()
        """The topics that have lost records."""
        """What it lost below a cut of the newest milestone then: the driver must say so."""

    # --- processes

    def clock(self, slot: str) -> Callable[[], int]:
        part = slot.partition(" ")[0]
        return lambda: self.log.now_ms + self.skew_ms[part]

    @property
    def generation(self) -> Generation:
        """The promoted one, for whoever starts now."""
        return self.generations.promoted if self.generations else GENERATION

    def start(self, slot: str) -> None:
        process = Process(slot, self.luck)
        cluster: Any = SimCluster(self.log, process)
        clock = self.clock(slot)
        self.live[slot] = process
        if self.generations and slot.startswith("driver"):
            self.generations.start_driver(process, generation_of(slot))
        elif self.generations and slot.startswith("signal"):
            self.generations.start_signal(process, generation_of(slot))
        elif slot == "driver":
            self.services.driver(process, self.log, self.disk, self.events, self.habits, clock)
        elif slot == "signal":
            # Its brokers are never away. Asked by the real clock, they would be asked in some runs of a seed only.
            signal = self.services.signal(
                cluster,
                JOB.name,
                GENERATION,
                clock,
                _Silent(),
                clock_s=lambda: 0.0,
                sleep=lambda _: process.pause(),
            )
            process.spawn(signal.run)
        elif slot in VIEWS:
            process.spawn(lambda: self._view(process, cluster, slot, VIEWS[slot]))
        elif slot == "publisher":
            process.spawn(lambda: self._publisher(process, cluster, clock))
        else:
            process.spawn(lambda: self._client(process, cluster, slot, clock))

    def _view(self, process: Process, cluster: Any, name: str, partitions: Partitions | None = None) -> None:
        self.views.pop(name, None)
        job, generation = self._working(cluster)
        if self.serves.get(name, generation) != generation:
            self._empty(name)
            self.serves[name] = generation
        disk = self.tables[name]
        store = self.services.store(
            Path(name),
            job,
            generation,
            open_table=lambda _folder: SimTable(disk, process),
            partitions=partitions,
        )
        view = View(store, job)
        follower = self.services.follower(
            cluster,
            job,
            generation,
            store,
            view,
            self.clock(process.slot),
            _Silent(),
            chunk_rows=self.profile.chunk_rows,
            event=lambda: SimEvent(process),
            partitions=partitions,
            evict=lambda one: self._lower_ms(store, one) if partitions or self.profile.evicts else None,
        )
        self.views[name] = (view, follower)
        self._look_at_view(name, again=True)
        follower.run()
        if view.status.state is State.STOPPED:
            raise DivergenceError(view.status.reason)

    def _working(self, cluster: Any) -> tuple[Job, Generation]:
        """What a process that starts now works for."""
        return self.changes.working(cluster)[1:] if self.changes else (self.job, self.generation)

    def _lower_ms(self, store: Store, milestone: Milestone) -> int | None:
        """The view may not grow: now and then it lets go of the closed windows of whole segments."""
        closed_ms = milestone.watermark_ms - store.job.overlap_ms
        lower = closed_ms - closed_ms % store.segment_ms
        return lower if lower > store.floor_ms(milestone.horizon_ms) and self.luck() % 2 else None

    def _publisher(self, process: Process, cluster: Any, clock: Callable[[], int]) -> None:
        if self.changes:
            own, job, generation = self.changes.working(cluster)
            jobs = GenerationJobs.on(cluster, own)
            usual = segment_ms(own)
            JobPublishers(
                lambda of, number: self._publisher_of(process, cluster, clock, of, number, jobs, usual),
                job,
                generation,
            ).run()
        else:
            self._publisher_of(process, cluster, clock, self.job, self.generation).run()

    def _publisher_of(
        self,
        process: Process,
        cluster: Any,
        clock: Callable[[], int],
        job: Job,
        generation: Generation,
        jobs: GenerationJobs | None = None,
        usual_ms: int | None = None,
    ) -> Publisher:
        """`usual_ms`: the length of a segment of stores that only a hand-over needs."""
        part_rows, preload = self.profile.part_rows, self.profile.preload
        segment = store_segment_ms(job) or usual_ms
        folders = SimFolders(self.stores, process, self.services.store, segment)
        more = {"least_records": 1} if preload else {}
        of = {"job_of": jobs.of} if jobs else {}
        states = SimStates(Path("publisher"), job, segment, has_store(job), folders=folders, **more, **of)
        log = Heard(self.faults, *TOLD)

        def source(ranges: Ranges, generation: Generation) -> Source:
            if has_store(job):
                return source_of(job, lambda: states.open(generation), ranges, clock, part_rows)
            return self.services.changed(Updates(job, ranges, clock, part_rows))

        ahead = None
        if preload and self.generations:  # its thread is a fiber only where there are candidates
            ahead = BackgroundPreload(cluster, job, states, log, clock, least_records=1)
        return self.services.publisher(
            cluster,
            job,
            generation,
            source,
            states,
            _Silent(),
            log,
            self.profile.part_rows,
            clock,
            pipeline=Pipeline(SimExecutor(process)),
            ahead=ahead,
            sleep=lambda _: process.pause(),
            jobs=jobs,
        )

    def _client(self, process: Process, cluster: Any, slot: str, clock: Callable[[], int]) -> None:
        client, never = self.clients[slot], lambda: False
        if slot == "consumer":
            job = self.changes.reads(slot) if self.changes else self.job
            found = from_output(job, cluster, client.token, never, None, 1_000_000)
        else:
            found = from_changelog(self.job, cluster, GENERATION, client.token, never, None, 1_000_000, clock)
        for milestone in found:
            self._given(slot, client, milestone)

    def _given(self, slot: str, client: Client, one: CommittedMilestone) -> None:
        if self.changes:
            rows = changed_rows(one.changes)
        else:
            rows = {
                (change.key, change.window_start_ms): (change.values["total"], change.values["writer"])
                for change in one.changes
            }
        of = ROWS if slot == "reader" else FINALS if self.profile.final else WINDOWS
        self.checker.look_at_changes(slot, client.seen, one.first_sequence, one.token.sequence, rows, of)
        client.token, client.seen = one.token, one.token.sequence

    # --- steps

    def apply(self, step: Step) -> None:
        """One step, and a look at what is shown after it. Raises Anomaly."""
        self.luck.set(step.luck)
        getattr(self, f"_do_{step.kind.replace('-', '_')}")(step.what)

    def _do_run(self, slot: str) -> None:
        slots = self.generations.slots(slot) if self.generations and slot in ("driver", "signal") else [slot]
        slots = [one for one in slots if one not in self.stopped]
        if not slots:
            return
        slot = slots[self.luck() % len(slots)] if len(slots) > 1 else slots[0]
        if slot not in self.live:
            self.start(slot)
        most = 1 + self.luck() % 8
        self._resume(self.live, slot, most * RUNS_LONGER if self.generations else most)

    def _living(self, part: str, where: dict[str, Process]) -> str:
        """One of its processes, of whichever generation."""
        if not self.generations:
            return part
        slots = [one for one in where if one.partition(" ")[0] == part]
        return slots[self.luck() % len(slots)] if slots else part

    def _do_wake(self, slot: str) -> None:
        part, slot = slot, self._living(slot, self.stalled)
        if slot in self.stalled:
            self.foreign = self.foreign or part == "driver"
            self.faults[f"zombie {part}"] += 1
            self._resume(self.stalled, slot, 1 + self.luck() % 8)

    def _do_stall(self, slot: str) -> None:
        part, slot = slot, self._living(slot, self.live)
        if slot in self.live and slot not in self.stalled:
            self.stalled[slot] = self.live.pop(slot)
            self.faults[f"stall {part}"] += 1
            if slot == "publisher":
                self.stores = {}  # the next one runs on another machine

    def _do_kill(self, slot: str) -> None:
        part, slot = slot, self._living(slot, self.live)
        if slot in self.live:
            self.faults[f"kill {part}"] += 1
            self.live.pop(slot).kill()

    def _do_events(self, _what: str) -> None:
        for _ in range(1 + self.luck() % 4):
            luck = self.luck()
            at_ms = self.event_ms - luck % (20 * 60_000)
            event = Event(KEYS[(luck >> 8) % len(KEYS)], at_ms, 1 + (luck >> 12) % 9)
            number = (luck >> 16) % PARTITIONS
            self.events[number].append(event)
            self.log.append((JOB.topic, number), event.key.encode(), b"")
            self.event_ms += (luck >> 20) % (10 * 60_000)

    def _do_marker(self, _what: str) -> None:
        for _ in range(1 + self.luck() % 2):
            if self.log.markers:
                self.log.write_marker(self.luck())
        self.checker.look_at_stream()

    def _do_timeout(self, _what: str) -> None:
        """Brokers abort what has been open for too long."""
        self.faults["transaction timed out"] += self.log.time_out()

    def _do_claim(self, _what: str) -> None:
        if self.generations:
            self.checker.look_at_stream()
            self.generations.claim()

    def _do_promote(self, _what: str) -> None:
        if self.generations:
            self.generations.promote()

    def _do_abort(self, _what: str) -> None:
        if self.generations:
            self.generations.abort()

    def _do_prune(self, _what: str) -> None:
        if self.generations:
            self.generations.prune()

    def _do_compact(self, _what: str) -> None:
        changelogs = [one for one in self.log.topics if one.startswith(topics.changelog_prefix(JOB.name))]
        topic = changelogs[self.luck() % len(changelogs)] if len(changelogs) > 1 else changelogs[0]
        place = (topic, self.luck() % len(self.log.topics[topic]))
        gone = self.log.compact(place, MIN_COMPACTION_LAG_MS, DELETE_RETENTION_MS)
        self.faults["compacted"] += gone

    def _do_leap(self, _what: str) -> None:
        self.log.now_ms += (20_000, HOUR_MS, 13 * HOUR_MS, 30 * HOUR_MS)[self.luck() % 4]

    def _do_age(self, _what: str) -> None:
        """The events that follow are hours younger: windows pass the horizon, and are cleared."""
        self.faults["aged"] += 1
        self.event_ms += (1 + self.luck() % 4) * HOUR_MS

    def _do_skew(self, slot: str) -> None:
        self.faults["clock jump"] += 1
        most = MARGIN_MS // 3
        self.skew_ms[slot] = self.luck() % (2 * most) - most

    def _do_late_row(self, _what: str) -> None:
        """A zombie executor writes a row that was given up long ago."""
        late = self.habits.late_rows
        if late:
            row = late.pop(self.luck() % len(late))
            tombstone = row.value is None  # for a window that does not exist any more: it changes nothing
            self.foreign = self.foreign or not tombstone
            self.faults["late tombstone" if tombstone else "late row"] += 1
            self._write_row(row)

    def _write_row(self, row: LateRow) -> None:
        if CHANGELOG not in self.log.topics:
            return
        self.log.append((CHANGELOG, row.partition), row.key, row.value, row.headers)

    def _do_roll_back(self, _what: str) -> None:
        """The checkpoint is replaced by an older copy while no driver runs."""
        for where in (self.live, self.stalled):
            if "driver" in where:
                where.pop("driver").kill()
        self.foreign = True
        self.faults["checkpoint rolled back"] += 1
        self.disk.roll_back(self.luck() % 4)

    def _do_lose_view(self, _what: str) -> None:
        """The view's disk is gone: it begins with nothing."""
        self.faults["view lost"] += 1
        slot = tuple(VIEWS)[self.luck() % 8 == 0]
        if slot in self.live:
            self.live.pop(slot).kill()
        self._empty(slot)
        self.shown[slot] = 0

    def _empty(self, view: str) -> None:
        self.tables[view] = TableDisk()
        self.checker.begins_anew(view)

    def _do_lose_store(self, _what: str) -> None:
        """The publisher's disk is gone."""
        self.faults["store lost"] += 1
        if "publisher" in self.live:
            self.live.pop("publisher").kill()
        self.stores = {}

    def _do_forget(self, slot: str) -> None:
        """A client begins anew, without its token."""
        if slot in self.live:
            self.live.pop(slot).kill()
        self.clients[slot] = Client()

    def _do_unknown(self, slot: str) -> None:
        """The next answer to a commit is lost."""
        if slot in self.live:
            self.faults["unknown outcome"] += 1
            self.live[slot].lose_next_answer = True

    def _do_settle(self, _what: str) -> None:
        """Everybody comes to the end of what there is."""
        self._settle()

    def _do_make_anew(self, topic: str) -> None:
        """Somebody deletes a topic, and makes another one of its name."""
        self.checker.look_at_stream()
        partitions, settings = self.log.topics[topic], self.log.settings[topic]
        self.log.delete(topic)
        self.log.create(topic, len(partitions), settings)
        self.faults[f"{topic} made anew"] += 1
        for number in range(len(partitions)):
            self._lost((topic, number), 1)  # with nothing in it, too, it was another topic
        self._look_below()

    def _do_lose_tail(self, topic: str) -> None:
        """A partition's leader is gone for good, and the next one lacks what was acknowledged last."""
        self.checker.look_at_stream()
        number = self.luck() % len(self.log.topics[topic])
        self.faults[f"lost tail of {topic}"] += self._lose((topic, number)) > 0
        self._look_below()

    def _do_lose_power(self, _what: str) -> None:
        """The broker comes back older: each partition of every topic lacks another suffix, of any length."""
        self.checker.look_at_stream()
        lost = [self._lose(place) for place in self.log.places() if self.luck() % 4]
        self.faults["power lost"] += sum(map(bool, lost)) > 1
        self.checker.look_at_stream()
        if self.lost_below and len(self.checker.truths) < self.lost_below.sequence:
            self.lost_below = None  # nobody can know of the milestone any more
        self._look_below()

    def _lose(self, place: Place) -> int:
        """Take some records from the end of a partition: often a few, and sometimes any number."""
        partition = self.log.topics[place[0]][place[1]]
        records = 1 + self.luck() % (4 if self.luck() % 2 else max(1, partition.end))
        return self._lost(place, self.log.lose_tail(place, max(0, partition.end - records)))

    def _lost(self, place: Place, lost: int) -> int:
        """What the world knows of a partition that has lost so many records."""
        topic, number = place
        if topic == topics.milestones(JOB.name):
            self.checker.stream_lost()
        if topic == JOB.topic:
            del self.events[number][self.log.topics[topic][number].end :]
        if lost:
            self.lossy.add(topic)
        self.rotten |= lost > 0
        self.foreign |= lost > 0
        return lost

    def _look_below(self) -> None:
        """What a driver must say: a log ends below a cut of the newest milestone."""
        self.checker.look_at_stream()
        if not self.checker.truths:
            return
        newest = self.checker.truths[-1].milestone
        for place, cut in newest.source_cut.and_(newest.changelog_cut):
            if cut > (end := self.log.topics[place.topic][place.partition].end):
                self.lost_below = Below(newest.sequence, newest.generation, place, end, cut)

    # --- what follows a step

    def _resume(self, where: dict[str, Process], slot: str, most: int) -> bool:
        process, ran = where[slot], False
        for _ in range(most):
            if not process.run():
                break
            ran = True
            if slot in VIEWS:
                self._look_at_view(slot)
            if not process.alive:
                del where[slot]
                self._ended(slot, process.error, where is self.stalled)
                break
        return ran

    def _ended(self, slot: str, error: BaseException | None, was_stalled: bool) -> None:
        """A process has ended by itself: may it?"""
        if self.rotten and isinstance(error, UnavailableError) and "a transaction is open" in str(error):
            self.stopped[slot] = str(error)  # it says so at each start: its end marker is lost
            return
        if self.generations and isinstance(error, CutwaterError) and self.generations.may_end(slot, error):
            self.stopped[slot] = str(error)
            return
        if error is None or isinstance(error, UnavailableError | Concurrent | FencedError):
            self.faults[f"{type(error).__name__} {slot.partition(' ')[0]}"] += 1
            return
        if isinstance(error, Anomaly) or not isinstance(error, CutwaterError):
            raise error
        part = slot.partition(" ")[0]
        if part == "driver" and was_stalled:
            self.faults["zombie driver gave up"] += 1  # to it the newer driver's rows are foreign
        elif part == "driver":
            if not self.foreign:
                raise Anomaly(FALSE_ALARM, f"the driver has ended a sound generation: {error}")
            self.faults["generation ended"] += 1
            self.stopped[slot] = str(error)
        elif self.rotten and isinstance(error, ProtocolError | UsageError):
            require_place(slot, error)
            self.stopped[slot] = str(error)
        elif slot == "signal" and self.profile.differs and self.foreign:
            self.faults["told differently"] += 1
            self.stopped[slot] = str(error)
        else:
            raise Anomaly(FALSE_ALARM, f"{slot} has stopped: {error}")

    def _look_at_view(self, name: str, again: bool = False) -> None:
        if name not in self.views:
            return  # its store is still being opened
        view, _ = self.views[name]
        milestone = view.milestone
        if milestone is not None:
            far_ms = self.log.now_ms + MARGIN_MS
            self.checker.look_at_age(name, milestone, far_ms - view.age_ms(milestone, far_ms))
        if milestone is None or (milestone.sequence == self.shown.get(name, 0) and not again):
            return
        if milestone.sequence < self.shown.get(name, 0):
            raise Anomaly(INVERSION, f"the view goes from sequence {self.shown[name]} to {milestone.sequence}")
        self.shown[name] = milestone.sequence
        shown, rows = view.rows()
        if self.changes:
            found = self.changes.shown(shown, rows)
        else:
            found = {(row["key"], row["window_start"]): (row["total"], row["writer"]) for row in rows}
        lower = view.lower_ms(shown)
        self.faults["evicted"] += lower is not None
        self.checker.look_at_bound(name, shown, lower)
        self.checker.look_at_state(name, shown, found, VIEWS.get(name), lower)

    # --- the end

    def drain(self) -> None:
        """No more faults: everything that can still come must come, and a new view must hold the same."""
        for slot in list(self.stalled):
            self.stalled.pop(slot).kill()
        self._settle()
        if self.rotten:  # who waits for what is lost gives up after a bounded time, and is started again
            for slot in list(self.live):
                self.live.pop(slot).kill()
            self._settle()
        for _ in range(2):  # time for a heartbeat, and for one of the driver that takes over from a fenced one
            self.log.now_ms += 10 * HOUR_MS // 60
            self._settle()
        self.checker.look_at_stream()
        if not (self.rotten and "publisher" in self.stopped):  # it has said so
            self.checker.look_at_output()
            if isinstance(self.checker, ChangingChecker) and not self.checker.broken:
                look_at_changing_rows(self.log, self.checker)
            elif self.generations and not self.checker.broken:
                look_at_rows(self.log, self.job, self.checker.truths)
        habits = self.generations.habits if self.generations else {GENERATION: self.habits}
        for generation, one in habits.items():
            self.checker.look_at_barriers(generation, one.began)
        judging = {topics.barriers(JOB.name), topics.milestones(JOB.name), JOB.topic}
        if not self.rotten or (self.lossy and not self.lossy & judging):
            self.checker.look_at_freshness(MARGIN_MS // 3)
        self._restored()
        self._require_everything()
        self.faults["tombstone"] += self.habits.buried
        self.faults["tombstone not acknowledged"] += self.habits.unburied

    def _settle(self) -> None:
        """Everybody runs until nobody has anything to do."""
        for number in range(DRAIN_ROUNDS):
            self.luck.set(number)
            self._do_timeout("")
            while self.log.markers:
                self.log.write_marker(0)
            ran = False
            for slot in self._slots():
                if slot in self.stopped:
                    continue
                if slot not in self.live:
                    self.start(slot)
                    ran = True
                ran = self._resume(self.live, slot, 30) or ran
            if not ran and not self.log.markers:
                return
        raise Anomaly(STUCK, f"after {DRAIN_ROUNDS} rounds without a fault something still moves")

    def _slots(self) -> list[str]:
        found: list[str] = []
        for slot in SLOTS:
            found += self.generations.slots(slot) if self.generations and slot in ("driver", "signal") else [slot]
        return found

    def _restored(self) -> None:
        """A view that begins with nothing holds what the others have shown."""
        name = "restored"
        self.tables[name] = TableDisk()
        process = Process("view", self.luck)
        process.spawn(lambda: self._view(process, SimCluster(self.log, process), name))
        while process.run():
            self._look_at_view(name)
        if process.error is not None:
            self._ended(name, process.error, False)

    def _require_everything(self) -> None:
        last = len(self.checker.truths)
        generation = self.generation
        driver, disk = slot_of("driver", generation), self.checker.disks[generation]
        if slot_of("signal", generation) in self.stopped:
            return
        committed = max(disk.commits, default=-1)
        told = self.checker.truths[-1].milestone.epoch if last else -1
        if self.checker.broken and self.faults[f"{topics.milestones(JOB.name)} made anew"]:
            return  # a signaller at work has written behind it: to whoever comes later it looks pruned
        lost = self.lost_below
        if lost and lost.concerns(generation, self.checker.parent_of) and driver not in self.stopped:
            raise Anomaly(UNNOTICED, f"{lost} is lost, and the driver goes on")
        if driver not in self.stopped:
            ends = {number: len(events) for number, events in enumerate(self.events)}
            cut = self.checker.truths[-1].milestone.source_cut if last else ()
            if any(ends.values()) and {place.partition: offset for place, offset in cut} != ends:
                raise Anomaly(LOST_WRITE, f"events end at {ends}, and the newest milestone at {cut}")
            if committed != told:
                raise Anomaly(LOST_WRITE, f"epoch {committed} is committed, and the newest milestone is of {told}")
        self._require_readers(last)

    def _require_readers(self, last: int) -> None:
        """Everybody has come to the last milestone, unless compaction has overtaken it."""
        if not last:
            return
        newest = self.checker.truths[-1].milestone
        margin = MIN_COMPACTION_LAG_MS - MARGIN_MS - MARGIN_MS
        changelog = self.log.topics[topics.changelog(JOB.name, newest.generation)]
        followed = any(offset < changelog[place.partition].end for place, offset in newest.changelog_cut)
        if self.log.now_ms - newest.written_ms > margin and followed:
            return
        reached = {name: self.shown.get(name, 0) for name in (*VIEWS, "restored")}
        reached |= {name: client.seen for name, client in self.clients.items()}
        late = {name: at for name, at in reached.items() if at != last and name not in self.stopped}
        if late:
            if self._waits_in_vain(min(late.values())):
                return
            raise Anomaly(STUCK, f"the stream ends at sequence {last}, and {late} came no further")

    def _waits_in_vain(self, reached: int) -> bool:
        """Does a log end below a cut that is still needed? Its readers give up after a bounded time, and say what
        is lost. And who has told of a loss writes no more.

        `reached`: the sequence from which somebody has to go on; a hand-over needs the rows of that one, too.
        """
        needed = (one.milestone.changelog_cut for one in self.checker.truths[max(0, reached - 1) :])
        short = any(offset > self._end(place) for cut in needed for place, offset in cut)
        return self.rotten and (short or "publisher" in self.stopped)

    def _end(self, place: TopicPartition) -> int:
        partitions = self.log.topics.get(place.topic)
        return partitions[place.partition].end if partitions else 0
