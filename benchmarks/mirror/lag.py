"""The second part of B4: how far a copy is behind a steady stream, over a link that takes its time."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.measurement import Sampler, cpu_between
from benchmarks.latency.delays import PERCENTILES
from benchmarks.mirror import mirrormaker
from benchmarks.mirror.contest import CUTWATER, POLL_S, STOP_S, mirror
from benchmarks.mirror.copies import contents, difference
from benchmarks.mirror.steady import TAIL_S, Observer, Stream, lags_ms, play
from benchmarks.publishing.contender import GENERATION
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.mirror_records import arrivals, target
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.jars import jars
from cutwater.local.machine.ports import LOOPBACK, free_ports
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy
from cutwater.local.processes.supervisor import Supervised, Supervisor

ROUND_TRIP_MS, WARM_S = 80, 10.0
HELD, ARRIVED = "held", "arrived"
FIRST_S = 120.0
"""How long a contender may take to begin."""


@dataclass(frozen=True)
class LagRun:
    """One contender that follows the stream for a while."""

    contender: str
    pair: int
    milestones: int
    """Those that were measured: written after the warm-up."""
    lags_ms: Mapping[str, Mapping[str, float]]
    """From readable in the origin until held, and until arrived, in the target: percentiles."""
    cpu_s: float
    exact: bool
    fault: str | None = None
    round_trip_ms: int = ROUND_TRIP_MS
    skipped: int = 0
    """Measured milestones without an arrival of their own: a later one's stands for them."""

    @property
    def last(self) -> Mapping[str, float]:
        """The lag that counts: until it is said, where it is said."""
        return self.lags_ms.get(ARRIVED) or self.lags_ms[HELD]


@dataclass
class Regions:
    """Two brokers, of which one is reached from the other region over a link."""

    origin: Cluster
    behind_link: Cluster
    own: Cluster
    folder: Path
    java: Path
    peer_jars: Sequence[Path] = field(default_factory=tuple)


@contextmanager
def regions(work: Path, java: Path, peer_jars: Sequence[Path]) -> Iterator[Regions]:
    """Running; ended and cleared at the end. The origin's second listener is advertised as the link's end."""
    shutil.rmtree(work, ignore_errors=True)
    folder, found = work.resolve(), jars("kafka")
    port, controller, inner, link = free_ports(4)
    at = f"PLAINTEXT://{LOOPBACK}:{port}"
    listeners = {
        "listeners": f"{at},LINK://{LOOPBACK}:{inner},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": f"{at},LINK://{LOOPBACK}:{link}",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LINK:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    there = Broker(folder / "origin", java, found, port=port, controller_port=controller, overrides=listeners)
    here = Broker(folder / "own", java, found)
    argv = [sys.executable, "-m", "benchmarks.mirror.link", str(link), str(inner), str(ROUND_TRIP_MS)]
    proxy = Child("link", argv, {}, folder / "link.log", RestartPolicy())
    with Supervisor(
        [there.supervised(), here.supervised(), Supervised(proxy, lambda: True, 10, 10)]
    ) as supervisor:
        supervisor.start(threading.Event())
        yield Regions(there.cluster, Cluster(f"{LOOPBACK}:{link}"), here.cluster, folder, java, peer_jars)
    shutil.rmtree(work, ignore_errors=True)


def follow(on: Regions, contender: str, pair: int, seconds: float) -> LagRun:
    """One contender, for so long after the warm-up. Raises UnavailableError when it does not begin, or ends."""
    stream = Stream(on.origin)
    ours = contender == CUTWATER
    targets = {one: target(stream.job.name, one, GENERATION.region) if ours else one for one in stream.names}
    told = arrivals(stream.job.name, GENERATION.region) if ours else None
    child = _child(on, contender, pair, list(stream.names))
    with Sampler(child.pids) as sampler, Observer(on.own, stream, targets, told) as observer:
        child.start()
        try:
            stream.write()
            _await(child, observer, stream, FIRST_S)
            begun_s = time.time()
            play(stream, WARM_S + seconds)
            ended_s = time.time()
            _await(child, observer, stream, TAIL_S)
        finally:
            child.stop(STOP_S)
    seen, from_s = observer.seen, begun_s + WARM_S
    measured = [one for one in stream.written if one.at_s >= from_s]
    lags = {HELD: percentiles(lags_ms(stream.written, seen.held, from_s))}
    if ours:
        lags[ARRIVED] = percentiles(lags_ms(stream.written, seen.arrived, from_s))
    wrong = _fault(on, stream, targets)
    return LagRun(
        contender=contender,
        pair=pair,
        milestones=len(measured),
        lags_ms=lags,
        cpu_s=cpu_between(sampler.samples, from_s, ended_s),
        exact=wrong is None,
        fault=wrong,
        skipped=sum(one.sequence not in seen.arrived for one in measured) if ours else 0,
    )


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """By nearest rank."""
    ordered = sorted(values)
    ranks = {name: max(0, -(-int(len(ordered) * share) // 100) - 1) for name, share in PERCENTILES.items()}
    return {name: round(ordered[rank], 1) for name, rank in ranks.items()}


def _child(on: Regions, contender: str, pair: int, names: Sequence[str]) -> Child:
    folder = on.folder / f"{contender}-{pair}"
    folder.mkdir(parents=True)
    if contender == CUTWATER:
        argv, env = mirror(on.behind_link, on.own, folder)
    else:
        argv = mirrormaker.program(contender, on.java, on.peer_jars, on.behind_link, on.own, names, folder)
        env = {}
    return Child(contender, argv, env, folder / "log.txt", RestartPolicy())


def _await(child: Child, observer: Observer, stream: Stream, patience_s: float) -> None:
    """Until all that is written has come."""
    deadline, last = time.monotonic() + patience_s, stream.written[-1].sequence
    while not observer.done(last):
        if child.poll() is not None or time.monotonic() > deadline:
            raise UnavailableError(f"{child.name} did not follow to milestone {last}. {child.describe_end()}")
        time.sleep(POLL_S)


def _fault(on: Regions, stream: Stream, targets: Mapping[str, str]) -> str | None:
    for name, many in stream.names.items():
        if wrong := difference(name, contents(on.own, targets[name], many), contents(on.origin, name, many)):
            return wrong
    return None
