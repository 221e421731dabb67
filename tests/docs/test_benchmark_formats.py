"""The arithmetic of B5, with plain values."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro


def test_a_format_s_rate_is_held_against_plain_avro(part: Any) -> None:
    """From the topic with the same from the topic, from memory with from memory; the limit is on the median."""
    b5 = part("b5")
    seconds = {"from_avro": 2.0, "avro": 2.0, "json": 6.0, "from_avro in memory": 1.0, "json in memory": 1.9}
    rest = {"events": 100, "start_s": 0.0, "cpu_s": 1.0, "start_cpu_s": 0.0, "broker_cpu_s": 0.0}
    runs = [
        part("harness.figures").Run(contender=name, pair=1, drain_s=one, memory_mb_peak=1.0, exact=True, **rest)
        for name, one in {**seconds, "fastavro in memory": 4.0}.items()
    ]
    found = b5.ratios(runs)
    assert {name: one["median"] for name, one in found.items()} == {
        "avro": 1.0, "json": 0.333, "json in memory": 0.526, "fastavro in memory": 0.25,
    }  # fmt: skip
    assert ["NOT KEPT" in line for line in b5.verdicts(found)] == [False, True, False]


def test_the_events_are_the_same_for_the_same_seed(part: Any) -> None:
    """And what every contender must show is counted from them, by no contender's code."""
    events = part("decode.events")
    made = list(events.generate(200, seed=3))
    assert made == list(events.generate(200, seed=3)) != list(events.generate(200, seed=4))
    assert events.expected(200, 3) == [
        200,
        sum(one["distance_miles"] for one in made),
        sum(one["delay_minutes"] for one in made if one["delay_minutes"] is not None),
    ]


def test_each_format_is_encoded_as_the_job_says(part: Any, tmp_path: Path) -> None:
    """The topics carry the same event: a fingerprint, a number, or an object before it."""
    events = part("decode.events")
    jobs = {kind: events.job(tmp_path, kind) for kind in ("avro", "confluent", "json")}
    (one,) = events.generate(1, seed=1)
    values = {kind: events.encoder(job)(one) for kind, job in jobs.items()}
    assert values["avro"][10:] == values["confluent"][5:]
    assert values["avro"].startswith(events.known(jobs["avro"])[0].header)
    assert values["confluent"].startswith(events.known(jobs["confluent"])[0].header)
    assert (values["json"][:1], events.known(jobs["json"])) == (b"{", ())


def test_three_versions_of_the_schema_write_in_turn(part: Any, tmp_path: Path) -> None:
    """Each event with the fingerprint of its own version, and no other decoding than Avro's gives it back."""
    events = part("decode.events")
    job = events.job(tmp_path, "versions")
    encode, made = events.encoder(job), list(events.generate(6, seed=1))
    values, known = [encode(one) for one in made], events.known(job)
    assert [value[:10] for value in values] == [one.header for one in known] * 2
    assert len({one.header for one in known}) == 3
    for value, event, version in zip(values, made, [*known, *known], strict=True):
        read = fastavro.schemaless_reader(io.BytesIO(value[10:]), version.schema, job.event_schema)
        read["scheduled_at"] = round(read["scheduled_at"].timestamp() * 1000)
        assert read == event
