"""A plan of faults carried out on a running stack: load, faults and looks beside each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.events.registry import registry_for
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.chaos.plan import LINK, OF_STACKS, SLOW_DISK, ChaosPlan, Fault, LoadWish, unmade
from cutwater.core.chaos.recovery import Look, Reaction, reactions
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.load.load_draw import LoadDraw
from cutwater.core.monitoring.alerts import Alert
from cutwater.local.chaos.faults import make_fault, make_link_fault
from cutwater.local.chaos.observation import Observation
from cutwater.local.chaos.processes import service_processes
from cutwater.local.chaos.slow_disk import require_tracer
from cutwater.local.chaos.span import Span
from cutwater.local.chaos.target import ChaosTarget, Make
from cutwater.local.link import Link
from cutwater.local.running_file import RunningStack
from cutwater.operations.load_sender import LoadPlan, send_load

Say = Callable[[str], None]
_LOAD = "the load"
TICK_S = 0.2
LONGER_S = 60.0
JOIN_S, UNDO_S = 10.0, 150.0
"""For the load, and for a fault, whose containers may be slow to continue. A load in progress ends with the
process."""


@dataclass(frozen=True)
class ChaosResult:
    plan: ChaosPlan
    looks: Sequence[Look]
    reactions: Sequence[Reaction]
    alerts: dict[str, Alert]
    """Every alert that was active, by kind and part."""
    processes: dict[int, int]
    """How many processes had the fault, by its number in the plan."""
    produced: int
    """Events of the load; each was acknowledged."""
    caught_up: bool
    """Whether everything that was produced is in a milestone."""


@dataclass
class _Running:
    """What the threads have found so far."""

    processes: dict[int, int] = field(default_factory=dict)
    produced: int = 0
    errors: list[Exception] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    """Set if the run is ended early: no fault may stay."""


@dataclass(frozen=True)
class OtherRegion:
    """A region that copies the job."""

    link: Link
    """Its way to this one."""
    arrived_ms: Callable[[], int]
    """Returns when its newest arrival was committed; 0 without one. Raises CutwaterError if it does not answer."""


def faults_of_stack(plan: ChaosPlan, stack: RunningStack, other: OtherRegion | None = None) -> Make:
    """Return what makes faults on the processes of this stack, and on the link to another region.

    Raises UsageError for a fault of a link without another region, and for one that only containers have.
    Raises MachineError if the plan slows a disk and this machine has no strace.
    """
    of_link = [one for one in plan.faults if one.process == LINK]
    if of_link and other is None:
        raise UsageError(f"'{of_link[0]}' is a fault of the link to another region: 'make rehearse' has one")
    if wrong := unmade([one for one in plan.faults if one.process != LINK], OF_STACKS):
        raise UsageError(f"'{wrong}' is a fault of containers: name their project with --compose")
    if any(one.kind == SLOW_DISK for one in plan.faults):
        require_tracer()

    def make(fault: Fault, span: Span) -> int:
        if other and fault.process == LINK:
            return make_link_fault(fault, other.link, span)
        return make_fault(fault, lambda: service_processes(stack).get(fault.process, []), span)

    return make


def run_chaos(
    plan: ChaosPlan,
    target: ChaosTarget,
    make: Make,
    job: Job,
    settings: Settings,
    say: Say,
    arrived_ms: Callable[[], int] | None = None,
) -> ChaosResult:
    """Carry the plan out and wait until the job has read everything. Returns what was observed.

    `arrived_ms`: as of `OtherRegion`. Raises UnavailableError if a fault could not be made, or an event of the
    load was not acknowledged.
    """
    state = _Running()
    with Observation(target.cluster, job, arrived_ms) as seen:
        threads = [
            _thread(f"'{fault}'", state, _of_fault(number, fault, make, seen, state, say))
            for number, fault in enumerate(plan.faults)
        ]
        if plan.load:
            threads.append(
                _thread(_LOAD, state, partial(_send, plan.load, plan, target.cluster, job, settings, state))
            )
        for one in threads:
            one.start()
        try:
            _wait(lambda: bool(state.errors) or _is_over(plan, seen, threads), plan.seconds)
        finally:
            state.ended.set()
            for one in threads:
                one.join(JOIN_S if one.name == _LOAD else UNDO_S)
        if state.errors:
            raise state.errors[0]
        _raise_unended(threads)
        _raise_unmade(plan, state)
        say("waiting for the last milestone")
        caught_up = _wait(lambda: _has_read_all(seen.look()), plan.recovery_s)
        seen.look()
    return ChaosResult(
        plan, seen.looks, reactions(plan, seen.looks), seen.alerts, state.processes, state.produced, caught_up
    )


def _is_over(plan: ChaosPlan, seen: Observation, threads: Sequence[threading.Thread]) -> bool:
    return seen.now_s >= plan.seconds and not any(one.is_alive() for one in threads)


def _raise_unended(threads: Sequence[threading.Thread]) -> None:
    for one in threads:
        if one.is_alive():
            raise UnavailableError(f"{one.name} has not ended, so its result is not known: do the brokers answer?")


def _thread(name: str, state: _Running, work: Callable[[], None]) -> threading.Thread:
    def run() -> None:
        try:
            work()
        except Exception as error:  # any: nobody else is told
            state.errors.append(error)

    return threading.Thread(target=run, name=name, daemon=True)


def _of_fault(
    number: int, fault: Fault, make: Make, seen: Observation, state: _Running, say: Say
) -> Callable[[], None]:
    def work() -> None:
        if state.ended.wait(max(0.0, fault.at_s - seen.now_s)):
            return
        say(f"{seen.now_s:5.0f} s: {fault}")
        state.processes[number] = make(fault, Span(seen.began_s + fault.end_s, state.ended))
        if fault.for_s:
            say(f"{seen.now_s:5.0f} s: {fault.kind.replace('_', ' ')} {fault.process} is over")

    return work


def _send(
    wish: LoadWish, plan: ChaosPlan, cluster: Cluster, job: Job, settings: Settings, state: _Running
) -> None:
    draw = LoadDraw(job, wish.skew, Random(wish.seed), wish.flaws, wish.move_hot_keys_s)
    # Brokers that are away are part of the plan.
    writer = EventWriter(cluster, job, registry_for(job, settings), wait_s=plan.recovery_s + plan.seconds)
    sent = send_load(writer, draw, LoadPlan(wish.profile, plan.seconds), lambda _count: None)
    state.produced = sent.events


def _wait(done: Callable[[], bool], planned_s: float) -> bool:
    """Wait until it is done, at most three times as long as is planned, and a minute."""
    deadline = time.monotonic() + 3 * planned_s + LONGER_S
    while time.monotonic() < deadline:
        if done():
            return True
        time.sleep(TICK_S)
    return False


def _has_read_all(newest: Look) -> bool:
    return newest.answers and newest.read >= newest.produced


def _raise_unmade(plan: ChaosPlan, state: _Running) -> None:
    for number, fault in enumerate(plan.faults):
        if not state.processes.get(number):
            raise UnavailableError(f"'{fault}' at {fault.at_s:g} s was not made: {fault.process} did not run")
