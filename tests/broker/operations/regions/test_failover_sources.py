"""Where a generation that continues another region starts to read events: in the copies and in its own source."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from cutwater.adapters.kafka.admin import delete_topics, ensure_topics
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.record_deletion import delete_below
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics import commit_stream
from cutwater.adapters.topics.candidates import candidates
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.core.errors import UsageError
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.operations.regions.failover import Failover
from support.harness import wait_until
from support.regions.regional import FIRST, Driver, Regions, Side, claim_of, local

pytestmark = pytest.mark.slow


def test_a_copy_that_retention_has_emptied_is_gone_on_with(regions: Regions) -> None:
    """The marker of the mirror's last transaction is gone with the records: no event is missing, and the driver
    starts behind it. Where events after the milestone are gone, nothing is fenced or claimed.
    """
    us, eu = regions.us, regions.eu
    regions.begin(2)
    with eu.mirroring(us):
        eu.await_arrival(us, f"{FIRST}:2")
        ends = dict(kept_ends(eu, regions.copy))
        delete_below(eu.cluster, regions.copy, ends)
        planned = eu.run(us, "failover", "--force", "--dry-run")
        us.produce(20)
        wait_until(lambda: kept_ends(eu, regions.copy) != sorted(ends.items()), "their copies", 60)
        delete_below(eu.cluster, regions.copy, dict(kept_ends(eu, regions.copy)))
        for words in (["failover", "--force"], ["switchover"]):
            refused = " ".join(eu.run(us, *words, code=UsageError.exit_code).split())
            assert "events after the milestone are gone" in refused
    assert commit_stream.release(us.cluster, topics.milestones(us.job.name)) is None
    assert candidates_in(eu) == []
    assert planned["parent"] == f"{FIRST}:2"


def test_what_is_claimed_on_an_emptied_copy_is_what_it_holds(regions: Regions) -> None:
    us, eu = regions.us, regions.eu
    regions.begin(2)
    with eu.mirroring(us):
        eu.await_arrival(us, f"{FIRST}:2")
        ends = dict(kept_ends(eu, regions.copy))
        delete_below(eu.cluster, regions.copy, ends)
        claimed = Generation.parse(eu.run(us, "failover", "--force", "--wait", "0")["generation"])
    cut = claim_of(eu, claimed).source_cut
    assert {at: cut.offset(TopicPartition(regions.copy, at)) for at in ends} == ends


def kept_ends(side: Side, topic: str) -> list[tuple[int, int]]:
    """The end of each partition's log, with its marker."""
    return sorted(Offsets(side.cluster).topic_ends(topic, 2).items())


def candidates_in(side: Side) -> list[Generation]:
    return [one for one in candidates(side.cluster, side.job.name).by_id if one.region == side.region]


def test_back_in_a_source_that_was_recreated_or_emptied(regions: Regions) -> None:
    """Markers that retention has deleted with the last events hold nothing up. What the other region had read of
    the old topic of the name says nothing about the new one.
    """
    us, eu = regions.us, regions.eu
    driver = regions.begin(1)
    seen = LogCheck(us.cluster).read_state(place for place, _ in us.end(regions.source))
    us.produce(40)
    cut = aborted(us, regions.source)
    driver.epoch(cut, evidence=seen.evidence)
    us.await_token(f"{FIRST}:2")
    with eu.mirroring(us):
        eu.await_arrival(us, f"{FIRST}:2")
        second = Generation.parse(eu.run(us, "failover", "--force", "--wait", "0")["generation"])
    claim = claim_of(eu, second)
    read = Cut.of(
        {place: offset - 2 for place, offset in claim.origin_cut}
    )  # up to the last event, as Spark tells
    Driver(eu, second).epoch(claim.source_cut, read)
    eu.signal(second)
    eu.await_token(f"{second}:3")
    with us.mirroring(eu):
        us.await_arrival(eu, f"{second}:3")
        assert planned(us, eu, regions.source) == {at: end - 2 for at, end in local(cut, regions.source).items()}
        delete_below(us.cluster, regions.source, local(cut, regions.source))
        assert planned(us, eu, regions.source) == local(cut, regions.source)
        assert delete_topics(us.cluster, [regions.source])
        ensure_topics(us.cluster, [topics.events(regions.source, 2)])
        assert planned(us, eu, regions.source) == {0: 0, 1: 0}


def planned(here: Side, there: Side, source: str) -> dict[int, int]:
    """Where a switchover would start to read the region's own events."""
    one = Failover(here.cluster, here.job, here.region, there.region, now_ms, there.cluster)
    return local(one.plan(one.read_copies()).source_cut, source)


def aborted(side: Side, topic: str) -> Cut:
    """The end, behind an aborted event and its marker in each partition."""
    producer = Producer({**side.cluster.librdkafka(), "transactional.id": f"aborts-{topic}"})
    producer.init_transactions(20)
    producer.begin_transaction()
    for partition in range(2):
        producer.produce(topic, value=b"aborted", partition=partition)
    assert producer.flush(20) == 0
    producer.abort_transaction(20)
    return side.end(topic)
