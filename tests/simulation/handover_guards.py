"""The guards of an output that goes from one generation to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from cutwater.commit_signal import promotion
from cutwater.core.generations import candidates
from cutwater.core.output import position
from cutwater.core.output.handover import Handover
from cutwater.core.output.position import NEVER_MS, Published
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Committed
from cutwater.publisher import transaction
from cutwater.publisher.handover.handover import HandoverRunner
from cutwater.publisher.handover.state_diff import DifferenceSource
from cutwater.publisher.handover.state_stores import StateStores
from cutwater.publisher.transaction import OutputWriter, Transaction
from cutwater_spark.epoch.row_proof import ProvedRows
from simulation.checker import (
    ABORTED_READ,
    FALSE_ALARM,
    GAP,
    INVERSION,
    LOST_WRITE,
    PARTIAL,
    REPEATED_FINAL,
    SAID_AGAIN,
    UNNOTICED,
)
from simulation.generations import generation_of
from simulation.guards import Guard
from simulation.histories import Climate
from simulation.holes import off, own_ids
from simulation.job import HOUR_MS, JOB
from simulation.outputs import last_end
from simulation.scenes import OtherwiseRun, Scene, is_within
from simulation.world import Profile, Step

_source = DifferenceSource.__init__
_after = position.after
_write = OutputWriter.write


def from_the_first_row(self: DifferenceSource, *args: Any, begun: int = 0, **named: Any) -> None:
    """Whatever is published of the difference already."""
    _source(self, *args, **named)


def of_this_milestone(at: Published, plan: Any, part: Any) -> Published:
    """What was closed before a rollback is forgotten."""
    moved = _after(at, plan, part)
    return replace(moved, closed_ms=plan.to.milestone.watermark_ms) if part.last else moved


def whatever_it_has_read(candidate: Any, _claim: Any, _last: Any) -> str | None:
    return None if candidate else "it has no milestone yet"


def nothing_published(*_args: Any) -> None:
    """The published state is not looked for."""


def not_noted(_states: Any, store: Any, _generation: Any) -> Any:
    """Who opens a store notes no row that is written to it."""
    return store


def position_first(self: OutputWriter, one: Transaction) -> None:
    """Of a difference the position is written in a transaction before its rows."""
    real = self._writer.write_all

    def apart(batches: Sequence[Any]) -> None:
        real(batches[-1:])
        real(batches[:-1])

    with patch.object(self._writer, "write_all", apart if isinstance(one.plan, Handover) else real):
        _write(self, one)


def promoted_behind(luck: int) -> Scene:
    """A publisher of the first generation, and behind it another one, which has closed windows since: finals."""
    scene = Scene(Profile(generations=True, final=True, part_rows=1), luck)
    world = scene.world
    for _ in range(3):
        scene.events()
    scene.run("driver", lambda: scene.told(Committed, 0, 1))
    scene.run("signal", lambda: scene.milestones() == 1)
    scene.run("publisher", lambda: last_end(world.log) == 1)
    scene.settle()
    world.apply(Step("claim"))
    scene.settle()
    assert world.generations is not None
    driver, signal = world.generations.slots("driver")[-1], world.generations.slots("signal")[-1]
    commits = world.checker.disks[generation_of(driver)].commits
    for epoch in range(4):
        scene.run(driver, lambda: epoch in commits)  # noqa: B023 - it is asked at once
        world.event_ms += 3 * HOUR_MS // 2
        scene.events()
    scene.run(signal, lambda: scene.candidates() >= 3)
    scene.settle()
    world.apply(Step("promote"))
    scene.events()
    scene.run(driver, lambda: 4 in commits)
    scene.run(signal, lambda: scene.milestones() == 2)
    return scene


def zombie_of_the_difference(luck: int) -> Scene:
    """A stalls before it commits a part of the difference; B publishes it whole; A wakes."""
    scene = promoted_behind(luck)
    scene.run("publisher", lambda: is_within(scene, "publisher", "commit_transaction"))
    scene.stall("publisher")
    scene.run("publisher", lambda: last_end(scene.world.log) > 1)
    with suppress(OtherwiseRun):  # it ends without a commit, if it is fenced
        scene.run("publisher", lambda: not scene.world.stalled, stalled=True)
    return scene


def killed_in_a_difference(luck: int) -> Scene:
    """A publisher dies once its position is within the difference."""
    scene = promoted_behind(luck)
    place = scene.world.log.topics[topics.published(JOB.name)][0]
    before = place.stable_end
    scene.run("publisher", lambda: place.next(before, committed=True) is not None)
    if last_end(scene.world.log) > 1:
        raise OtherwiseRun("the difference has one part")
    scene.world.apply(Step("kill", "publisher"))
    return scene


_WRONG = frozenset({LOST_WRITE, ABORTED_READ, PARTIAL, SAID_AGAIN})


def _of(*, weights: Mapping[str, float] | None = None, **profile: Any) -> Climate:
    calm = dict.fromkeys(("abort", "prune", "lose-store", "leap", "roll-back", "late-row"), 0.0)
    return Climate({"generations": True, **profile}, {**calm, **(weights or {})})


def no_parent() -> AbstractContextManager[Any]:
    """Before its first barrier a generation has no evidence of the source."""
    nothing = property(lambda _self: None, lambda _self, _parent: None)
    return patch.object(ProvedRows, "parent", nothing, create=True)


HANDOVER_GUARDS = (
    Guard(
        "a candidate has caught up",
        "an output that goes back with a promotion",
        "I3",
        off(promotion, "promotion_delay", whatever_it_has_read),
        _of(weights={"promote": 10.0, "events": 12.0}),
        frozenset({INVERSION}),
    ),
    Guard(
        "a difference to the published state",
        "rows that vanish with a rollback, and those that are as they were",
        "I4",
        off(HandoverRunner, "_old", nothing_published),
        _of(),
        _WRONG,
    ),
    Guard(
        "what is written behind a comparison ahead is compared",
        "rows that the output lacks after a promotion",
        "I4",
        off(StateStores, "_noting", not_noted),
        _of(preload=True, weights={"claim": 5.0}),
        _WRONG,
    ),
    Guard(
        "a difference goes on where it ended",
        "rows of a difference that a killed publisher had written, once more",
        "I4",
        off(DifferenceSource, "__init__", from_the_first_row),
        killed_in_a_difference,
        frozenset({REPEATED_FINAL, PARTIAL, *_WRONG}),
    ),
    Guard(
        "the position moves with the difference",
        "a difference of which nothing is written, and the position is behind it",
        "I4",
        off(OutputWriter, "write", position_first),
        killed_in_a_difference,
        frozenset({GAP, INVERSION, FALSE_ALARM, *_WRONG}),
    ),
    Guard(
        "fencing at a hand-over",
        "a difference that is written again by who stood still before its commit",
        "I4",
        own_ids("publisher_id"),
        zombie_of_the_difference,
        frozenset({INVERSION, FALSE_ALARM, PARTIAL}),
    ),
    Guard(
        "a closed window is corrected",
        "finals of windows that were final before a rollback",
        "I4",
        off(HandoverRunner, "_published_up_to_ms", lambda *_args: NEVER_MS),
        _of(final=True, weights={"age": 3.0, "claim": 5.0}),
        frozenset({REPEATED_FINAL}),
    ),
    Guard(
        "what was closed stays known",
        "finals of windows that a rollback opens, and that close again",
        "I4",
        off(transaction, "after", of_this_milestone),
        _of(final=True, weights={"age": 3.0, "claim": 5.0}),
        frozenset({REPEATED_FINAL}),
    ),
    Guard(
        "a candidate's parent stands on the stream",
        "a generation that goes on from a milestone that the stream has lost",
        "I3",
        off(candidates, "_gone_from_stream"),
        Climate(
            {"generations": True},
            {"lose-tail:" + topics.milestones(JOB.name): 2.0, "lose-power": 0.0, "make-anew": 0.0, "claim": 5.0},
        ),
        frozenset({GAP, ABORTED_READ, LOST_WRITE}),
    ),
    Guard(
        "events that the parent counts are still there",
        "a generation whose source has lost events after its seed, and before its first barrier",
        "I2",
        no_parent,
        _of(weights={"lose-tail:" + JOB.topic: 2.0, "claim": 5.0, "events": 12.0}),
        frozenset({UNNOTICED, LOST_WRITE, ABORTED_READ}),
    ),
)
