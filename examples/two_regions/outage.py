"""The first part: two regions, flights into one of them, and its death."""

from __future__ import annotations

import psutil
from examples.two_regions import US
from examples.two_regions.scenario import Scene

from cutwater.adapters.topics import mirror_topics
from cutwater.core.protocol import topics
from cutwater.core.protocol.mirror_records import SLOTS, Arrival, slot_of
from cutwater.core.protocol.records import Milestone

ARRIVALS = 5
"""The number of milestones that arrive before the failure."""
LOST_MILESTONES = 2
"""The number of later milestones of the first region that do not arrive."""
LOST_FLIGHTS = 100
"""The least number of flights meanwhile: on a busy machine epochs may end without a new flight."""
LEAD = 500
"""The bound on events in us without a milestone: on a busy machine the flights wait."""


def begin(scene: Scene) -> None:
    us, eu = scene.us, scene.eu
    with scene.report.step("two regions start: the job in us, its mirror in eu"):
        for region in (us, eu):
            scene.started(region.start_broker(scene.stop))
            scene.report.print_line(f"{region.name}: broker at {region.cluster.bootstrap}")
        us.create_topics(scene.job)
        scene.started(us.start([*us.writers(), us.rehydrator(), us.publisher()], scene.stop))
        parts = [eu.mirror(us, slots) for slots in slots_of(scene)]
        scene.started(eu.start(parts, scene.stop))


def slots_of(scene: Scene) -> tuple[list[int], list[int]]:
    """Return the slot that copies milestones, and the other slots: each set is one process of the mirror."""
    heard = slot_of(topics.milestones(scene.job.name), 0)
    return [heard], [slot for slot in range(SLOTS) if slot != heard]


def flow(scene: Scene) -> None:
    with scene.report.step(f"flights into us, until milestone {ARRIVALS} has arrived in eu"):
        scene.feeder.up_to(LEAD)
        scene.feeder.into(US, scene.us.cluster)
        first = scene.until(lambda: _newest(scene), "a first milestone of us")
        scene.report.print_line(f"first milestone of us: {first.token}")

        def enough() -> Arrival | None:
            _newest(scene)
            found = scene.arrival()
            return found if found and found.sequence >= ARRIVALS else None

        arrived = scene.until(enough, f"{ARRIVALS} milestones to arrive in eu")
        many = scene.feeder.acknowledged
        scene.report.print_line(f"{arrived.token} has arrived in eu; us has acknowledged {many:,} flights")


def _newest(scene: Scene, flights: int = 0) -> Milestone | None:
    """Return the newest milestone of us. Allow flights up to a lead over it, and at least `flights`."""
    found = scene.newest(scene.us)
    if found is not None:
        scene.feeder.up_to(max(flights, found.source_cut.records + LEAD))
    return found


def fall_behind(scene: Scene) -> None:
    """Kill a part of the mirror: eu receives us's milestones, but not all of their data."""
    _, rest = slots_of(scene)
    name = scene.eu.mirror(scene.us, rest).child.name
    with scene.report.step(f"kill -9 of one of the two mirror processes: slots {', '.join(map(str, rest))} stop"):
        scene.eu.kill_processes(name)
        begun = scene.feeder.acknowledged
        newest = scene.until(
            lambda: _ahead(scene, begun + LOST_FLIGHTS), f"{LOST_MILESTONES} milestones of us that do not arrive"
        )
        more = scene.feeder.acknowledged - begun
        scene.report.print_line(f"{more:,} more flights were sent into us, which is now at {newest.token}")


def _ahead(scene: Scene, flights: int) -> Milestone | None:
    """Return us's newest milestone, once it has `flights` and eu knows of enough that did not arrive."""
    newest, arrived = _newest(scene, flights), scene.arrival()
    heard = mirror_topics.newest_milestone(scene.eu.cluster, scene.job.name, US)
    enough = heard and arrived and heard.sequence >= arrived.sequence + LOST_MILESTONES
    return newest if enough and scene.feeder.acknowledged >= flights else None


def die(scene: Scene) -> Milestone:
    """Kill us's broker and all its processes. Return the newest milestone that was seen of it."""
    with scene.report.step("kill -9 of us's broker; its driver and services end with it"):
        newest = scene.until(lambda: scene.newest(scene.us), "the newest milestone of us")
        killed = scene.us.kill()
        alive = [pid for pid in killed if _lives(pid)]
        dead = not alive and not scene.us.broker.ready()
        scene.report.check("us is dead", dead, f"{len(killed)} processes killed, {len(alive)} live, broker silent")
        # Unacknowledged flights fail in the producer now.
        scene.feeder.up_to(scene.flights)
        scene.until(lambda: scene.feeder.refused[US], "a flight that us does not take")
        scene.until(lambda: scene.feeder.idle, "the flights sent to us to be returned")
        acknowledged, refused = len(scene.feeder.delivered[US]), len(scene.feeder.refused[US])
        arrived = scene.until(scene.arrival, "an arrival in eu")
        scene.report.fact("us_newest", str(newest.token), f"the newest milestone of us was {newest.token}")
        scene.report.fact("eu_arrived", str(arrived.token), f"the newest arrival in eu is {arrived.token}")
        scene.report.fact("us_acknowledged", acknowledged, f"us had acknowledged {acknowledged:,} flights")
        scene.report.fact("us_refused", refused, f"{refused:,} more were sent to it; their producer keeps them")
        return newest


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
