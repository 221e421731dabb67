"""Going on in another region: the failover, and the same back again."""

from __future__ import annotations

from typing import NamedTuple

from cutwater.adapters import replicas, streams
from cutwater.adapters.failing_over import FailingOver
from cutwater.adapters.process import now_ms
from cutwater.core.cuts import Cut
from cutwater.core.failover import Loss
from cutwater.core.records import Claim, Milestone
from cutwater.core.replication import UNREPLICATED
from cutwater.demo.regions import EU, US
from cutwater.demo.regions.before import slots_of
from cutwater.demo.regions.held import Late, Name, held, listed
from cutwater.demo.regions.judging import compared, shows
from cutwater.demo.regions.scene import Scene
from cutwater.local.regions import Region


class GoneOn(NamedTuple):
    """How eu went on."""

    claim: Claim
    behind: Milestone
    """The milestone of us that it went on from."""
    copied: set[Name]
    """The events of us that eu held then, by the oracle's own reading."""
    loss: Loss
    """What was known of the loss then."""


def fail_over(scene: Scene) -> GoneOn:
    """eu goes on from the newest arrival; the flights that us did not take go there."""
    telling, eu, job = scene.telling, scene.eu, scene.job
    with telling.step("failover: eu fences the mirror and goes on from the newest arrival"):
        going = FailingOver(eu.cluster, job, EU, US, now_ms)
        # At once, as with --force: us was killed before our eyes.
        going.fence()
        # It leaves by itself, too, as soon as it writes: with us away it may not for a while.
        eu.end(*(eu.mirror(scene.us, slots).child.name for slots in slots_of(scene)))
        found = going.look()
        loss = found.loss
        told = {"milestones": loss.milestones, "events": loss.offsets, "as_of_ms": loss.as_of_ms}
        telling.fact("lost_at_least", {**told, "behind": str(loss.behind), "newest": str(loss.newest)})
        heard_s = (now_ms() - loss.as_of_ms) / 1000
        telling.say(
            f"lost at least {loss.milestones} milestones and {loss.offsets:,} events, as of {heard_s:.0f} s ago: "
            f"behind {loss.behind}, the newest heard of is {loss.newest}"
        )
        copied = held(eu.cluster, job, EU, [US]).of(US)
        going.prepare(UNREPLICATED)
        scene.feeder.into(EU, eu.cluster)
        claim = going.claim(found, UNREPLICATED)
        take_over(scene, eu, going, claim)
        return GoneOn(claim, found.milestone, copied, loss)


def go_on(scene: Scene) -> None:
    """Flights into eu alone; its view is right while us is away."""
    with scene.telling.step("flights into eu alone, until its view holds them all"):
        scene.until(lambda: scene.feeder.waiting, "the flights to be acknowledged by eu")
        scene.telling.say(f"eu has acknowledged {len(scene.feeder.delivered[EU]):,} flights")
        take_all(scene, scene.eu, [])


def take_over(scene: Scene, here: Region, going: FailingOver, claim: Claim) -> None:
    """The processes of a claimed generation, and its promotion."""
    telling = scene.telling
    scene.started(here.start(here.writers(claim.generation), scene.stop))
    telling.say(f"claimed {claim.generation}; its driver and commit-signal start in {here.name}")
    going.claims.promote(claim.generation)

    def promoted() -> Milestone | None:
        newest = scene.newest(here)
        return newest if newest and newest.generation == claim.generation else None

    first = scene.until(promoted, f"the promotion of {claim.generation}")
    telling.say(f"promoted with {first.token}: {here.name} goes on")
    telling.fact(f"{here.name}_goes_on_with", str(first.token))
    scene.started(here.start([here.rehydrator()], scene.stop))


def take_all(scene: Scene, here: Region, before: list[Late]) -> list[Late]:
    """Wait until `here` has read all that it holds, and compare its view. Returns what was listed as late there.

    `before`: what generations of the other region had listed, which this one's line goes on from.
    """
    job, others = scene.job, [one for one in (US, EU) if one != here.name]
    milestone = scene.until(
        lambda: _all_read(scene, here), f"a milestone of {here.name} that holds all its events"
    )
    scene.until(lambda: shows(here, milestone.token), f"the view of {here.name} to show {milestone.token}")
    scene.telling.say(f"{milestone.token} holds all events of {here.name}, and its view shows it")
    there = held(here.cluster, job, here.name, others)
    late = listed(here.cluster, job, there)
    compared(scene.telling, here, job, there, [*before, *late])
    return late


def _all_read(scene: Scene, here: Region) -> Milestone | None:
    """The newest milestone, if it holds all that was sent and all that is copied."""
    newest = scene.newest(here)
    if newest is None:
        return None
    read = {place.topic for place, _ in newest.source_cut}
    ends = (streams.source_end(here.cluster, topic) for topic in read)
    return newest if all(newest.source_cut.covers(end) for end in ends) else None


def copied_all(scene: Scene, here: Region, origin: Region) -> bool:
    """Does a mirror in `here` hold all events of the origin?"""
    copies = replicas.positions(here.cluster, scene.job.name).copies.get(origin.name, {})
    at = Cut.of({place: one.next for place, one in copies.items() if place.topic == scene.job.topic})
    return at.covers(streams.source_end(origin.cluster, scene.job.topic))
