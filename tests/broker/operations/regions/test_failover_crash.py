"""Whoever asks for a failover, a switchover or a release dies between two steps, and it is asked for again."""

from __future__ import annotations

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.topics.candidates import candidacies
from cutwater.core.errors import FencedError
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Promotion, Release
from support.regions.regional import (
    FAILOVER_POINTS,
    FIRST,
    RELEASE_POINTS,
    Driver,
    Regions,
    Side,
    claim_of,
    fenced,
    newest,
    require_whole,
)


@pytest.mark.slow
def test_over_and_back_by_verbs_that_die_at_every_step(regions: Regions) -> None:
    """Each life begins where the one before it was killed; there is one claim, and one line, both ways."""
    us, eu = regions.us, regions.eu
    regions.begin(3)
    second = over(regions)
    driver, signal = Driver(eu, second), eu.signal(second)
    claim = claim_of(eu, second)
    driver.epoch(claim.source_cut, claim.origin_cut)
    eu.await_token(f"{second}:4")
    assert eu.run(us, "failover", "--wait", "60")["first"] == f"{second}:4"
    driver.epoch(Cut.of(dict(claim.source_cut) | dict(eu.produce(20))), claim.origin_cut)
    eu.await_token(f"{second}:5")
    require_whole(eu)
    third = back(regions, second)
    assert fenced(signal)
    with pytest.raises(FencedError):
        driver.epoch(claim.source_cut)
    Driver(us, third).epoch(claim_of(us, third).source_cut)
    us.signal(third)
    us.await_token(f"{third}:4")
    assert us.run(eu, "switchover", "--wait", "60")["first"] == f"{third}:4"
    assert newest(us).rewinds_to == 0, "the line here ended where the other region went on"
    require_whole(us)
    for side, only in ((us, third), (eu, second)):
        require_claimed_once(side, only)
    assert len(releases(eu)) == 1


def over(regions: Regions) -> Generation:
    us, eu = regions.us, regions.eu
    with eu.mirroring(us) as mirror:
        eu.await_arrival(us, f"{FIRST}:3")
        for point in FAILOVER_POINTS:
            eu.dies_at(point, us, "failover", "--force", "--wait", "0")
        us.produce(9)
        assert fenced(mirror), "it wanted to copy them"
    told = eu.run(us, "failover", "--wait", "0")
    assert told["parent"] == f"{FIRST}:3"
    return Generation.parse(told["generation"])


def back(regions: Regions, second: Generation) -> Generation:
    us, eu = regions.us, regions.eu
    with us.mirroring(eu):
        us.await_arrival(eu, f"{second}:5")
        for point in (*RELEASE_POINTS, "claim-written", "promotion-asked"):
            us.dies_at(point, eu, "switchover", "--wait", "60")
        told = us.run(eu, "switchover", "--wait", "0")
    assert (told["planned"], told["parent"], told["loss"]["milestones"]) == (True, f"{second}:5", 0)
    return Generation.parse(told["generation"])


def require_claimed_once(side: Side, generation: Generation) -> None:
    """A claim may be said again, in the same words."""
    said = list(candidacies(side.cluster, side.job.name))
    assert {protocol_records.encode(one) for one in said if isinstance(one, Claim)} == {
        protocol_records.encode(claim_of(side, generation))
    }
    assert [one.generation for one in said if isinstance(one, Promotion)] == [generation]


def releases(side: Side) -> list[Release]:
    consumer, topic = make_consumer(side.cluster), topics.milestones(side.job.name)
    try:
        found = [
            protocol_records.decode(one.value())
            for one in read_range(consumer, topic, 0, *bounds(consumer, topic, 0))
        ]
    finally:
        consumer.close()
    return [one for one in found if isinstance(one, Release)]


def test_a_release_that_died_is_asked_again(regions: Regions) -> None:
    """Nobody writes for the job any more, whoever was started between two lives; it is released once."""
    us = regions.us
    first, signal = Driver(us, FIRST), us.signal(FIRST)
    first.epoch(cut := us.produce(10))
    us.await_token(f"{FIRST}:1")
    us.dies_at("writers-fenced", None, "release", "--to", "eu")
    with pytest.raises(FencedError):
        first.epoch(cut)
    assert releases(us) == []
    second = Driver(us, FIRST)
    us.dies_at("release-written", None, "release", "--to", "eu")
    with pytest.raises(FencedError):
        second.epoch(cut)
    late = Driver(us, FIRST)
    assert us.run(None, "release", "--to", "eu")["token"] == f"{FIRST}:1"
    with pytest.raises(FencedError):
        late.epoch(cut)
    assert fenced(signal)
    assert fenced(us.signal(FIRST)), "it is released"
    assert len(releases(us)) == 1
