"""The records of a mirror whose bytes are fixed in the golden file."""

from __future__ import annotations

from cutwater.adapters.avro import protocol_records
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.log_evidence import TopicEvidence
from cutwater.core.protocol.mirror_records import Arrival, Mirrored, Renewal, Steering

_WHEN = 1_700_000_000_000


def golden_mirror_record(name: str) -> protocol_records.Record:
    """A partition up to 1,500, the arrival of milestone 8, a pause, a copy that is begun anew."""
    if name == "steering":
        return Steering("flights", "us", True, _WHEN)
    if name == "renewal":
        return Renewal("flights", "us", "flights.events", _WHEN)
    if name == "arrival":
        return Arrival(
            job="flights",
            origin="us",
            generation=Generation(1, "us"),
            sequence=8,
            milestone_hash=bytes(range(32)),
            stream_offset=15,
            source_cut=Cut.of_topic("flights.events.from-us", [1_507, 1_511]),
            changelog_cut=Cut.of_topic("flights.changelog.g1-us-00000000", [44, 0, 305, 2]),
            watermark_ms=1_357_002_000_000,
            committed_ms=_WHEN + 310,
            arrived_ms=_WHEN + 370,
            evidence=(
                TopicEvidence("flights.changelog.g1-us-00000000", "q6Vb1n0TQ8m4f0uGk3q2Lw", (0, 0, 3, 0)),
                TopicEvidence("flights.events.from-us", "PN2PfS87Ql2hX-Iqcsgv8Q", (5, 5)),
            ),
        )
    return Mirrored(
        job="flights",
        origin="us",
        topic="flights.events",
        partition=1,
        topic_id="PN2PfS87Ql2hX-Iqcsgv8Q",
        partitions=2,
        first=0,
        before=1_400,
        next=1_500,
        leader=8,
        leaders=(6, 7),
        leaders_from=(1_200, 1_451),
        local=1_507,
        local_epoch=5,
        whole_from=0,
        whole_to=1_500,
        ended=1_500,
        runs_source=(1_400, 1_451),
        runs_local=(1_408, 1_458),
        runs_length=(50, 49),
        records=1_498,
        size=120_000,
        source_ms=_WHEN - 5,
        at_ms=_WHEN + 340,
    )
