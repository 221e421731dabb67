"""The way between two regions breaks in the middle of copying, under load: told meanwhile, and gone on by itself.

Each fault is seen to have happened, by what the link has counted. Afterwards each record is here once, and each
arrival holds what its milestone says, compared without the mirror's code (`loaded.require_copied`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.cli.regions.test_mirror_verbs import call
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.local.link import FROM_BROKER, TO_BROKER, Link
from support.kafka.links import Linked
from support.regions.loaded_origin import loaded, require_copied
from support.regions.mirroring import Events, Running, arrivals, epoch, mirroring, wait_arrived
from support.views.changelogs import Writing, make_job, until

PATIENCE_S = 150.0
"""A client gives a connection up that answers nothing for 40 s (aiokafka) or 60 s (librdkafka)."""
DELAY_S = 0.08


@pytest.fixture
def writing(linked: Linked, tmp_path: Path) -> Iterator[Writing]:
    made = Writing(linked.near, make_job(tmp_path)[0])
    yield made
    made.close()


def rounds(mirror: Running) -> float:
    return mirror.metrics.registry.get_sample_value("cutwater_mirror_rounds_total") or 0.0


def held(*ways: str) -> Callable[[Link], None]:
    def fault(link: Link) -> None:
        link.held = frozenset(ways)

    return fault


def refused(link: Link) -> None:
    link.refuses = True
    link.cut()


def fragile(link: Link) -> None:
    link.fragile = 40_000


FAULTS: dict[str, tuple[Callable[[Link], None], Callable[[Link], int]]] = {
    "cut": (Link.cut, lambda link: link.cut_connections),
    "refused": (refused, lambda link: link.refused),
    "fragile": (fragile, lambda link: link.cut_connections),
    "questions held back": (held(TO_BROKER), lambda link: link.held_bytes),
    "answers held back": (held(FROM_BROKER), lambda link: link.held_bytes),
    "both held back": (held(TO_BROKER, FROM_BROKER), lambda link: link.held_bytes),
    "half open": (Link.half_open, lambda link: link.swallowed_bytes),
}
"""By name: how it begins, and what the link has counted of it."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_middle(
    broker: Any, linked: Linked, link: Link, writing: Writing, tmp_path: Path, name: str
) -> None:
    begin, count = FAULTS[name]
    job, events = writing.job, Events(writing)
    with mirroring(broker.cluster, linked.far, job) as mirror, loaded(writing, events) as load:
        wait_arrived(mirror, broker.cluster, job, 3)
        before, at = count(link), load.sequence
        begin(link)
        mirror.until(lambda: count(link) > before, f"the fault: {name}")
        _require_told(broker.cluster, linked, tmp_path / f"{job.name}.yaml")
        seen = rounds(mirror)
        mirror.until(lambda: rounds(mirror) > seen + 2, "rounds meanwhile")
        mirror.until(lambda: load.sequence > at + 30, "thirty milestones meanwhile")
        link.mend()
        last = load.end()
        _wait_for_all(mirror, lambda: arrivals(broker.cluster, job)[-1].sequence == last)
        assert mirror.mirror.copier.stopped == {}
    require_copied(writing, broker.cluster)


@pytest.mark.slow
def test_a_way_that_is_closed_is_said(broker: Any, linked: Linked, link: Link, writing: Writing) -> None:
    """Nothing fails by it, so nothing else would say why nothing comes; and not twenty times a second."""
    job, events = writing.job, Events(writing)
    epoch(writing, events, 1)
    with capture_logs() as lines, mirroring(broker.cluster, linked.far, job) as mirror:
        wait_arrived(mirror, broker.cluster, job, 0)
        lines.clear()
        refused(link)
        mirror.until(lambda: _waiting(lines), "the line")
        seen = rounds(mirror)
        mirror.until(lambda: rounds(mirror) > seen + 20, "rounds meanwhile")
        said = [one["reason"] for one in _waiting(lines)]
        assert len(said) == len(set(said)), said
        link.mend()


def _waiting(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for one in lines if one["event"] == "waiting" and "does not answer" in one["reason"]]


def _require_told(own: Any, linked: Linked, job_file: Path) -> None:
    """How far behind the replica is, in bounded time; of the origin what it says, or that it is not known."""
    done = call(own, linked.far, "regions", str(job_file), "--json")
    assert done.returncode == 0, done.stderr
    (replica,) = json.loads(done.stdout)["replicas"]
    assert replica["token"].startswith("g1-local-00000000:")
    assert replica["age_ms"] >= 0
    assert replica["records"] is None or replica["records"] >= 0


def _wait_for_all(mirror: Running, done: Callable[[], object]) -> None:
    def reached() -> object:
        if mirror.error is not None:
            raise mirror.error
        return done()

    until(reached, f"everything to arrive; stopped: {mirror.mirror.copier.stopped}", PATIENCE_S)


@pytest.mark.slow
def test_a_long_way_keeps_a_bounded_lag(broker: Any, linked: Linked, link: Link, writing: Writing) -> None:
    """80 ms in each direction: the lag in milestones does not grow while they go on being written."""
    job, events = writing.job, Events(writing)
    link.delay_s = DELAY_S
    lags: list[int] = []
    with mirroring(broker.cluster, linked.far, job) as mirror, loaded(writing, events) as load:
        wait_arrived(mirror, broker.cluster, job, 1)
        while len(lags) < 60:
            at = load.sequence
            lags.append(at - arrivals(broker.cluster, job)[-1].sequence)
            mirror.until(lambda at=at: load.sequence > at, "the next milestone")
        last = load.end()
        _wait_for_all(mirror, lambda: arrivals(broker.cluster, job)[-1].sequence == last)
    assert link.delayed_bytes > 0
    assert max(lags[30:]) <= 30, lags
    require_copied(writing, broker.cluster)


STARTS_MAX = 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cut", "fragile", "answers held back", "half open"])
def test_the_own_region_is_cut_off(linked: Linked, link: Link, origin: Cluster, tmp_path: Path, name: str) -> None:
    """The way to the brokers that it writes to: where an outcome is unknown it ends, and is started again."""
    begin, count = FAULTS[name]
    job, _ = make_job(tmp_path)
    writing = Writing(origin, job)
    with loaded(writing, Events(writing)) as load:

        def script() -> Iterator[None]:
            while not (found := arrived(linked.near, job)):
                yield
            before, at = count(link), load.sequence
            begin(link)
            while count(link) == before or load.sequence < at + 20:
                yield
            link.mend()
            last = load.end()
            while found != last:
                found = arrived(linked.near, job)
                yield

        steps = script()
        for _ in range(STARTS_MAX):
            try:
                with mirroring(linked.far, origin, job) as mirror:
                    _wait_for_all(mirror, lambda: next(steps, True))
                    break
            except UnavailableError:
                pass
        assert next(steps, True), "it has ended again and again"
    require_copied(writing, linked.near)
    writing.close()


def arrived(own: Cluster, job: Job) -> int:
    """The newest arrival's sequence."""
    try:
        return max((one.sequence for one in arrivals(own, job)), default=0)
    except AssertionError:  # the mirror has not made the topic yet
        return 0
