"""kill -9 at every named crash point, under load: what is shown afterwards is what pandas reckons, and whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cutwater.adapters.runtime.crash_points import POINTS
from cutwater.adapters.topics.commit_stream import Tail, published
from cutwater.client import committed
from cutwater.core.protocol import topics
from cutwater.core.protocol.chain import find_chain_faults
from cutwater.core.protocol.records import Heartbeat, Milestone
from cutwater.local.machine.ports import free_ports
from support import lineage
from support.crashes import Crashes
from support.harness import Flow, wait_until
from support.loading import Load, Rows, above, loaded, view_of
from support.regions.regional import FAILOVER_POINTS, RELEASE_POINTS
from support.views import snapshots
from support.views.rehydrating import SWITCH_POINTS

ELSEWHERE = {
    *("stream-taken", "promoted"),  # tests/broker/commit_signal/test_promotion.py
    "states-read",  # tests/broker/publisher/test_publisher_handover_crash.py
    "other-job",  # tests/broker/publisher/test_publisher_other_job.py
    # tests/broker/mirror/arrivals/test_arrivals_of_a_mirror.py, test_copier_crash_behind_link.py
    *("copy-read", "copy-written", "arrival-due", "arrival-written"),
    *(*FAILOVER_POINTS, *RELEASE_POINTS),  # tests/broker/operations/regions/test_failover_crash.py
}
ROOT = Path(__file__).parents[2]
DRIVER, SIGNAL = "cutwater_spark.driver", "cutwater.commit_signal"
VIEW, PUBLISHER = "cutwater.rehydrator", "cutwater.publisher"
"""Point by point: which service, at which of its times, and which of its processes."""
OF_DRIVER = [
    ("start-unwritten", 1, "process"),
    ("start-written", 1, "process"),
    ("rows-written", 2, "process"),
    ("rows-proved", 2, "process"),
    ("barrier-written", 2, "process"),
    ("commit-seen", 2, "process"),
    ("hint-written", 2, "process"),
    ("cleared", 1, "process"),
    ("transaction-open", 3, "process"),
    ("rows-written", 3, "jvm"),
    ("barrier-written", 3, "jvm"),
    ("barrier-written", 2, "both"),
]
OF_SERVICES = [
    (SIGNAL, "signal-read", 2),
    (SIGNAL, "transaction-open", 2),
    (SIGNAL, "milestone-written", 2),
    (VIEW, "rows-read", 2),
    (VIEW, "milestone-stored", 2),
    (PUBLISHER, "part-read", 2),
    (PUBLISHER, "transaction-open", 2),
    (PUBLISHER, "part-written", 2),
]


@pytest.fixture
def load(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Load]:
    with loaded(broker.cluster, unique("crash"), tmp_path) as made:
        yield made


def output_of(job: Flow) -> Rows:
    """The newest value per row of the output, of whole milestones, which must follow each other without a gap."""
    rows, next_sequence = {}, 1
    for whole in committed(job.job_file, cluster=job.cluster, idle_s=2.0):
        assert whole.first_sequence == next_sequence
        next_sequence = whole.token.sequence + 1
        rows.update({(one.key, one.window_start_ms): dict(one.values) for one in whole.changes})
    return rows


def driver_idle(job: Flow) -> None:
    """Wait until the driver says that there is nothing new: no further milestone comes."""
    wait_until(
        lambda: (beats := heartbeats(job)) and beats[-1].epoch == job.milestones()[-1][0].epoch, "an idle driver"
    )


def heartbeats(job: Flow) -> list[Heartbeat]:
    tail, found = Tail(job.cluster, topics.barriers(job.job.name)), []
    while new := list(tail.poll()):
        found += [one for one in new if isinstance(one, Heartbeat)]
    tail.close()
    return found


def everywhere(job: Flow, milestone: Milestone, port: int) -> bool:
    """Do view and output hold the milestone?"""
    try:
        shown = httpx.get(f"http://127.0.0.1:{port}/v1/milestone", timeout=20).json().get("sequence", 0)
    except httpx.HTTPError:
        return False
    there = published(job.cluster, job.job.name)
    return shown >= milestone.sequence and there is not None and there.sequence >= milestone.sequence


@pytest.mark.slow
def test_the_driver_dies_at_every_point(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """Each attempt dies at another point; the next one goes on, and state and chain are exact at the end.

    Recovered means that an epoch begun since is committed: by a later attempt, where the next one dies before.
    """
    job, crashes = load.job, Crashes(load.job)
    job.signal()
    load.more()
    dead = []
    for point, times, victim in OF_DRIVER:
        dead.append(crashes.arm(DRIVER, point, times, victim, CUTWATER_COLLECT_SHARE="0.1"))
        load.more()
        dead[-1].wait()
    job.driver()
    milestone = job.wait_committed()
    assert above(job.state(milestone), milestone) == load.expected(milestone)
    assert milestone.attempt >= len(OF_DRIVER)
    assert list(find_chain_faults(job.milestones())) == []
    for one in dead:
        since = next(found for found, _ in job.milestones() if found.epoch_started_ms > one.ended_s * 1000)
        crashes.note("driver", one, "exact", since.committed_ms / 1000)
    with capsys.disabled():
        print(f"\n{crashes.table()}")


@pytest.mark.slow
def test_each_service_dies_at_every_point(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """Under load from a driver that lives on: after all deaths view and output are exact and whole."""
    job, crashes, port = load.job, Crashes(load.job), free_ports(1)[0]
    job.driver()
    services = {module: job.start(module, CUTWATER_PORT=str(port)) for module in (SIGNAL, VIEW, PUBLISHER)}
    load.more()
    job.wait_committed()
    for module, point, times in OF_SERVICES:
        services[module].terminate()
        assert services[module].wait(30) == 0
        armed = crashes.arm(module, point, times, CUTWATER_PORT=str(port))
        load.more()
        armed.wait()
        services[module] = job.start(module, CUTWATER_PORT=str(port))
        milestone = job.wait_committed()
        wait_until(lambda wanted=milestone: everywhere(job, wanted, port), f"{milestone.token} after {point}")
        crashes.note(module.rpartition(".")[2].replace("_", "-"), armed, "exact")
    driver_idle(job)
    milestone = job.milestones()[-1][0]
    wait_until(lambda: everywhere(job, milestone, port), "the last milestone")
    services[VIEW].terminate()
    assert services[VIEW].wait(30) == 0
    want = load.expected(milestone)
    assert above(job.state(milestone), milestone) == want
    assert view_of(job) == want
    assert above(output_of(job), milestone) == want
    assert list(find_chain_faults(job.milestones())) == []
    with capsys.disabled():
        print(f"\n{crashes.table()}")


@pytest.mark.slow
def test_every_crash_point_is_in_the_matrix() -> None:
    """A point that nobody dies at proves nothing; each is in the code once."""
    dead = {point for point, *_ in OF_DRIVER} | {point for _, point, _ in OF_SERVICES}
    elsewhere = {*snapshots.POINTS, *SWITCH_POINTS, *lineage.POINTS, *ELSEWHERE}
    assert dead | elsewhere == set(POINTS)
    code = "".join(
        path.read_text("utf-8") for folder in ("services", "spark") for path in (ROOT / folder).rglob("*.py")
    )
    assert [point for point in POINTS if len(re.findall(rf'reach(ed)?\("{point}"\)', code)) != 1] == []
