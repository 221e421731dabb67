"""A job goes on in another region, and comes back: two brokers, the processes, and drivers written by hand."""

from __future__ import annotations

import subprocess

from regional import (
    FIRST,
    Driver,
    Regions,
    claim_of,
    fenced,
    local,
    newest,
    require_whole,
)

from cutwater.adapters import streams, wire
from cutwater.adapters.generations import candidates
from cutwater.core.cuts import Cut
from cutwater.core.errors import UsageError
from cutwater.core.generations import Generation
from cutwater.core.mirrored import from_origin


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
    claim = claim_of(regions.eu, second)
    driver.epoch(Cut.of(dict(claim.source_cut) | dict(regions.eu.produce(20))), claim.origin_cut)
    regions.eu.await_token(f"{second}:5")
    require_whole(regions.eu)
    third = back(regions, second, signal)
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
    generation, claim = (found := Generation.parse(told["generation"])), claim_of(eu, found)
    parent = streams.milestones(us.cluster, us.job.name)[2]
    assert generation == Generation(2, "eu", wire.hash_of(parent[0]).hex()[:8])
    assert claim.parent == parent[1]
    assert local(claim.origin_cut, regions.copy) == regions.read_there()
    assert local(claim.source_cut, regions.source) == {0: 0, 1: 0}
    assert set(local(claim.source_cut, regions.copy)) == {0, 1}
    return generation


def catch_up(regions: Regions, generation: Generation) -> tuple[Driver, subprocess.Popen[bytes]]:
    """The stream of the second region begins behind the milestone that had arrived."""
    us, eu = regions.us, regions.eu
    claim, driver = claim_of(eu, generation), Driver(eu, generation)
    signal = eu.signal(generation)
    driver.epoch(claim.source_cut, claim.origin_cut)
    eu.await_token(f"{generation}:4")
    assert eu.run(us, "failover", "--wait", "60")["first"] == f"{generation}:4", "asked again: it is done"
    assert (newest(eu).parent_hash, newest(eu).rewinds_to) == (wire.hash_of(regions.forked_at), 0)
    return driver, signal


def back(regions: Regions, generation: Generation, signal: subprocess.Popen[bytes]) -> tuple[Generation, Driver]:
    """Released there behind its newest milestone; here the fork stays, and is gone back behind."""
    us, eu = regions.us, regions.eu
    with us.mirroring(eu):
        us.await_arrival(eu, f"{generation}:5")
        assert "not promoted yet" in us.run(eu, "switchover", "--wait", "15", code=4)
        assert fenced(signal), "the job was released"
    [third] = [one for one in candidates(us.cluster, us.job.name).by_id if one.region == "us"]
    claim = claim_of(us, third)
    assert local(claim.source_cut, regions.source) == regions.read_there()
    assert local(claim.source_cut, from_origin(regions.source, "eu")).keys() == {0, 1}
    driver = Driver(us, third)
    driver.epoch(claim.source_cut)
    us.signal(third)
    us.await_token(f"{third}:5")
    assert us.run(eu, "switchover", "--wait", "60")["first"] == f"{third}:5"
    assert (third.number, claim.rewinds_to, newest(us).rewinds_to) == (3, 3, 3)
    require_whole(us)
    assert fenced(eu.signal(generation)), "a released generation does not begin again"
    return third, driver


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
