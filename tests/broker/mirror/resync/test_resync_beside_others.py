"""A copy is given up while somebody else begins: a mirror, or a generation that would stand on it."""

from __future__ import annotations

from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.record_deletion import empty
from cutwater.adapters.kafka.writers.transactional_writer import Batch, TransactionalWriter
from cutwater.adapters.runtime.clock import now_ms
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import DivergenceError, FencedError, UnavailableError, UsageError
from cutwater.core.protocol import mirror_records, topics
from cutwater.mirror.resync.resync import give_up_copy, read_copy_state, resync, withdraw
from cutwater.operations.regions.failover import Failover
from support.regions.mirroring import (
    ORIGIN,
    Events,
    Running,
    arrivals,
    arrived_once,
    epoch,
    make,
    mirroring,
    require_held,
    wait_arrived,
)
from support.views.changelogs import Writing, until


def failing_over(broker: Any, writing: Writing) -> Failover:
    """Ready to claim in this region."""
    one = Failover(broker.cluster, writing.job, "there", ORIGIN, now_ms)
    one.prepare(UNREPLICATED)
    return one


@pytest.mark.slow
def test_no_mirror_works_beside_it(broker: Any, writing: Writing, events: Events) -> None:
    """Whoever is started between two steps leaves again; what the running one said before it was fenced goes."""
    own, job, begun = broker.cluster, writing.job, list[Running]()
    arrived_once(own, writing, events)

    def meanwhile(step: str) -> None:
        if step == "fenced the mirror":
            begun.append(Running(make(own, writing.cluster, job)))
            epoch(writing, events, 2)
            until(lambda: begun[0].error is not None, "the mirror to find that a copy is begun anew")

    resync(own, job.name, ORIGIN, events.topic, now_ms, meanwhile)
    with pytest.raises(UnavailableError, match=f"a resync of {events.topic} .* from {ORIGIN} is in progress"):
        begun[0].end()
    assert arrivals(own, job) == []
    with mirroring(own, writing.cluster, job) as mirror:
        require_held(writing, own, wait_arrived(mirror, own, job, 2))


def test_one_at_work_leaves_before_it_is_fenced(broker: Any, writing: Writing, events: Events) -> None:
    """What it reads of a copy is no longer its own, and what it announces goes."""
    own, job = broker.cluster, writing.job
    mirror = Running(make(own, writing.cluster, job))
    wait_arrived(mirror, own, job, epoch(writing, events, 1))
    writer = TransactionalWriter(own, mirror_records.renewal_id(job.name, ORIGIN))
    writer.initialise()
    one = mirror_records.Renewal(job.name, ORIGIN, events.topic, 5)
    writer.write_all(
        [Batch(mirror_records.positions(job.name), 0, [{"key": one.key, "value": protocol_records.encode(one)}])]
    )
    until(lambda: mirror.error is not None, "the mirror to read that a copy is begun anew")
    with pytest.raises(FencedError, match="this mirror exits"):
        mirror.end()


@pytest.mark.slow
@pytest.mark.parametrize("step", ["removed", "deleted"])
def test_one_that_was_broken_off_is_run_again(broker: Any, writing: Writing, events: Events, step: str) -> None:
    """Nobody works by what it has left: neither a mirror, nor who would claim a generation."""
    own, job = broker.cluster, writing.job
    arrived_once(own, writing, events)
    going_on = failing_over(broker, writing)
    found = going_on.read_copies()

    def die(said: str) -> None:
        if said.startswith(step):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resync(own, job.name, ORIGIN, events.topic, now_ms, die)
    mirror = Running(make(own, writing.cluster, job))
    until(lambda: mirror.error is not None, "the mirror to find that a copy is begun anew")
    with pytest.raises(UnavailableError, match="resync' again"):
        mirror.end()
    with pytest.raises((UsageError, UnavailableError), match="mirror resync"):
        going_on.claim(found, UNREPLICATED)
    with pytest.raises(UsageError, match=f"the positions of {events.topic} are removed"):
        withdraw(own, job.name, ORIGIN, events.topic)
    if not arrivals(own, job):
        with pytest.raises(UnavailableError, match="resync' again"):
            going_on.read_copies()
    assert read_copy_state(own, job.name, ORIGIN, events.topic).resync_started
    resync(own, job.name, ORIGIN, events.topic, now_ms)
    assert not read_copy_state(own, job.name, ORIGIN, events.topic).resync_started
    with mirroring(own, writing.cluster, job) as again:
        require_held(writing, own, wait_arrived(again, own, job, 1))


@pytest.mark.slow
def test_what_was_broken_off_before_anything_had_gone_hinders_no_failover(
    broker: Any, writing: Writing, events: Events
) -> None:
    """The origin may be dead by now, and this copy the only one: it is claimed from, and then not given up."""
    own, job = broker.cluster, writing.job
    found = arrived_once(own, writing, events)
    going_on = failing_over(broker, writing)

    def die(_said: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resync(own, job.name, ORIGIN, events.topic, now_ms, die)
    with pytest.raises(UnavailableError, match="resync' again"):
        going_on.require_settled()
    claim = going_on.claim(going_on.read_copies(), UNREPLICATED)
    with pytest.raises(UsageError, match=f"{claim.generation} was claimed here"):
        resync(own, job.name, ORIGIN, events.topic, now_ms)
    withdraw(own, job.name, ORIGIN, events.topic)
    assert arrivals(own, job) == [found]
    with mirroring(own, writing.cluster, job) as mirror:
        wait_arrived(mirror, own, job, epoch(writing, events, 2))


@pytest.mark.slow
def test_whoever_is_still_at_work_is_ended_by_the_withdrawal(
    broker: Any, writing: Writing, events: Events
) -> None:
    """Else he would remove positions behind it, and no note would say so."""
    own, job = broker.cluster, writing.job
    found = arrived_once(own, writing, events)
    with pytest.raises(UsageError, match=f"no resync of {events.topic} from"):
        withdraw(own, job.name, ORIGIN, events.topic)

    def meanwhile(said: str) -> None:
        assert said == "fenced the mirror", "nothing goes behind it"
        withdraw(own, job.name, ORIGIN, events.topic)

    told = f"a resync of {events.topic}, no mirror of {ORIGIN} works. .*--withdraw.*only while {ORIGIN} is up"
    with pytest.raises(FencedError, match=told):
        resync(own, job.name, ORIGIN, events.topic, now_ms, meanwhile)
    assert arrivals(own, job) == [found]
    assert not read_copy_state(own, job.name, ORIGIN, events.topic).resync_started
    with mirroring(own, writing.cluster, job) as mirror:
        require_held(writing, own, wait_arrived(mirror, own, job, epoch(writing, events, 2)))


def test_who_claims_meanwhile_ends_it_also_where_no_position_stands(
    broker: Any, writing: Writing, events: Events
) -> None:
    """Whoever makes generations has the id of claims: behind him nothing more goes."""
    own, job = broker.cluster, writing.job
    ensure_topics(own, mirror_records.mirror_topics(job.name, ORIGIN))
    copy = read_copy_state(own, job.name, ORIGIN, events.topic)
    told = list[str]()

    def meanwhile(said: str) -> None:
        told.append(said)
        TransactionalWriter(own, topics.claims_id(job.name)).initialise()

    with pytest.raises(FencedError), give_up_copy(own, job.name, ORIGIN, copy, now_ms, meanwhile):
        pass
    assert told == ["fenced the mirror"]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["fenced the mirror", "removed", "removed the arrivals"])
def test_of_two_the_first_ends(broker: Any, writing: Writing, events: Events, step: str) -> None:
    """It stood still for so long that somebody began another one, and deletes nothing of what that one made."""
    own, job = broker.cluster, writing.job
    arrived_once(own, writing, events)
    made: list[mirror_records.Arrival] = []

    def meanwhile(said: str) -> None:
        if said.startswith(step):
            resync(own, job.name, ORIGIN, events.topic, now_ms)
            with mirroring(own, writing.cluster, job) as another:
                made.append(wait_arrived(another, own, job, 1))

    with pytest.raises(FencedError):
        resync(own, job.name, ORIGIN, events.topic, now_ms, meanwhile)
    assert arrivals(own, job) == made
    require_held(writing, own, made[0])


@pytest.mark.slow
def test_positions_that_a_mirror_wrote_a_moment_ago_go_too(broker: Any, writing: Writing, events: Events) -> None:
    """When somebody looked there was no copy yet: what has come since is found behind the fencing."""
    own, job = broker.cluster, writing.job
    ensure_topics(own, mirror_records.mirror_topics(job.name, ORIGIN))
    copy = read_copy_state(own, job.name, ORIGIN, events.topic)
    assert (copy.known, copy.exists) == ([], False)
    arrived_once(own, writing, events)
    with give_up_copy(own, job.name, ORIGIN, copy, now_ms, lambda _: None):
        assert read_copy_state(own, job.name, ORIGIN, events.topic) == (*copy[:4], True)
    with mirroring(own, writing.cluster, job) as mirror:
        require_held(writing, own, wait_arrived(mirror, own, job, 1))


@pytest.mark.slow
def test_no_generation_begins_in_a_copy_that_is_given_up(broker: Any, writing: Writing, events: Events) -> None:
    """Whoever has read the arrival before finds no positions, and then no arrival."""
    own, job = broker.cluster, writing.job
    arrived_once(own, writing, events)
    going_on = failing_over(broker, writing)
    found, met = going_on.read_copies(), []

    def meanwhile(step: str) -> None:
        if step.startswith("removed") and step.endswith("positions"):
            with pytest.raises(UsageError, match="a resync has deleted the position"):
                going_on.claim(found, UNREPLICATED)
            met.append(step)

    resync(own, job.name, ORIGIN, events.topic, now_ms, meanwhile)
    assert met == [f"removed {job.shards.partitions} positions"]
    with pytest.raises(UnavailableError, match="is gone"):
        going_on.claim(found, UNREPLICATED)
    assert not going_on.claims.known().by_id


@pytest.mark.slow
def test_a_copy_that_a_generation_begins_in_stays(broker: Any, writing: Writing, events: Events) -> None:
    """All that goes takes the arrivals along, and the claim stands on one; once it was given up, it may go."""
    own, job = broker.cluster, writing.job
    found = arrived_once(own, writing, events)
    going_on = failing_over(broker, writing)
    claim = going_on.claim(going_on.read_copies(), UNREPLICATED)
    for topic in (events.topic, writing.topic, topics.milestones(job.name)):
        with pytest.raises(UsageError, match=f"{claim.generation} was claimed here"):
            resync(own, job.name, ORIGIN, topic, now_ms)
    assert arrivals(own, job) == [found]
    again = going_on.earlier_claim(going_on.read_copies())
    assert again is not None
    assert again.claim == claim, "whoever was killed behind it is asked again"
    going_on.claims.abort(claim.generation, "a test")
    resync(own, job.name, ORIGIN, writing.topic, now_ms)
    assert arrivals(own, job) == []


@pytest.mark.slow
def test_an_origin_that_died_while_somebody_thought_it_over(broker: Any, writing: Writing, events: Events) -> None:
    """It is asked right before the first note, too."""
    own, job = broker.cluster, writing.job
    found = arrived_once(own, writing, events)
    with pytest.raises(UnavailableError, match=r"local does not answer, .* Nothing was deleted"):
        resync(own, job.name, ORIGIN, events.topic, now_ms, origin=Cluster("127.0.0.1:1"))
    assert arrivals(own, job) == [found]
    assert not read_copy_state(own, job.name, ORIGIN, events.topic).resync_started


def test_a_failover_that_finds_a_replaced_copy_advises_no_resync_of_a_dead_region(
    broker: Any, writing: Writing, events: Events
) -> None:
    """What is here may be all there is."""
    own, job = broker.cluster, writing.job
    arrived_once(own, writing, events)
    empty(own, mirror_records.milestones_from(job.name, ORIGIN))
    with pytest.raises(
        DivergenceError, match=f"was replaced. Run 'cutwater mirror resync', only while {ORIGIN} is up"
    ):
        failing_over(broker, writing).read_copies()
