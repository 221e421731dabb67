"""A job goes on in another region, and comes back: two brokers, the processes, and drivers written by hand."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.topics import commit_stream
from cutwater.adapters.topics.candidates import candidates
from cutwater.core.errors import UsageError
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import from_origin
from support.harness import wait_until
from support.regions.regional import FIRST, Driver, Regions, Side, claim_of, fenced, local, newest, require_whole

pytestmark = pytest.mark.slow

GOING_ON = ("making topics", "claiming a generation", "promoting it")


def test_over_and_back_and_over_again(regions: Regions) -> None:
    """Sequences go on, the fork is gone back behind, and each region reads on where the other had read."""
    first = regions.begin(3)
    second = over(regions)
    first.epoch(regions.us.produce(30))  # it lives: this is a fork
    regions.us.await_token(f"{FIRST}:4")
    # What came back by itself is ended, and nothing of it starts again.
    regions.us.run(regions.eu, "release", "--to", "eu")
    assert fenced(regions.us.signal(FIRST))
    driver, signal = catch_up(regions, second)
    third = back(regions, second, driver, signal)
    again(regions, *third)


def over(regions: Regions) -> Generation:
    """The mirror is fenced, and the claim says where the parent's cuts lie here."""
    us, eu = regions.us, regions.eu
    with eu.mirroring(us) as mirror:
        eu.await_arrival(us, f"{FIRST}:3")
        refused = eu.signal(Generation(1, "eu"))
        assert refused.wait(60) == UsageError.exit_code, "a first generation would be a second job of one name"
        assert "copied here from us" in eu.flow.log("cutwater.commit_signal").read_text()
        assert "CUTWATER_FAILOVER_MIN_AGE_S" in eu.run(us, "failover", code=2), "it is a moment old"
        planned = eu.run(us, "failover", "--dry-run", "--force")
        told = eu.run(us, "failover", "--force", "--wait", "0")
        us.produce(9)
        assert fenced(mirror), "it wanted to copy them"
    assert told["generation"] == planned["generation"]
    require_timed(planned, "looking at what has arrived")
    require_timed(told, "looking at what has arrived", "fencing the mirror", *GOING_ON)
    generation, claim = (found := Generation.parse(told["generation"])), claim_of(eu, found)
    parent = commit_stream.milestones(us.cluster, us.job.name)[2]
    assert generation == Generation(2, "eu", protocol_records.hash_of(parent[0]).hex()[:8])
    assert claim.parent == parent[1]
    assert local(claim.origin_cut, regions.copy) == regions.read_there()
    assert local(claim.source_cut, regions.source) == {0: 0, 1: 0}
    assert set(local(claim.source_cut, regions.copy)) == {0, 1}
    return generation


def catch_up(regions: Regions, generation: Generation) -> tuple[Driver, subprocess.Popen[bytes]]:
    """The stream of the second region begins behind the milestone that had arrived."""
    us, eu = regions.us, regions.eu
    claim, driver = claim_of(eu, generation), Driver(eu, generation)
    assert "not promoted yet" in eu.run(us, "failover", "--wait", "1", code=4)
    signal = eu.signal(generation)
    driver.epoch(claim.source_cut, claim.origin_cut)
    eu.await_token(f"{generation}:4")
    assert eu.run(us, "failover", "--wait", "60")["first"] == f"{generation}:4", "asked again: it is done"
    assert (newest(eu).parent_hash, newest(eu).rewinds_to) == (protocol_records.hash_of(regions.forked_at), 0)
    return driver, signal


def back(
    regions: Regions, generation: Generation, there: Driver, signal: subprocess.Popen[bytes]
) -> tuple[Generation, Driver]:
    """Released there behind its newest milestone; here the fork stays, and is gone back behind."""
    us, eu = regions.us, regions.eu
    with us.mirroring(eu), ThreadPoolExecutor(1) as asking:
        us.await_arrival(eu, f"{generation}:4")
        only_planned(regions, generation)
        claim = claim_of(eu, generation)
        there.epoch(Cut.of(dict(claim.source_cut) | dict(eu.produce(20))), claim.origin_cut)
        eu.await_token(f"{generation}:5")  # nobody has fenced it
        require_whole(eu)
        us.await_arrival(eu, f"{generation}:5")
        asked = asking.submit(us.run, eu, "switchover", "--wait", "120")
        assert fenced(signal), "the job was released"
        wait_until(lambda: claimed_in(us), "the claim", 60)
        [third] = claimed_in(us)
        driver, claim = Driver(us, third), claim_of(us, third)
        driver.epoch(claim.source_cut)
        us.signal(third)
        us.await_token(f"{third}:5")
        told = asked.result(150)
    assert (told["first"], told["parent"], told["planned"]) == (f"{third}:5", f"{generation}:5", True)
    looked, waited = "looking at both regions", "waiting for its last milestone"
    require_timed(told, looked, "releasing it there", waited, *GOING_ON)
    assert local(claim.source_cut, regions.source) == regions.read_there()
    assert local(claim.source_cut, from_origin(regions.source, "eu")).keys() == {0, 1}
    told = us.run(eu, "switchover", "--wait", "60")
    assert told["first"] == f"{third}:5", "asked again: it is done"
    require_timed(told, looked, waited)
    assert (third.number, claim.rewinds_to, newest(us).rewinds_to) == (3, 3, 3)
    require_whole(us)
    assert fenced(eu.signal(generation)), "a released generation does not begin again"
    return third, driver


def only_planned(regions: Regions, generation: Generation) -> None:
    """A dry run says what would be done, and neither region has it done."""
    us, eu = regions.us, regions.eu
    planned = us.run(eu, "switchover", "--dry-run")
    assert (planned["parent"], planned["first"], planned["planned"]) == (f"{generation}:4", None, True)
    assert commit_stream.release(eu.cluster, topics.milestones(eu.job.name)) is None
    assert claimed_in(us) == []
    require_timed(planned, "looking at both regions")


def claimed_in(side: Side) -> list[Generation]:
    """The generations that were claimed in a region."""
    return [one for one in candidates(side.cluster, side.job.name).by_id if one.region == side.region]


def require_timed(told: dict[str, Any], *steps: str) -> None:
    """Just these steps, in their order, and how long each took."""
    assert list(told["steps"]) == list(steps)
    assert all(took >= 0 for took in told["steps"].values())


def again(regions: Regions, third: Generation, driver: Driver) -> None:
    """The region's own stream ended where the other one went on: nothing is gone back behind.

    Where the fork's events lie here is forgotten, so the first milestone behind it does not arrive.
    """
    us, eu = regions.us, regions.eu
    driver.epoch(Cut.of(dict(claim_of(us, third).source_cut) | dict(us.end(regions.source))))
    with eu.mirroring(us):
        eu.await_arrival(us, f"{third}:6")
        fourth = Generation.parse(eu.run(us, "failover", "--force", "--wait", "0")["generation"])
    claim = claim_of(eu, fourth)
    assert (fourth.number, claim.rewinds_to) == (4, 5)
    Driver(eu, fourth).epoch(claim.source_cut, claim.origin_cut)
    eu.signal(fourth)
    eu.await_token(f"{fourth}:6")
    assert newest(eu).rewinds_to == 0
    require_whole(eu)
