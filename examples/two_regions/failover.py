"""The takeover in another region: the failover, and the same for the failback."""

from __future__ import annotations

from typing import Any, NamedTuple

from examples.two_regions import EU, US
from examples.two_regions.oracle import Late, Name, read_events, read_late_list
from examples.two_regions.outage import slots_of
from examples.two_regions.output_readers import emitted
from examples.two_regions.scenario import Scene
from examples.two_regions.verdict import compared, publishes, shows

from cutwater.adapters.topics import commit_stream, mirror_topics
from cutwater.adapters.topics.candidates import origin_parent
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Claim, Milestone
from cutwater.local.processes.verb_process import Verb
from cutwater.local.region import Region


class Takeover(NamedTuple):
    claim: Claim
    behind: Milestone
    """The milestone of us from which eu continued."""
    copied: set[Name]
    """The events of us that eu held at the takeover, as the oracle reads them."""
    lost_milestones: int
    """As the command reported at the takeover, like `lost_events`."""
    lost_events: int


def fail_over(scene: Scene) -> Takeover:
    """Continue in eu from the newest arrival; flights that us did not acknowledge are sent to eu."""
    eu = scene.eu
    with (
        scene.report.step("failover: 'cutwater failover --force' in eu, from the newest arrival"),
        # By force, as us was alive a moment ago: the demonstration itself has killed it.
        eu.verb("failover", "--origin", US, "--force", beside=scene.us) as verb,
    ):
        claim = await_claim(scene, eu, verb)
        # The fenced mirror exits only at its next write, which may take a while now that us is down.
        eu.kill_processes(*(eu.mirror(scene.us, slots).child.name for slots in slots_of(scene)))
        copied = read_events(eu.cluster, scene.job, EU, [US]).of(US)
        scene.feeder.into(EU, eu.cluster)
        loss = take_over(scene, eu, claim, verb)["loss"]
        scene.report.fact("lost_at_least", loss)
        scene.report.print_line(
            f"lost at least {loss['milestones']} milestones and {loss['offsets']:,} events, "
            f"as of {loss['as_of']}: after {origin_parent(claim).token}, the newest heard of is {loss['newest']}"
        )
        return Takeover(claim, origin_parent(claim), copied, loss["milestones"], loss["offsets"])


def feed_survivor(scene: Scene) -> None:
    with scene.report.step("flights only into eu, until its view holds them all"):
        scene.until(lambda: scene.feeder.waiting, "the flights to be acknowledged by eu")
        scene.report.print_line(f"eu has acknowledged {len(scene.feeder.delivered[EU]):,} flights")
        take_all(scene, scene.eu, [])


def await_claim(scene: Scene, here: Region, verb: Verb) -> Claim:
    return scene.until(lambda: here.find_claim(scene.job.name, verb), f"a claim in {here.name}")


def take_over(scene: Scene, here: Region, claim: Claim, verb: Verb) -> dict[str, Any]:
    """Start a claimed generation's processes, wait for its promotion, and start its readers. Return the answer."""
    telling = scene.report
    scene.started(here.start(here.writers(claim.generation), scene.stop))
    telling.print_line(f"claimed {claim.generation}; its driver and commit-signal start in {here.name}")
    told = scene.until(verb.answer, f"the promotion of {claim.generation}")
    telling.print_line(f"promoted with {told['first']}: {here.name} continues the job")
    telling.print_line(", ".join(f"{step} {took:.1f} s" for step, took in told["steps"].items()))
    telling.fact(f"{here.name}_goes_on_with", told["first"])
    scene.started(here.start([here.rehydrator(), here.publisher()], scene.stop))
    return told


def take_all(scene: Scene, here: Region, before: list[Late]) -> list[Late]:
    """Wait until `here` has read all its events, and compare its view. Return the pairs that were listed as late.
    `before`: the pairs listed by earlier generations of this line in the other region."""
    job, others = scene.job, [one for one in (US, EU) if one != here.name]
    milestone = scene.until(
        lambda: _all_read(scene, here), f"a milestone of {here.name} that holds all its events"
    )
    token = milestone.token
    scene.until(lambda: shows(here, token), f"the view of {here.name} to show {token}")
    scene.until(lambda: publishes(here, job, token), f"the output of {here.name} to hold {token}")
    scene.report.print_line(f"{token} holds all events of {here.name}; its view shows it, and its output holds it")
    there = read_events(here.cluster, job, here.name, others)
    late = read_late_list(here.cluster, job, there)
    compared(scene.report, here, job, there, [*before, *late], emitted(here, job, token))
    return late


def _all_read(scene: Scene, here: Region) -> Milestone | None:
    """Return the newest milestone if it covers all events that were sent here or copied."""
    newest = scene.newest(here)
    if newest is None:
        return None
    read = {place.topic for place, _ in newest.source_cut}
    ends = (commit_stream.source_end(here.cluster, topic) for topic in read)
    return newest if all(newest.source_cut.covers(end) for end in ends) else None


def copied_all(scene: Scene, here: Region, origin: Region) -> bool:
    """Return whether a mirror in `here` holds all events of the origin."""
    copies = mirror_topics.positions(here.cluster, scene.job.name).copies.get(origin.name, {})
    at = Cut.of({place: one.next for place, one in copies.items() if place.topic == scene.job.topic})
    return at.covers(commit_stream.source_end(origin.cluster, scene.job.topic))
