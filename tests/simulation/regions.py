"""Two regions: mirrors between them, failovers and switchovers at any moment, and zombies of either side.

The mirror, commit-signal, the failover's steps and the reports of forks and losses are the services' own code.
A history is a list of steps made from a seed, as in the world of one region.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.topics.candidates import origin_parent, parent_of
from cutwater.adapters.topics.mirror_topics import Positions
from cutwater.client.from_changelog import from_changelog
from cutwater.commit_signal.signaller import CommitSignal
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.driver.commit_hints import HEARTBEAT_MS_MAX
from cutwater.core.errors import (
    CutwaterError,
    DivergenceError,
    FencedError,
    HeldUpError,
    UnavailableError,
    UsageError,
)
from cutwater.core.failover.failover import Loss, known_loss
from cutwater.core.generations.candidates import Candidates
from cutwater.core.job.job import Job
from cutwater.core.mirror.replica_lag import SafeTime
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim
from cutwater.core.protocol.topics import DELETE_RETENTION_MS, MIN_COMPACTION_LAG_MS
from cutwater.mirror.resync.resync import resync, withdraw
from cutwater.mirror.service import Mirror
from cutwater.mirror.topics.context import MirrorContext
from cutwater.mirror.topics.origin import Origin
from cutwater.operations.generations.prune import GenerationPruning
from cutwater.operations.regions.failover import Failover, OriginCopies, release
from simulation.asking import Asking
from simulation.checker import FALSE_ALARM, STUCK, UNNOTICED, Anomaly, require_place
from simulation.clients import SimCluster
from simulation.disk import Concurrent
from simulation.fetching import Link
from simulation.job import GENERATION, HOUR_MS, JOB, KEYS, PARTITIONS
from simulation.log import Place
from simulation.operators import Operator
from simulation.processes import Process, Several, SimEvent
from simulation.regional import AMENDED, KEEPING, SUMMED, Book, Region, RegionDriver
from simulation.regions_checker import Lines, Reader
from simulation.spark import Event
from simulation.truncations import Losses
from simulation.world import START_MS, Step, _Silent

HOME, AWAY = GENERATION.region, "west"
CLAIMS_MAX = 5
SHORT_LAG_MS, CLEANER_RESTS_MS = 600_000, 16_000
ROUNDS_MAX = 150
CATCH_UP_ROUNDS = 50
"""For a generation that is to be promoted: whoever starts reads for some rounds, and writes nothing."""
_MS = (1, 200, 700, 3_000)


@dataclass(frozen=True)
class Weather:
    """What this history has."""

    split: bool = False
    """Two processes share the slots of a mirror."""
    claims: int = 2
    """So many times a region may go on with the other one's job."""
    amends: bool = False
    """Windows close by a floor, and events between it and the watermark amend them."""
    starts: int = 0
    """So many generations a region may start from its own milestones."""

    @property
    def job(self) -> Job:
        return (KEEPING if self.starts else AMENDED) if self.amends else SUMMED


class _Counted(_Silent):
    """A mirror's metrics: what it says of itself is held against what is there."""

    def __init__(self, world: Regions, region: str) -> None:
        self._world, self._region = world, region

    def stopped(self, topic: str, cause: str) -> None:
        if topic in self._world.disturbed.get(Process.running, ()):
            self._world.faults["stopped by a resync"] += 1
            return
        rightly = self._world.lines.is_gap(self._region, topic, cause) or bool(self._world.losses)
        if rightly or topic in self._world.trodden.get(self._region, ()):
            self._world.faults[f"stopped: {cause}"] += 1
            self._world.gaps.setdefault(self._region, set()).add(topic)
            return
        if Process.running in self._world.stalled.values():
            # It looked before it stood still, and again after its successor had written: to it that is foreign.
            self._world.faults["zombie mirror has stopped a topic"] += 1
            return
        raise Anomaly(FALSE_ALARM, f"the mirror in {self._region} has stopped {topic}: {cause}")

    def safe(self, one: SafeTime) -> None:
        if Process.running in self._world.disturbed or self._world.losses:
            return  # to it the arrivals of before are there
        self._world.faults["safe time"] += 1
        self._world.lines.look_at_safe_time(self._region, one)

    def passed(self) -> None:
        self._world.faults["passed over"] += 1


class Regions(Several):
    """One history."""

    def __init__(self, weather: Weather) -> None:
        super().__init__()
        self.weather = weather
        self.faults: Counter[str] = Counter()
        self.book = Book()
        self.by_name = {name: Region(name, START_MS) for name in (HOME, AWAY)}
        self.by_name[HOME].make(GENERATION)
        self.links = {name: Link() for name in self.by_name}
        """Over which a region reaches the other one."""
        self.cuts = 0
        """So often was a link cut."""
        self.foreign: set[str] = set()
        """Slots in which a zombie has gone on: a driver that finds its rows ends the generation."""
        self.given_up: dict[str, str] = {}
        """By region the topic whose copy somebody has begun to give up, and did not come to the end of it."""
        self.trodden: dict[str, set[str]] = {}
        """By region topics that somebody was giving up who stood still: another one may have come to the end."""
        self.pruned: set[str] = set()
        """Who worked for generations that were removed: nobody starts him again."""
        self.gaps: dict[str, set[str]] = {}
        """By region the topics whose copies stand still, and rightly."""
        self.asked: dict[Process, str] = {}
        """Of each who begins a copy anew: of which topic."""
        self.disturbed: dict[Process, set[str]] = {}
        """Mirrors, and who goes on here, that have lived while copies were given up, and of what."""
        self.mirrors: dict[str, Mirror] = {}
        self.printed: dict[Generation, Loss] = {}
        self.planned: set[Generation] = set()
        """Those that a switchover claimed."""
        self.shortened_ms = 0
        """When home was told to spare records for a shorter time; 0 before that."""
        self.event_ms = START_MS - START_MS % HOUR_MS
        self.losses = Losses(self.by_name)
        self.lines = Lines(self.by_name, self.book, self.losses, self.weather.amends)
        self.readers: dict[str, Reader] = {}
        self.operator = Operator(self)

    @property
    def now_ms(self) -> int:
        return self.by_name[HOME].log.now_ms

    @property
    def milestones(self) -> int:
        return sum(map(len, self.lines.streams.values()))

    def counted(self) -> Counter[str]:
        """What has happened, and what came of it."""
        home, away = [
            [one.generation for one in self.lines.claims(name) if one.origin and one.generation in promoted]
            for name, promoted in ((name, set(self.lines.promoted(name))) for name in (HOME, AWAY))
        ]
        arrived = sum(map(len, self.lines.arrived.values()))
        damaged = sum(link.damaged for link in self.links.values())
        came_of_it = {"arrival": arrived, "gone on": len(away), "gone back": len(home), "damaged answer": damaged}
        return self.faults + Counter(came_of_it | {"late event counted": len(self.lines.replays.counted)})

    def other(self, name: str) -> Region:
        return self.by_name[AWAY if name == HOME else HOME]

    # --- steps

    def apply(self, step: Step) -> None:
        """Raises Anomaly."""
        self.luck.set(step.luck)
        self._pass(_MS[self.luck() % len(_MS)])
        getattr(self, f"_do_{step.kind.replace('-', '_')}")(step.what)
        self.lines.look()

    def _pass(self, ms: int) -> None:
        for one in self.by_name.values():
            one.log.now_ms += ms

    def _do_run(self, what: str) -> None:
        slots = [one for one in self._slots() if one.startswith(what)]
        if slots:
            most = (12, 12, 60)[self.luck() % 3] * (1 if what in ("driver", "signal", "reader") else 4)
            self.go(self.live, slots[self.luck() % len(slots)], 1 + self.luck() % most)

    def _do_creep(self, what: str) -> None:
        """As `run`, a few calls only: two that somebody asks for at once meet between any two of theirs."""
        slots = [one for one in self.live if one.startswith(what)]
        if slots:
            self.go(self.live, slots[self.luck() % len(slots)], 1 + self.luck() % 8)

    def _do_events(self, _what: str) -> None:
        region = self.by_name[(HOME, HOME, AWAY)[self.luck() % 3]]
        if region.has(JOB.topic):
            for _ in range(1 + self.luck() % 4):
                self._produce(region, self.luck())

    def _do_old(self, _what: str) -> None:
        """An event of hours ago: of a window that is closed somewhere, and above the horizon or not."""
        region = self.by_name[(HOME, HOME, AWAY)[self.luck() % 3]]
        if region.has(JOB.topic):
            hours = 12 if self.weather.starts else 5
            self._produce(region, self.luck(), (1 + self.luck() % hours) * HOUR_MS)

    def _do_age(self, _what: str) -> None:
        """The events that follow are hours younger."""
        self.event_ms += (1 + self.luck() % 3) * HOUR_MS

    def _produce(self, region: Region, luck: int, age_ms: int = 0) -> None:
        at_ms = self.event_ms - age_ms - luck % (20 * 60_000)
        event = Event(KEYS[(luck >> 8) % len(KEYS)], at_ms, 1 + (luck >> 12) % 97)
        name = self.book.add(region.name, event)
        region.log.append((JOB.topic, (luck >> 20) % PARTITIONS), event.key.encode(), name)
        self.event_ms += (luck >> 22) % (10 * 60_000)

    def _do_marker(self, _what: str) -> None:
        for one in self.by_name.values():
            for _ in range(2):
                if one.log.markers:
                    one.log.write_marker(self.luck())

    def _do_kill(self, what: str) -> None:
        slots = [one for one in self.live if one.startswith(what)]
        if slots:
            self.faults[f"kill {what}"] += 1
            self.live.pop(slots[self.luck() % len(slots)]).kill()

    def _do_stall(self, what: str) -> None:
        slots = [one for one in self.live if one.startswith(what) and one not in self.stalled]
        if slots:
            slot = slots[self.luck() % len(slots)]
            self.faults[f"stall {what}"] += 1
            self.stalled[slot] = self.live.pop(slot)

    def _do_wake(self, _what: str) -> None:
        if self.stalled:
            slot = list(self.stalled)[self.luck() % len(self.stalled)]
            self.faults[f"zombie {slot.split()[0]}"] += 1
            self.foreign.add(slot)
            if slot.endswith(" resync"):
                self.trodden.setdefault(slot.split()[1], set()).add(self.asked[self.stalled[slot]])
            self.go(self.stalled, slot, 1 + self.luck() % 30)

    def _do_unknown(self, what: str) -> None:
        slots = [one for one in self.live if one.startswith(what)]
        if slots:
            self.faults[f"unknown {what}"] += 1
            self.live[slots[self.luck() % len(slots)]].lose_next_answer = True

    def _do_timeout(self, _what: str) -> None:
        for region in self.by_name.values():
            self.faults["transaction timed out"] += region.log.time_out()

    def _do_compact(self, _what: str) -> None:
        prefix = topics.changelog_prefix(JOB.name)
        for region in self.by_name.values():
            for topic in [one for one in region.log.topics if one.startswith(prefix)]:
                for number in range(len(region.log.topics[topic])):
                    gone = region.log.compact((topic, number), self._lag_ms(region), DELETE_RETENTION_MS)
                    self.faults["compacted"] += gone
        for region in self.by_name.values():
            if region.has(mirror_records.positions(JOB.name)):
                gone = region.log.compact((mirror_records.positions(JOB.name), 0), HOUR_MS, HOUR_MS)
                self.faults["positions compacted"] += gone

    def _do_shorten(self, _what: str) -> None:
        """In an outage of hours somebody lets compaction at home take more, and it does."""
        if not self.links[AWAY].cut:
            return
        settings = self.by_name[HOME].log.settings
        for topic in [one for one in settings if one.startswith(topics.changelog_prefix(JOB.name))]:
            settings[topic] = settings[topic] | {"min.compaction.lag.ms": str(SHORT_LAG_MS)}
            self.shortened_ms = self.shortened_ms or self.now_ms
        self.faults["lag shortened"] += 1
        self._pass(HOUR_MS)
        self._do_compact("")

    def _lag_ms(self, region: Region) -> int:
        # The cleaner rests first.
        shortened = region is self.by_name[HOME] and 0 < self.shortened_ms <= self.now_ms - CLEANER_RESTS_MS
        return SHORT_LAG_MS if shortened else MIN_COMPACTION_LAG_MS

    def _do_lose_tail(self, kind: str) -> None:
        """A partition's leader is gone for good, and the next one lacks what was acknowledged last."""
        if (found := self._place(kind)) is not None:
            name, place = found
            self.faults[f"lost tail: {kind}"] += self._lose(name, {place: 1 + self.luck() % 4}) > 0

    def _do_lose_much(self, kind: str) -> None:
        """As `lose_tail`, of any length."""
        if (found := self._place(kind)) is not None:
            name, (topic, number) = found
            end = self.by_name[name].log.topics[topic][number].end
            self.faults[f"lost much: {kind}"] += self._lose(name, {(topic, number): 1 + self.luck() % end}) > 0

    def _do_lose_power(self, _what: str) -> None:
        """A region's broker comes back older: each partition of every topic lacks another suffix of any length."""
        name = (HOME, AWAY)[self.luck() % 2]
        log, found = self.by_name[name].log, {}
        for topic, number in log.places():
            end = log.topics[topic][number].end
            if end and self.luck() % 4:
                found[topic, number] = 1 + self.luck() % (4 if self.luck() % 2 else end)
        self.faults["lost power"] += self._lose(name, found) > 1

    def _do_remake(self, kind: str) -> None:
        """Somebody deletes a topic, and makes another one of its name."""
        if (found := self._place(kind)) is not None:
            name, (topic, _) = found
            self.lines.before_loss(name)
            self.losses.lose_topic(name, topic, self._running())
            self.lines.tails_lost(name, [(topic, one) for one in range(len(self.by_name[name].log.topics[topic]))])
            self.faults[f"made again: {kind}"] += 1

    def _place(self, kind: str) -> tuple[str, Place] | None:
        """Somewhere in a region; None if nothing of the kind is there."""
        name = (HOME, AWAY)[self.luck() % 2]
        places = self.losses.places(name, kind)
        return (name, places[self.luck() % len(places)]) if places else None

    def _running(self) -> list[Process]:
        return [*self.live.values(), *self.stalled.values()]

    def _lose(self, name: str, records: Mapping[Place, int]) -> int:
        """Take records from the ends of partitions, at once. Returns how many partitions lost any."""
        self.lines.before_loss(name)
        lost = [self.losses.lose(name, place, count, self._running()) for place, count in records.items()]
        self.lines.tails_lost(name, records)
        return sum(map(bool, lost))

    def _do_leap(self, _what: str) -> None:
        self._pass((20_000, HOUR_MS, 13 * HOUR_MS, 30 * HOUR_MS)[self.luck() % 4])

    def _do_link(self, what: str) -> None:
        """Cut, slow, without the events, or well again, one way or both."""
        for name in ((HOME,), (AWAY,), (HOME, AWAY))[self.luck() % 3]:
            self.links[name].cut, self.links[name].slow = what == "cut", what == "slow"
            self.links[name].lags = JOB.topic if what == "lags" else ""
            self.cuts += what == "cut"
            self.faults[f"link {what}"] += 1

    def _do_failover(self, _what: str) -> None:
        self._ask("failover")

    def _do_switchover(self, _what: str) -> None:
        self._ask("switchover")

    def _do_operator(self, what: str) -> None:
        self.operator.ask((HOME, HOME, AWAY)[self.luck() % 3], what)

    def _do_prune(self, _what: str) -> None:
        """As `cutwater generation prune --with-forks`, with nothing kept for a time."""
        name = (HOME, HOME, AWAY)[self.luck() % 3]
        slot, region = f"ask {name} prune", self.by_name[name]
        if slot in self.live or not self.lines.streams[name]:
            return
        process = self.live[slot] = Process(slot, self.luck)
        cluster: Any = SimCluster(region.log, process)
        settings: Any = SimpleNamespace(keep_generations_hours=0, region=name, data_dir=Path("nowhere"))
        process.spawn(
            lambda: self._prune(region, GenerationPruning(cluster, JOB, settings, "", lambda: self.now_ms))
        )
        self.faults["prune"] += 1

    def _prune(self, region: Region, retiring: GenerationPruning) -> None:
        retiring.fence_others()
        for one in retiring.list_earlier(with_forks=True):
            if one.why_kept is None:
                self.faults["pruned"] += 1
                self.pruned |= {
                    f"{part} {region.name} {one.generation}" for part in ("driver", "signal", "reader")
                }
                retiring.remove(one)

    def _do_retention(self, _what: str) -> None:
        """A region's events go that its own drivers have read, whoever else has not."""
        region = self.by_name[(HOME, HOME, AWAY)[self.luck() % 3]]
        for place in region.own_places():
            read = [disk.read(place) for disk in region.disks.values()]
            claims = [parent_of(one).source_cut.offset(place) for one in self.lines.claims(region.name)]
            before = min([*read, *claims], default=0)
            if before > region.log.topics[place.topic][place.partition].first:
                self.faults["retention"] += 1
                region.log.truncate(place, before)

    def _do_anew(self, _what: str) -> None:
        """The first region's events are deleted, and another topic has their name: its own job is at its end."""
        home = self.by_name[HOME]
        # A copy that is begun anew would be of the one topic, and what has arrived of the other.
        beginning = any(one.endswith(" resync") for one in (*self.live, *self.stalled))
        renewed = beginning or AWAY in self.given_up or self._renewed(AWAY)
        if home.log.former or renewed or not self.lines.arrived[AWAY] or self.luck() % 4:
            return
        for where in (self.live, self.stalled):
            for slot in [one for one in where if one.startswith((f"driver {HOME}", f"ask {HOME}"))]:
                where.pop(slot).kill()
        self.left |= {f"driver {HOME} {one}": "its source is gone" for one in home.disks}
        self.faults["made anew"] += 1
        home.log.make_anew(JOB.topic)

    def _do_resync(self, _what: str) -> None:
        """Somebody begins a copy anew; one that was begun, and broken off, before all others."""
        name = (AWAY, AWAY, HOME)[self.luck() % 3]
        region, there = self.by_name[name], self.other(name)
        if any(one.startswith(f"ask {name} resync") for one in self.live):
            return
        copied = [JOB.topic, topics.milestones(JOB.name)]
        copied += [topics.changelog(JOB.name, one) for one in self.lines.promoted(there.name)]
        still = sorted(self.gaps.get(name, ()))
        topic = self.given_up.get(name) or (still or copied)[self.luck() % len(still or copied)]
        if there.log.former and topic == JOB.topic:
            return  # milestones of before have read another topic of the name
        if name in self.given_up or region.has(mirror_records.target(JOB.name, topic, there.name)):
            self._resync(name, topic)

    def _resync(self, name: str, topic: str) -> None:
        """As `cutwater mirror resync`."""
        slot, there = f"ask {name} resync", self.other(name).name
        process = self.live[slot] = Process(slot, self.luck)
        cluster: Any = SimCluster(self.by_name[name].log, process)
        self.given_up[name] = self.asked[process] = topic
        for where in (self.live, self.stalled):
            for one in [where[each] for each in where if each.split()[1] == name]:
                self._disturb(one, name)
        process.spawn(lambda: self._begin_anew(cluster, there, topic))
        self.faults["resync"] += 1

    def _begin_anew(self, cluster: Any, there: str, topic: str) -> None:
        """Whoever may not takes back what an earlier try has noted."""
        try:
            resync(cluster, JOB.name, there, topic, lambda: self.now_ms)
        except UsageError:
            with suppress(UsageError):
                withdraw(cluster, JOB.name, there, topic)
            raise

    def _disturb(self, one: Process, name: str) -> None:
        if name in self.given_up and one.slot.split()[0] in ("mirror", "ask"):
            self.disturbed.setdefault(one, set()).add(self.given_up[name])

    def _resynced(self, slot: str, error: BaseException | None) -> None:
        """Whoever comes to the end of it starts the mirror again."""
        name = slot.split()[1]
        if error is None or isinstance(error, UsageError) or self.losses:
            self.given_up.pop(name, None)
        if error is None:
            self.faults["resync done"] += 1
            self.gaps.pop(name, None)  # of another topic it is found again
            for one in [each for each in self.live if each.startswith(f"mirror {name}")]:
                self.live.pop(one).kill()

    # --- processes

    def known(self, region: Region) -> Candidates:
        found = Candidates()
        if region.has(topics.candidates(JOB.name)):
            place = (topics.candidates(JOB.name), 0)
            end = region.log.topics[place[0]][0].stable_end
            for one in region.log.committed(place, 0, end):
                found = found.after(protocol_records.decode(one.value or b""))  # type: ignore[arg-type]
        return found

    def _slots(self) -> list[str]:
        """Who may run: '<part> <region> <which>'."""
        found = [one for one in self.live if one.startswith("ask")]
        for region in self.by_name.values():
            claims = self.known(region).by_id
            for generation in [*([GENERATION] if region.name == HOME else []), *claims]:
                if region.log.former:
                    self.left[f"driver {region.name} {generation}"] = "its source is gone"
                found += [f"driver {region.name} {generation}", f"signal {region.name} {generation}"]
            if not (region.name == HOME and self.shortened_ms):  # they go by the lag that the protocol asks for
                found += [f"reader {region.name} {one}" for one in self.lines.promoted(region.name)]
            if self.other(region.name).has(topics.milestones(JOB.name)):
                found += [f"mirror {region.name} {part}" for part in (("a", "b") if self.weather.split else "a")]
        return [one for one in found if one not in self.left and one not in self.pruned]

    def ended(self, slot: str, error: BaseException | None, was_stalled: bool) -> None:
        part = slot.split(maxsplit=1)[0]
        if slot.endswith(" resync"):
            self._resynced(slot, error)
        if error is None:
            self.faults[f"done {part}"] += 1
        elif isinstance(error, CutwaterError) and self.losses.may_stop(error):
            require_place(slot, error)
            self._told(slot, error)
        elif isinstance(error, Concurrent | HeldUpError | UnavailableError):
            self.faults[f"{type(error).__name__} {part}"] += 1  # it is started again
        elif isinstance(error, Anomaly) or not isinstance(error, CutwaterError):
            raise error
        elif slot in self.pruned or self._was_disturbed:
            why = "of a generation removed" if slot in self.pruned else "beside a resync"
            self.faults[f"{type(error).__name__} {part} {why}"] += 1
        elif isinstance(error, FencedError | UsageError):
            self._left(slot, part, error, was_stalled)
        elif isinstance(error, DivergenceError) and part == "driver" and slot in self.foreign:
            self.faults["generation ended"] += 1
            if not was_stalled:
                self.left[slot] = str(error)
        else:
            raise Anomaly(FALSE_ALARM, f"{slot} has stopped: {error}")

    def _told(self, slot: str, error: CutwaterError) -> None:
        """Something is lost: whoever says so is not started again, but for whom somebody asks."""
        self.faults[f"told {slot.split(maxsplit=1)[0]}"] += 1
        if not slot.startswith("ask"):
            self.left[slot] = str(error)

    @property
    def _was_disturbed(self) -> bool:
        return Process.running in self.disturbed

    def _left(self, slot: str, part: str, error: FencedError | UsageError, was_stalled: bool) -> None:
        """Fenced, or told that it may not."""
        fenced = isinstance(error, FencedError)
        if not fenced and part not in ("ask", "driver"):
            raise Anomaly(FALSE_ALARM, f"{slot} has stopped: {error}")
        self.faults[f"{'fenced' if fenced else 'refused'} {part}"] += 1
        if part == "driver" and not fenced:
            self._require_overtaken(slot, error)
        if part in ("driver", "signal", "reader") and not was_stalled and slot not in self.stalled:
            self.left[slot] = str(error)

    def _require_overtaken(self, slot: str, error: CutwaterError) -> None:
        """A driver refuses a seed that compaction may have overtaken: is there anything above it at all?"""
        _, name, which = slot.split()
        claim = next(one for one in self.lines.claims(name) if str(one.generation) == which)
        if not self.known(self.by_name[name]).by_id[claim.generation].open:
            return  # it was given up meanwhile, and so may be what it begins with
        log, parent = self.by_name[name].log, parent_of(claim)
        if any(place.topic not in log.topics for place, _ in (*parent.changelog_cut, *parent.source_cut)):
            return
        if any(at < log.topics[place.topic][place.partition].first for place, at in parent.source_cut):
            return  # events behind it are gone
        if not any(True for place, cut in parent.changelog_cut for _ in log.committed(place, cut)):
            raise Anomaly(FALSE_ALARM, f"{slot} has stopped, and nothing stands above its seed: {error}")

    def start(self, slot: str) -> None:
        part, name, which = slot.split()
        region, process = self.by_name[name], Process(slot, self.luck)
        cluster: Any = SimCluster(region.log, process)
        self.live[slot] = process
        self._disturb(process, name)
        if part == "driver":
            generation = Generation.parse(which)
            disk = region.disks[generation]
            asking = Asking(self, process, name)
            job = self.weather.job
            RegionDriver(process, region.log, disk, self.book, lambda: self.now_ms, generation, asking, job)
        elif part == "signal":
            signal = CommitSignal(
                cluster,
                JOB.name,
                Generation.parse(which),
                lambda: self.now_ms,
                _Silent(),
                clock_s=lambda: self.now_ms / 1000,
                sleep=lambda _s: None,  # an open transaction stays open while this process waits
                event=lambda: SimEvent(process),
                returning=Asking(self, process, name),
            )
            process.spawn(signal.run)
        elif part == "reader":
            process.spawn(lambda: self._read(slot, cluster, Generation.parse(which)))
        else:
            process.spawn(lambda: self._mirror(slot, process, cluster, region, which))

    def _read(self, slot: str, cluster: Any, generation: Generation) -> None:
        """A program that reads whole milestones, and keeps what it was given with how far it came."""
        reader = self.readers.setdefault(slot, Reader())
        for one in from_changelog(
            JOB, cluster, generation, reader.token, lambda: False, None, 1_000_000, lambda: self.now_ms
        ):
            self.lines.look_at_reader(slot, reader, one)
            self.faults["read" if generation == GENERATION else "read of a claimed one"] += 1

    def _mirror(self, slot: str, process: Process, cluster: Any, region: Region, which: str) -> None:
        slots = {"a": (0, 1), "b": (2, 3)}[which] if self.weather.split else range(4)
        there = self.other(region.name)
        origin: Any = SimCluster(there.log, process, self.links[region.name])
        counted: Any = _Counted(self, region.name)
        context = MirrorContext(
            own=cluster,
            origin=Origin(origin),
            job=JOB.name,
            region=there.name,
            log=_Silent(),
            metrics=counted,
            now_ms=lambda: self.now_ms,
            clock_s=lambda: self.now_ms / 1000,
        )
        one = Mirror(context, JOB, slots=slots)
        self.mirrors[slot] = one
        one.run()

    # --- going on in the other region

    def _ask(self, how: str) -> None:
        known = [each.claim for one in self.by_name.values() for each in self.known(one).by_id.values()]
        claims = sum(bool(one.origin) for one in known)
        back = claims and self.lines.arrived[HOME] and self.luck() % 4
        name = HOME if back else AWAY
        if not self.lines.arrived[name] and self.luck() % 8:
            return  # it would be refused
        if (
            (name == HOME and self.by_name[HOME].log.former)
            or claims >= self.weather.claims
            or (how == "switchover" and self.links[name].cut)
        ):
            return
        slot = f"ask {name} {how}"
        if slot in self.live:
            return
        process = Process(slot, self.luck)
        region, there = self.by_name[name], self.other(name)
        cluster: Any = SimCluster(region.log, process)
        elsewhere: Any = SimCluster(there.log, process)
        one = Failover(cluster, JOB, name, there.name, lambda: self.now_ms)
        run = self._failover if how == "failover" else self._switchover
        process.spawn(lambda: run(process, one, elsewhere, name))
        self.live[slot] = process
        self._disturb(process, name)
        self.faults[how] += 1

    def _failover(self, _process: Process, one: Failover, _elsewhere: Any, _name: str) -> None:
        """As `cutwater failover --force`."""
        found = one.read_copies()
        try:
            again = one.earlier_claim(found)
        except UsageError:
            self._give_up(one)
            return
        if again is not None and again.done:
            return
        if again is None:
            one.fence()
            found = one.read_copies()
        self._go_on(one, found)

    def _give_up(self, one: Failover) -> None:
        """What an earlier try has claimed from another milestone, as the error says to do."""
        for candidate in one.claims.known().by_id.values():
            if candidate.open:
                with suppress(UsageError):  # promoted meanwhile
                    one.claims.abort(candidate.claim.generation, "by luck")
                    self.faults["abort"] += 1
                    self._back_to_work(candidate.claim.generation)

    def _back_to_work(self, given_up: Generation) -> None:
        """Who left because of a claim that was given up since is started again, as the error says to do."""
        for slot in [one for one, why in self.left.items() if f"taken over job {JOB.name}: {given_up}" in why]:
            del self.left[slot]

    def _switchover(self, process: Process, one: Failover, elsewhere: Any, name: str) -> None:
        """As `cutwater switchover`, without what it refuses."""
        one.read_copies()
        made = release(elsewhere, JOB, self.other(name).name, name, lambda: self.now_ms).made
        while (arrival := one.arrival()) is None or arrival.token != made.token or one.released() is None:
            process.pause()
        found = one.read_copies()
        again = one.earlier_claim(found)
        if again is None or not again.done:
            self._go_on(one, found)

    def _go_on(self, one: Failover, found: OriginCopies) -> None:
        one.prepare(UNREPLICATED)
        claim = one.claim(found, UNREPLICATED)
        self._print(claim, found)
        one.claims.promote(claim.generation)

    def _print(self, claim: Claim, found: OriginCopies) -> None:
        """What the command tells of the loss."""
        parent = origin_parent(claim)
        copied = {TopicPartition(JOB.topic, place.partition): offset for place, offset in claim.origin_cut}
        newest = max(parent, found.newest, key=lambda one: one.sequence)
        self.printed[claim.generation] = known_loss(parent, newest, copied, found.heard_ms)
        if found.released is not None and found.released.token == parent.token:
            self.planned.add(claim.generation)

    # --- the end

    def drain(self) -> None:
        """No more faults: all is copied, what was committed has arrived or was passed over, losses add up."""
        self._end_faults()
        self._settle()  # what was decided is seen: somebody may have died behind the note of a resync
        for name in self.by_name:
            if self._renewed(name):
                self._give_up_claims(name)
            self._finish_resyncs(name)
        self._mend_gaps()
        for name in self.by_name:
            self.operator.ask(name, "promote")
        for number in range(ROUNDS_MAX):
            self._round(number)
            trodden = any(self.gaps.get(name, set()) & topics for name, topics in self.trodden.items())
            if trodden and number < ROUNDS_MAX // 2:  # a copy that is read stays
                self._mend_gaps()
            if number > 3 and self._quiet() and (number > CATCH_UP_ROUNDS or not self.operator.waits()):
                break
        else:
            raise Anomaly(STUCK, f"after {ROUNDS_MAX} rounds without a fault: {self.behind()[:5]}")
        for slot in [one for one in self._slots() if one.startswith("mirror")]:
            whole = not self.losses and JOB.topic not in self.gaps.get(slot.split()[1], ())
            self.lines.look_at_copies(slot.split()[1], whole)
        self._require_told()
        self._losses()

    def _end_faults(self) -> None:
        for slot in list(self.stalled):
            self.stalled.pop(slot).kill()
        for slot in [one for one in self.live if one.startswith("ask")]:
            self.live.pop(slot).kill()
        for link in self.links.values():
            link.cut = link.slow = False
            link.lags = ""

    def _require_told(self) -> None:
        """Whose cut a loss is below says so with its next heartbeat. Who waits for what is lost says nothing."""
        for number in range(8 if self.losses.below else 0):
            if number == 4:
                self.losses.forgive()
            self._pass(HEARTBEAT_MS_MAX)
            self._round(number)
        if untold := self.losses.untold(self.left):
            raise Anomaly(UNNOTICED, f"{untold[0].text} is lost, and {untold[0].slot} goes on")

    def _mend_gaps(self) -> None:
        """Of a log that was cut a copy is begun anew, unless a generation here reads it: then it stays so."""
        for name in self.by_name:
            for slot in [one for one in self.live if one.startswith(f"mirror {name}")]:
                self.live.pop(slot).kill()  # and one that is started looks again
            if self.other(name).log.former:
                continue
            for topic in sorted(self.gaps.pop(name, ())):
                self.given_up[name] = topic
                self._finish_resync(name)

    def _give_up_claims(self, name: str) -> None:
        """A copy that is begun anew cannot be finished beside a claim that reads it, nor a claim be made of it."""
        region, there = self.by_name[name], self.other(name)
        process = self.live[f"ask {name} abort"] = Process(f"ask {name} abort", self.luck)
        one = Failover(SimCluster(region.log, process), JOB, name, there.name, lambda: self.now_ms)
        process.spawn(lambda: self._give_up(one))
        for _ in range(ROUNDS_MAX):
            self.go(self.live, f"ask {name} abort", 40)
            self._settle()
            if not process.alive:
                break
        for generation in [one for one, each in self.known(region).by_id.items() if not each.open]:
            slot = f"driver {name} {generation}"
            self.left[slot] = "it was given up"
            if slot in self.live:
                self.live.pop(slot).kill()

    def _finish_resyncs(self, name: str) -> None:
        """Of all topics: whoever stood still may have begun before, and behind, one that came to the end."""
        for topic in self._renewed(name):
            self.given_up[name] = topic
            self._finish_resync(name)
        self._finish_resync(name)

    def _renewed(self, name: str) -> list[str]:
        log, topic = self.by_name[name].log, mirror_records.positions(JOB.name)
        found = Positions()
        for one in log.committed((topic, 0)) if topic in log.topics else ():
            found.take(one.key or b"", one.value)
        return sorted(found.renewed(self.other(name).name))

    def _finish_resync(self, name: str) -> None:
        """The mirror has been ended, and nothing else runs meanwhile."""
        for slot in [one for one in self.live if one.startswith(f"mirror {name}")]:
            self.live.pop(slot).kill()
        for number in range(ROUNDS_MAX):
            if name not in self.given_up:
                return
            self.luck.set(number)
            if f"ask {name} resync" not in self.live:
                self._resync(name, self.given_up[name])
            self._do_timeout("")
            log = self.by_name[name].log
            while log.markers:
                log.write_marker(0)
            self.go(self.live, f"ask {name} resync", 40)
        if self.losses:
            return  # it waits for what is lost
        raise Anomaly(STUCK, f"{name}: a resync of {self.given_up[name]} never ends")

    def _round(self, number: int) -> None:
        self.luck.set(number)
        self._pass(1_000)
        self._settle()
        for slot in self._slots():
            self.go(self.live, slot, 40)
        self.lines.look()

    def _settle(self) -> None:
        """Transactions of the dead end, and all markers arrive."""
        self._do_timeout("")
        for region in self.by_name.values():
            while region.log.markers:
                region.log.write_marker(0)

    def _quiet(self) -> bool:
        ends = {name: [len(one.log.kept[p]) for p in list(one.log.kept)] for name, one in self.by_name.items()}
        before, self._ends = getattr(self, "_ends", None), ends
        return before == ends and not self.behind()

    def behind(self) -> list[str]:
        """What the mirrors have still to bring, or to announce."""
        found: list[str] = []
        if self.losses:
            return found  # what is lost may keep anybody waiting
        for slot in [one for one in self._slots() if one.startswith("mirror")]:
            still = self.gaps.get(slot.split()[1], set())
            found += [one for one in self.lines.behind(slot.split()[1]) if one.split("/")[0] not in still]
            if still:
                continue  # what reads there may wait for ever
            mirror = self.mirrors.get(slot) if slot.endswith(" a") else None  # who holds slot 0 announces
            waiting = mirror.arriving.ledger.pending if mirror else 0
            found += [f"{waiting} milestones wait"] if waiting else []
        return found

    def _losses(self) -> None:
        """Told when nobody writes any more: no process is here to end a transaction that a reader meets."""
        for slot in list(self.live):
            self.live.pop(slot).kill()
        self._settle()
        for name, region in self.by_name.items():
            process = Process("report", self.luck)
            own: Any = SimCluster(region.log, process)
            there: Any = SimCluster(self.other(name).log, process)
            # Who starts a generation of his own takes a job back that was released.
            taken_back = any(not one.origin for one in self.lines.claims(self.other(name).name))
            planned = set[Generation]() if taken_back else self.planned
            self.lines.look_at_loss(name, own, there, self.printed, planned, self.faults)
            self.lines.look_at_lists(name, own, self.faults)
