"""Two regions on one machine, end to end: flow, death, failover, return, failback."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from examples.two_regions import EU, US, failback, failover, outage
from examples.two_regions.feeder import Feeder
from examples.two_regions.report import DemoReport
from examples.two_regions.scenario import InterruptedStory, Scene, Verify

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.runtime.terminal import Terminal
from cutwater.core.errors import UsageError
from cutwater.demo import flights
from cutwater.demo.run import INTERRUPTED
from cutwater.local.machine.disk_space import require_room
from cutwater.local.machine.extras import require
from cutwater.local.processes.supervisor import stop_on_signals
from cutwater.local.region import Region

MARK = "two-regions"
"""The file that marks a folder of the demonstration, which a later run may empty."""


@dataclass(frozen=True)
class Wanted:
    days: int
    per_second: int
    job_file: Path
    folder: Path
    keep: bool
    """Leave both regions running afterwards, until Ctrl-C."""


def run(wanted: Wanted, settings: Settings, console: Terminal, telling: DemoReport, verify: Verify) -> int:
    """Return 0 if every check passes, 1 if one fails, 130 if interrupted. Raise CutwaterError, with the step's
    name, if a step cannot be completed."""
    require("local", "pyspark", "jgo")
    empty(wanted.folder)
    require_room(wanted.folder, "the demonstration")
    job = load_job(wanted.job_file)
    events = flights.events(wanted.days)
    telling.print_line(f"{len(events):,} events of {wanted.days} days, {wanted.per_second:,} a second")
    feeder = Feeder(job, list(flights.flight_records(events)), wanted.per_second)
    with stop_on_signals() as stop, _regions(wanted, settings, telling) as (us, eu), feeder:
        scene = Scene(job, events, us, eu, feeder, telling, verify, stop)
        try:
            play(scene)
            if wanted.keep:
                _keep(scene, console)
        except InterruptedStory:
            return INTERRUPTED
    return 0 if telling.right else 1


def play(scene: Scene) -> None:
    outage.begin(scene)
    outage.flow(scene)
    outage.fall_behind(scene)
    seen = outage.die(scene)
    gone = failover.fail_over(scene)
    failover.feed_survivor(scene)
    stood = failback.come_back(scene, seen, gone)
    late = failback.await_rest(scene, gone, stood)
    failback.fail_back(scene, late)


def empty(folder: Path) -> None:
    """Empty the folder. Raise UsageError if it is not one of the demonstration."""
    if folder.exists():
        if any(folder.iterdir()) and not (folder / MARK).exists():
            raise UsageError(f"{folder} is not empty and not a demonstration's folder; name another --data-dir")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARK).touch()


@contextmanager
def _regions(wanted: Wanted, settings: Settings, telling: DemoReport) -> Iterator[tuple[Region, Region]]:
    us, eu = (
        Region(name, wanted.folder / name, wanted.job_file, settings, telling.print_line) for name in (US, EU)
    )
    try:
        yield us, eu
    finally:
        try:
            us.stop()
        finally:
            eu.stop()


def _keep(scene: Scene, console: Terminal) -> None:
    for region in (scene.us, scene.eu):
        console.print(f"{region.name}: broker {region.cluster.bootstrap}, API {region.api_url}", whole=True)
    console.print("both regions continue to run; Ctrl-C ends them")
    while not scene.stop.wait(1.0):
        for region in (scene.us, scene.eu):
            region.check()
