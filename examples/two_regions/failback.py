"""The region's return: the rest of its events, the exact loss, and the failback."""

from __future__ import annotations

from examples.two_regions import EU, US, loss
from examples.two_regions.failover import Takeover, await_claim, copied_all, take_all, take_over
from examples.two_regions.oracle import Late, RegionEvents, read_events
from examples.two_regions.scenario import Scene

from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.records import Milestone
from cutwater.local.region import Region
from cutwater.operations.regions.forks import ForkReader


def come_back(scene: Scene, seen: Milestone, gone: Takeover) -> RegionEvents:
    """Start us's broker on its data; eu copies the rest of its events. Return the events that us held. `seen`: the
    newest milestone of us before it died."""
    us, eu, job = scene.us, scene.eu, scene.job
    with scene.report.step("us returns: its broker starts on its data, and the mirror continues"):
        scene.started(us.start_broker(scene.stop))
        stood = read_events(us.cluster, job, US, [])
        loss.report_loss(scene, seen, gone, stood)
        _leave(scene)
        scene.started(eu.start([eu.mirror(us)], scene.stop))
        scene.until(lambda: copied_all(scene, eu, us), "the rest of us's events to reach eu")
        scene.report.print_line("every event of us is in eu now")
        return stood


def _leave(scene: Scene) -> None:
    """Start us's driver and commit-signal again, as a service manager would: they ask eu first, and exit."""
    us, eu = scene.us, scene.eu
    before = scene.newest(us)
    members = us.writers(beside=eu)
    scene.started(us.start(members, scene.stop))
    scene.until(lambda: all(one.finished for one in members), "us's driver and commit-signal to exit")
    after = scene.newest(us)
    scene.report.check(
        "us's driver and commit-signal exit: eu has the job",
        after == before,
        f"the newest milestone of us is {after.token if after else 'none'}, as before",
    )


def await_rest(scene: Scene, gone: Takeover, stood: RegionEvents) -> list[Late]:
    """Let eu's generation process the rest: in its rows, or on its late list. Return that list."""
    with scene.report.step("eu processes the events that only us had"):
        late = take_all(scene, scene.eu, [])
        lost = stood.events.keys() - gone.copied
        listed = {one.event for one in late} & lost
        counted = len(lost) - len(listed)
        scene.report.fact("lost_counted", counted)
        scene.report.fact("lost_late", len(listed))
        scene.report.print_line(
            f"of the {len(lost):,} lost events {counted:,} are counted now, and {len(listed):,} were too late for "
            "their windows: they are on the late list"
        )
        _, exact = ForkReader(scene.eu.cluster, scene.job, US, scene.us.cluster).loss()
        scene.report.check(
            "'cutwater forks loss' reports the same",
            exact.exact and (exact.events, exact.late.events, exact.absent) == (len(lost), len(listed), 0),
            f"{exact.events:,} events were lost, {exact.late.events:,} were too late, {exact.absent} are absent",
        )
        return late


def fail_back(scene: Scene, late: list[Late]) -> None:
    """Release the job in eu, and continue it in us from the last milestone, without loss."""
    us, eu = scene.us, scene.eu
    with scene.report.step("failback: 'cutwater switchover' in us, from eu's last milestone"):
        scene.started(us.start([us.mirror(eu)], scene.stop))
        scene.until(lambda: copied_all(scene, us, eu), "eu's events to reach us")
        scene.until(lambda: scene.arrival_in(us, EU), "a milestone of eu to arrive in us")
        with us.verb("switchover", "--origin", EU, beside=eu) as verb:
            claim = await_claim(scene, us, verb)
            told = take_over(scene, us, claim, verb)
        scene.report.check(
            "nothing is lost in the failback", told["planned"], f"us continues from {told['parent']}"
        )
        scene.feeder.into(US, us.cluster)
        scene.feeder.up_to(len(scene.events))
        scene.until(lambda: scene.feeder.done, "the last flights to be acknowledged by us")
        take_all(scene, us, late)
        last = scene.until(lambda: scene.newest(us), "the newest milestone of us")
        scene.until(lambda: _arrived(scene, eu, US, last.token), f"{last.token} to arrive in eu")
        _replica(scene, last)


def _replica(scene: Scene, last: Milestone) -> None:
    """Check eu's copy of us's changelog, row by row, at a milestone that contains every flight."""
    found = scene.verify(scene.job, scene.us, scene.eu)
    scene.report.fact("differing_rows", found.differing_rows)
    scene.report.check(
        "eu is a replica of us again, by 'verify --region'",
        found.replicates(last.token),
        f"{found.token}: {found.rows:,} rows in eu, {found.differing_rows:,} differ",
    )


def _arrived(scene: Scene, here: Region, origin: str, token: Token) -> bool:
    found = scene.arrival_in(here, origin)
    return found is not None and found.generation == token.generation and found.sequence >= token.sequence
