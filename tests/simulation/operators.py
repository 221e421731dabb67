"""What somebody asks for of a region's own generations: late replays, starts, rollbacks, promotions, withdrawals.

Each is a process of its own, which may be killed at any call, and asked for again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cutwater.adapters.topics.candidates import parent_of
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.generations.start_state import require_kept
from cutwater.core.protocol.generation import Generation
from cutwater.operations.generations import late_replay
from cutwater.operations.generations.claims import Claims
from cutwater.operations.generations.late_replay import LateFilter
from cutwater.operations.generations.parent_changelog import kept_behind
from cutwater.operations.generations.requests import GenerationRequest, Planned
from simulation.clients import SimCluster
from simulation.job import KEYS
from simulation.processes import Process

if TYPE_CHECKING:
    from simulation.regions import Regions

ALL = LateFilter(None, None, None)


class Operator:
    """Of one history."""

    def __init__(self, world: Regions) -> None:
        self._world = world

    def ask(self, name: str, what: str) -> None:
        """Let a region's operator begin with something, unless he is at it."""
        world, slot = self._world, f"ask {name} {what}"
        if not world.weather.starts or slot in world.live or not world.lines.streams[name]:
            return
        if (run := self._asked(name, what)) is None:
            return
        process = world.live[slot] = Process(slot, world.luck)
        cluster: Any = SimCluster(world.by_name[name].log, process)
        claims = Claims(cluster, world.weather.job, name, lambda: world.now_ms)
        process.spawn(lambda: run(cluster, claims))
        world.faults[f"asked: {what}"] += 1

    def waits(self) -> bool:
        """Is a generation of a region's own still to be promoted, and somebody works for it?"""
        world = self._world
        for name in world.by_name if world.weather.starts else ():
            known = world.known(world.by_name[name])
            stream = world.lines.streams[name]
            asked = known.promoting_behind(stream[-1].milestone) if stream else None
            if asked is not None and not asked.claim.origin:
                slots = {f"{part} {name} {asked.claim.generation}" for part in ("driver", "signal")}
                if not slots & world.left.keys():
                    return True
        return False

    def _asked(self, name: str, what: str) -> Callable[[Any, Claims], object] | None:
        """What the process does; None if there is nothing to do it with."""
        world, luck = self._world, self._world.luck()
        if what in ("promote", "abort"):
            return self._of_candidate(name, what, luck)
        known = [one for one in world.known(world.by_name[name]).by_id.values() if not one.claim.origin]
        again = bool(known) and luck % 3 == 0  # which may be the same request
        if len(known) >= world.weather.starts and not again:
            return None
        another = luck % 4 == 1
        if what == "replay":
            if not world.lines.streams[name][-1].late and luck & 8:
                return None  # it would be refused
            wanted = self._filter(name, luck >> 4)
            return lambda cluster, claims: self._replay(cluster, claims, wanted, another)
        stream = world.lines.streams[name]
        token = str(stream[max(0, len(stream) - 1 - (luck >> 8) % 4)].milestone.token)
        back = what == "rollback"
        words = GenerationRequest(token if back else None, None, back, "by luck", another)
        return lambda cluster, claims: self._claim(cluster, claims, words)

    def _filter(self, name: str, luck: int) -> LateFilter:
        """Of all late events, of a key, or of some epochs."""
        stream = self._world.lines.streams[name]
        one = stream[max(0, len(stream) - 1 - (luck >> 4) % 8)].milestone
        some = (ALL._replace(key=KEYS[luck % len(KEYS)]), ALL._replace(since=str(one.token)))
        return (ALL, ALL, *some, ALL._replace(epoch=one.epoch))[(luck >> 8) % 5]

    def _replay(self, cluster: Any, claims: Claims, wanted: LateFilter, another: bool) -> None:
        """As `cutwater late replay`."""
        plan = late_replay.plan_late_replay(cluster, self._world.weather.job, wanted, None)
        words = GenerationRequest(str(plan.parent.token), None, False, "late events", another, plan.opened)
        planned = self._claim(cluster, claims, words)
        self._world.faults["late replay again" if planned.again else "late replay"] += 1
        if not planned.again and wanted.epoch is None and wanted.since is None:
            self._world.lines.replays.asked[planned.claim.generation] = wanted.key

    def _claim(self, cluster: Any, claims: Claims, words: GenerationRequest) -> Planned:
        def require(planned: Planned) -> None:
            if not (planned.begun or planned.done):
                parent = parent_of(planned.claim)
                claims.require_kept(planned.claim)
                require_kept(parent, kept_behind(cluster, parent.source_cut))

        planned = claims.ask(words, UNREPLICATED, require)
        self._world.faults["started"] += 1
        return planned

    def _of_candidate(self, name: str, what: str, luck: int) -> Callable[[Any, Claims], object] | None:
        """Mostly of the newest."""
        world = self._world
        done = set(world.lines.promoted(name))
        found = [
            generation
            for generation, one in world.known(world.by_name[name]).by_id.items()
            if one.open and not one.claim.origin and generation not in done
        ]
        if not found:
            return None
        which = found[-1 - (luck % 4 == 0 and len(found) > 1)]
        return lambda _cluster, claims: _end(claims, which, what)


def _end(claims: Claims, which: Generation, what: str) -> None:
    if what == "promote":
        claims.promote(which)
    else:
        claims.abort(which, "by luck")
