"""The first part: two regions, flights into one of them, and its end."""

from __future__ import annotations

import psutil

from cutwater.adapters.topics import mirror_topics
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.mirror_records import SLOTS, Arrival, slot_of
from cutwater.core.protocol.records import Milestone
from cutwater.demo.regions import US
from cutwater.demo.regions.scenario import Scene

ARRIVALS = 5
"""So many milestones arrive before anything goes wrong."""
LOST_MILESTONES = 2
"""So many the first region has then that do not arrive."""
LOST_FLIGHTS = 100
"""So many flights at least go into it meanwhile: where the machine is busy, epochs may end without a new one."""
LEAD = 500
"""Events in us that no milestone holds yet: on a machine that is busy the flights wait for it."""


def begin(scene: Scene) -> None:
    """Both brokers, the job in us, its mirror in eu."""
    us, eu = scene.us, scene.eu
    with scene.telling.step("two regions start: the job in us, its mirror in eu"):
        for region in (us, eu):
            scene.started(region.start_broker(scene.stop))
            scene.telling.say(f"{region.name}: broker at {region.cluster.bootstrap}")
        us.create_topics(scene.job)
        scene.started(us.start([*us.writers(), us.rehydrator(), us.publisher()], scene.stop))
        parts = [eu.mirror(us, slots) for slots in slots_of(scene)]
        scene.started(eu.start(parts, scene.stop))


def slots_of(scene: Scene) -> tuple[list[int], list[int]]:
    """The slot by which milestones are copied, and the others: a process of the mirror for each."""
    heard = slot_of(topics.milestones(scene.job.name), 0)
    return [heard], [slot for slot in range(SLOTS) if slot != heard]


def flow(scene: Scene) -> None:
    """Flights into us until some milestones have arrived in eu."""
    with scene.telling.step(f"flights into us, until milestone {ARRIVALS} has arrived in eu"):
        scene.feeder.up_to(LEAD)
        scene.feeder.into(US, scene.us.cluster)
        first = scene.until(lambda: _newest(scene), "a first milestone of us")
        scene.telling.say(f"first milestone of us: {first.token}")

        def enough() -> Arrival | None:
            _newest(scene)
            found = scene.arrival()
            return found if found and found.sequence >= ARRIVALS else None

        arrived = scene.until(enough, f"{ARRIVALS} milestones to arrive in eu")
        many = scene.feeder.acknowledged
        scene.telling.say(f"{arrived.token} has arrived in eu; us has acknowledged {many:,} flights")


def _newest(scene: Scene, flights: int = 0) -> Milestone | None:
    """The newest milestone of us; the flights follow it, and are so many at least."""
    found = scene.newest(scene.us)
    if found is not None:
        scene.feeder.up_to(max(flights, found.source_cut.records_since(Cut()) + LEAD))
    return found


def fall_behind(scene: Scene) -> None:
    """Part of the mirror dies: us commits milestones that eu hears of and does not hold."""
    _, rest = slots_of(scene)
    name = scene.eu.mirror(scene.us, rest).child.name
    with scene.telling.step(
        f"kill -9 of one of the two mirror processes: slots {', '.join(map(str, rest))} stand"
    ):
        scene.eu.end(name)
        begun = scene.feeder.acknowledged
        newest = scene.until(
            lambda: _ahead(scene, begun + LOST_FLIGHTS), f"{LOST_MILESTONES} milestones of us that do not arrive"
        )
        more = scene.feeder.acknowledged - begun
        scene.telling.say(f"{more:,} more flights went into us, and it is at {newest.token}")


def _ahead(scene: Scene, flights: int) -> Milestone | None:
    """The newest milestone of us, once us has so many flights and eu has heard of enough that did not arrive."""
    newest, arrived = _newest(scene, flights), scene.arrival()
    heard = mirror_topics.newest_milestone(scene.eu.cluster, scene.job.name, US)
    enough = heard and arrived and heard.sequence >= arrived.sequence + LOST_MILESTONES
    return newest if enough and scene.feeder.acknowledged >= flights else None


def die(scene: Scene) -> Milestone:
    """kill -9 of us's broker and of all its processes. Returns the newest milestone that was seen of it."""
    with scene.telling.step("kill -9 of us's broker; its driver and services end with it"):
        newest = scene.until(lambda: scene.newest(scene.us), "the newest milestone of us")
        killed = scene.us.kill()
        alive = [pid for pid in killed if _lives(pid)]
        dead = not alive and not scene.us.broker.ready()
        scene.telling.check(
            "us is dead", dead, f"{len(killed)} processes killed, {len(alive)} live, broker silent"
        )
        # What is still on its way comes back to the producer now, unacknowledged.
        scene.feeder.up_to(scene.flights)
        scene.until(lambda: scene.feeder.refused[US], "a flight that us does not take")
        scene.until(lambda: scene.feeder.idle, "the flights that us was sent to come back")
        acknowledged, refused = len(scene.feeder.delivered[US]), len(scene.feeder.refused[US])
        arrived = scene.until(scene.arrival, "an arrival in eu")
        scene.telling.fact("us_newest", str(newest.token), f"the newest milestone of us was {newest.token}")
        scene.telling.fact("eu_arrived", str(arrived.token), f"the newest arrival in eu is {arrived.token}")
        scene.telling.fact("us_acknowledged", acknowledged, f"us had acknowledged {acknowledged:,} flights")
        scene.telling.fact("us_refused", refused, f"{refused:,} more were sent to it: their producer keeps them")
        return newest


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
