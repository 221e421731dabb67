"""What `cutwater init` makes of samples, from plain values."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.events.avro_events import AvroReader
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import CONFLUENT, CONFLUENT_JSON, WriterSchema, confluent_header
from cutwater.core.events.rejection import MAX_BEHIND_MS, NO_KEY, UNDECODABLE, Flaw
from cutwater.core.events.schema_inference import infer, parse_event, time_ms
from cutwater.core.job.drafts.draft_fields import SampleRow
from cutwater.core.job.drafts.draft_file import Draft, job_name, render, schema_name, text
from cutwater.core.job.drafts.draft_proposal import DAY, HOUR, MINUTE, Proposal, duration, propose
from cutwater.core.job.usable_events import Rejected
from cutwater.operations.format_detection import detect_format
from cutwater.operations.topic_sample import Sample

START = 1_700_000_000_000


def kinds(*events: Mapping[str, Any]) -> dict[str, str]:
    return dict(infer(events).kinds)


def why(name: str, *events: Mapping[str, Any]) -> str:
    return dict(infer(events).left_out)[name]


def test_init_asks_for_no_schema_of_what_is_no_avro() -> None:
    """A registry's framing holds JSON, too, whose schema is inferred."""
    told = b'\0\0\0\0\7{"customer":"a","qty":1}'
    samples = [Sample(0, at, START, None, told, 0) for at in range(3)]
    assert detect_format(samples, "orders", None, ()).format == CONFLUENT_JSON
    avro = [Sample(0, 0, START, None, b"\0\0\0\0\7\2a\2", 0)]
    with pytest.raises(UsageError, match="--schema FILE"):
        detect_format(avro, "orders", None, ())


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2024-05-01T10:00:00+02:00", "timestamp-millis"),
        ("2024-05-01T10:00:00+0000", "string"),
        ("2024-05-01T10:00:00+00", "string"),
        ("2024-05-01T10:00Z", "string"),
        ("2024-05-01T10:00:00.1234567891Z", "string"),
        ("20240501T100000Z", "string"),
    ],
)
def test_a_time_is_one_that_the_driver_takes(text: str, kind: str) -> None:
    """docs/EVENTS.md: all else would be drafted as a time, and each event then rejected."""
    assert kinds({"at": text}) == {"at": kind}


def test_names_that_differ_in_case_alone_and_nested_ones_are_left_out_by_name() -> None:
    """Spark does not tell `id` from `ID`; what is inside an object is named with it."""
    found = infer([{"id": "a", "ID": 1, "place": {"lat": 1.0, "lon": 2.0}, "list": [1]}])
    assert dict(found.kinds) == {"id": "string"}
    left = dict(found.left_out)
    assert left["ID"] == "it differs from 'id' in case alone, which Spark does not distinguish"
    by_hand = "of which the draft uses nothing: describe it in the schema to use it"
    assert left["place"] == f"it is an object, {by_hand}; it has lat, lon"
    assert left["list"] == f"it is a list, {by_hand}"


def test_no_key_is_proposed_for_changes_that_debezium_wrapped() -> None:
    """`op` has four values and was proposed; the key is inside of `after`."""
    wrapped = {"before": None, "after": {"id": 1}, "source": {"db": "x"}, "op": "c", "ts_ms": START}
    rows_of = [SampleRow(wrapped, 0, at, START, None) for at in range(3)]
    found = infer([wrapped])
    with pytest.raises(UsageError, match="ExtractNewRecordState"):
        propose(rows_of, found.kinds)
    assert propose(rows_of, found.kinds, key=("op",)).key == ("op",), "as the user said"


def test_types_are_the_widest_that_the_samples_show() -> None:
    """Whole numbers are long, mixed with fractions double; nulls and absence say nothing."""
    found = kinds({"a": 1, "b": 1, "c": True, "d": "x"}, {"a": None, "b": 1.5, "e": 2.0})
    assert found == {"a": "long", "b": "double", "c": "boolean", "d": "string", "e": "double"}


def test_times_are_told_by_form_name_and_range() -> None:
    """ISO 8601 text is a time; a number only if its name speaks of time and its size fits ms or us."""
    found = kinds(
        {
            "iso": "2024-05-01T10:00:00Z",
            "fine": "2024-05-01T10:00:00.123456+02:00",
            "day": "2024-05-01",
            "createdAt": START,
            "ts": START * 1000,
            "number": START,
            "time": 1_700_000_000,
        }
    )
    assert found == {
        "iso": "timestamp-millis",
        "fine": "timestamp-micros",
        "day": "string",
        "createdAt": "timestamp-millis",
        "ts": "timestamp-micros",
        "number": "long",
        "time": "long",
    }
    assert infer([{"number": START}], ["number"]).kinds == {"number": "timestamp-millis"}, "the user said so"


def test_what_cannot_be_a_field_is_left_out_with_a_reason() -> None:
    """Objects, lists, mixed types, odd names, too large numbers and fields that are always null."""
    assert "an object" in why("a", {"a": {"b": 1}})
    assert "a list" in why("a", {"a": [1]})
    assert "sometimes text and sometimes whole number" in why("a", {"a": 1}, {"a": "1"})
    assert "boolean" in why("a", {"a": 1}, {"a": True})
    assert "name" in why("a-b", {"a-b": 1})
    assert "name" in why("__x", {"__x": 1})
    assert "64 bits" in why("a", {"a": 2**63})
    assert "null" in why("a", {"a": None})


def test_only_what_every_sample_had_may_be_required() -> None:
    """Key and time are not nullable when no sample lacked them; everything else is, with default null."""
    inferred = infer([{"k": "a", "t": "x", "v": 1}, {"k": "b", "v": 2}])
    fields = {one["name"]: one for one in inferred.schema("E", ("k", "t"))["fields"]}
    assert fields["k"] == {"name": "k", "type": "string"}
    assert fields["t"] == {"name": "t", "type": ["null", "string"], "default": None}
    assert fields["v"]["default"] is None


@given(st.binary(max_size=50))
def test_bytes_that_are_no_object_are_no_event(value: bytes) -> None:
    """Anything may stand in a topic: it is an object, or there is a rule that it breaks."""
    assert isinstance(parse_event(value), Flaw | dict)


def test_times_in_each_form_are_the_same_moment() -> None:
    """Milliseconds, microseconds and ISO 8601, with and without a zone."""
    assert time_ms(START, "timestamp-millis") == START
    assert time_ms(START * 1000, "timestamp-micros") == START
    assert time_ms("2023-11-14T22:13:20Z", "timestamp-millis") == START
    assert time_ms("2023-11-14T22:13:20", "timestamp-millis") == START
    assert time_ms("soon", "timestamp-millis") is None


def rows(
    count: int, behind: Sequence[int] = (0,), *, keyed: bool = False, seed: int = 1, step_ms: int = 1_000
) -> list[SampleRow]:
    """One event a step, each so many ms behind the clock as `behind` says in turn."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        user = f"u{rng.randrange(5)}"
        event = {"id": f"e{number}", "user": user, "amount": rng.random(), "kind": rng.choice(["a", "b"])}
        at = START + number * step_ms - behind[number % len(behind)]
        event |= {"ingested_at": START + number * step_ms, "event_time": at}
        made.append(SampleRow(event, 0, number, START + number * step_ms, user if keyed else None))
    return made


KINDS = {
    "id": "string",
    "user": "string",
    "amount": "double",
    "kind": "string",
    "ingested_at": "timestamp-millis",
    "event_time": "timestamp-millis",
}


def test_key_and_time_are_those_that_a_person_would_take() -> None:
    """A field that repeats and sounds like a key; the time of the event, not of arrival; with figures."""
    found = propose(rows(100), KINDS)
    assert (found.key, found.event_time) == (("user",), "event_time")
    assert "5 different values in 100 samples" in found.key_why
    assert "ingested_at" in found.event_time_why


def test_the_records_key_decides() -> None:
    """A field that equals the Kafka record's key is the key, whatever it is called."""
    made = [SampleRow(one.event, 0, one.offset, one.timestamp_ms, one.event["kind"]) for one in rows(50)]
    assert propose(made, KINDS).key == ("kind",)


@pytest.mark.parametrize(("keyed", "key"), [(90, "kind"), (89, "user")])
def test_nine_of_ten_record_keys_are_enough(keyed: int, key: str) -> None:
    """Some producers write a record without a key now and then; where it is usual, the key says nothing."""
    made = [replace(one, key=one.event["kind"] if one.offset < keyed else None) for one in rows(100)]
    assert propose(made, KINDS).key == (key,)


def test_the_time_that_is_named_after_the_event_is_taken() -> None:
    """Before one that is named as a time alone, wherever it stands."""
    made = [replace(one, event={"time": START, "user": "u", "event_time": START}) for one in rows(20)]
    times = dict.fromkeys(("time", "event_time"), "timestamp-millis")
    assert propose(made, {**times, "user": "string"}).event_time == "event_time"


def test_five_other_fields_are_named_beside_the_one_that_is_taken() -> None:
    """A wide record has dozens that could be it: nobody reads them all."""
    names = [f"text_{number}" for number in range(9)]
    made = [replace(one, event={**one.event, **dict.fromkeys(names, "x")}) for one in rows(20)]
    why_key = propose(made, {**KINDS, **dict.fromkeys(names, "string")}).key_why
    assert why_key.endswith("; also possible: id, kind, text_0, text_1, text_2")


def test_what_the_user_says_goes() -> None:
    """--key and --event-time are taken, or refused with what the field is."""
    assert propose(rows(50), KINDS, key=("kind",), event_time="ingested_at").key == ("kind",)
    with pytest.raises(UsageError, match="'amount' is double and cannot be the key"):
        propose(rows(50), KINDS, key=("amount",))
    with pytest.raises(UsageError, match="'user' is string and cannot be the event time"):
        propose(rows(50), KINDS, event_time="user")
    with pytest.raises(UsageError, match="no sampled event has a usable field 'nothing'"):
        propose(rows(50), KINDS, key=("nothing",))
    with pytest.raises(UsageError, match="--event-time"):
        propose(rows(50), {"user": "string"})


def test_lateness_covers_the_disorder_that_was_seen() -> None:
    """Twice the 99.9 % quantile, rounded up; ordered events get the least."""
    assert propose(rows(100), KINDS).lateness_ms == 10_000
    late = propose(rows(100, behind=(0, 0, 0, 40 * MINUTE)), KINDS)
    assert late.lateness_ms == 2 * HOUR
    assert "behind" in late.lateness_why


def test_disorder_shows_even_where_record_timestamps_are_event_times() -> None:
    """Sorted by such timestamps nothing would be late: the offsets tell."""
    made = [
        SampleRow(one.event, 0, one.offset, one.event["event_time"], None)
        for one in rows(100, behind=(0, 40 * MINUTE))
    ]
    assert propose(made, KINDS).lateness_ms == 2 * HOUR


def test_one_event_in_a_thousand_is_not_waited_for() -> None:
    """The bound is a quantile: two of a thousand that are late raise it, and one does not."""
    for late, lateness_ms in ((1, 10_000), (2, 2 * HOUR)):
        behind = [40 * MINUTE] * late + [0] * (1_000 - late)
        assert propose(rows(1_000, behind=behind[::-1]), KINDS).lateness_ms == lateness_ms


def test_partitions_that_are_written_at_once_are_not_late_behind_one_another() -> None:
    """Each in order and at the same times: read side by side, as the driver does, nothing comes late."""
    both = [*rows(100), *(replace(one, partition=1) for one in rows(100))]
    assert propose(both, KINDS).lateness_ms == 10_000


def test_partitions_that_lag_behind_others_count_as_late() -> None:
    """Each partition in order, one of them 40 minutes behind at the same time: the watermark is one for all."""
    ahead = rows(50)
    behind = [replace(one, partition=1) for one in rows(50, behind=(40 * MINUTE,))]
    assert propose([*ahead, *behind], KINDS).lateness_ms == 2 * HOUR


def test_a_field_that_names_each_event_is_no_key() -> None:
    """An id of the event sounds like a key, but a group of one event each aggregates nothing."""
    found = propose(rows(100), {"id": "string", "kind": "string", "event_time": "timestamp-millis"})
    assert found.key == ("kind",)


def test_windows_hold_some_events_of_a_key() -> None:
    """Five keys, an event a second: a minute holds twelve of one key; an event a minute: an hour does."""
    assert propose(rows(600), KINDS).window_ms == MINUTE
    assert propose(rows(600, step_ms=MINUTE), KINDS).window_ms == HOUR


def test_far_futures_raise_max_ahead() -> None:
    """Event times ahead of their records by more than a day would be rejected by the default."""
    assert propose(rows(50), KINDS).max_ahead_ms == DAY
    assert propose(rows(50, behind=(-3 * DAY,)), KINDS).max_ahead_ms == 7 * DAY
    assert propose(rows(50, behind=(-1_000 * DAY,)), KINDS).max_ahead_ms == 3_650 * DAY


def test_durations_are_rounded_up_to_those_that_people_use() -> None:
    """Twice ten hours is a day, and no longer."""
    assert propose(rows(100, behind=(0, 10 * HOUR)), KINDS).lateness_ms == DAY


def test_one_wild_time_moves_no_bound() -> None:
    """An event of next year is rejected, and closes no window: neither bound nor lateness nor window is for it."""
    wild = replace(rows(1)[0], event={"user": "u1", "event_time": START + 400 * DAY})
    found = propose([*rows(60), wild], KINDS)
    assert (found.max_ahead_ms, found.lateness_ms, found.window_ms) == (DAY, 10_000, MINUTE)
    old = replace(wild, event={"user": "u1", "event_time": START - 60 * 365 * DAY})
    assert propose([*rows(60), old], KINDS).max_behind_ms == MAX_BEHIND_MS


def test_history_raises_max_behind_and_seconds_do_not() -> None:
    """Sixty years old is history; a number that is one of our days in seconds is a mistake, and told."""
    assert propose(rows(50, behind=(60 * 365 * DAY,)), KINDS).max_behind_ms == 36_500 * DAY
    for wrong in (START // 1_000, START * 1_000):
        made = [replace(one, event={"user": "u", "event_time": wrong}) for one in rows(50)]
        with pytest.raises(UsageError, match="in another unit than the schema says"):
            propose(made, KINDS)
    both = [replace(one, event={**one.event, "event_time": START // 1_000}) for one in rows(50)]
    assert propose(both, KINDS).event_time == "ingested_at", "the one that the driver takes"


def test_avro_times_in_another_unit_are_told_and_not_drafted() -> None:
    """Seconds and microseconds in a field of milliseconds: read, and no event time. Texts need not be UTF-8."""
    fields = [{"name": "k", "type": "bytes"}, {"name": "at", "type": "long"}]
    written = Codec({"type": "record", "name": "E", "fields": fields})
    types = ["string", {"type": "long", "logicalType": "timestamp-millis"}]
    schema = {
        **written.schema,
        "fields": [{**one, "type": type_} for one, type_ in zip(fields, types, strict=True)],
    }
    for unit, fits in ((1_000, True), (1, False), (1_000_000, False)):
        values = [written.body({"k": b"\xff", "at": START * unit // 1_000 + at}) for at in range(3)]
        read = AvroReader(CONFLUENT, schema, [WriterSchema(confluent_header(1), schema, "1")]).read
        events = [read(confluent_header(1) + one) for one in values]
        assert all(isinstance(one, dict) and one["k"] == "\udcff" for one in events)
        made = [SampleRow(one, 0, at, START, None) for at, one in enumerate(events) if isinstance(one, dict)]
        kinds_ = {"k": "string", "at": "timestamp-micros"}
        if fits:
            assert propose(made, kinds_).event_time == "at"
        else:
            with pytest.raises(UsageError, match="no sample has an event time in 'at' that can be used"):
                propose(made, kinds_)


def test_what_would_be_rejected_stands_in_the_draft() -> None:
    """With field and rule, as a comment; the example does not: a job file is for everybody's eyes."""
    flaws = [Rejected(Flaw(NO_KEY, "is null", "odd\nname: x"), 1_234, b"secret"),
             Rejected(Flaw(UNDECODABLE, "the record is empty"), 1, b"")]  # fmt: skip
    written = render(Draft("j", "t", "e.avsc", "json", 10, 2, 3, [], PROPOSAL, flaws))
    assert "# Would be rejected, 1,234 as 'no key': \"odd\\nname: x\" is null.\n" in written
    assert "# Would be rejected, 1 as 'undecodable': the record is empty.\n" in written
    assert "secret" not in written
    assert yaml.safe_load(written)["job"] == "j"


def test_no_record_that_is_read_says_why() -> None:
    """All of a topic's records begin as JSON and are none for the driver: the rule is told, and how often."""
    samples = [Sample(0, at, START, None, b'{"a":NaN}', 0) for at in range(3)]
    with pytest.raises(UsageError, match=r"none of 3 .* json .*: the record is no JSON object \(3 times\)"):
        detect_format(samples, "orders", None, ())


def test_measures_leave_identifiers_alone_and_names_are_unique() -> None:
    """A count, sums of numbers, how many kinds; not of ids; nothing twice by case."""
    found = propose(rows(100), {**KINDS, "order_id": "long", "Amount": "double"}).measures
    assert set(found) == {"events", "total_amount", "max_amount", "distinct_kind"}


PROPOSAL = Proposal(
    ("k",),
    "why: # not",
    "t",
    "why",
    MINUTE,
    "w",
    HOUR,
    "l",
    7 * DAY,
    DAY,
    MAX_BEHIND_MS,
    {"events": ("count", None)},
)


@given(st.text(min_size=1, max_size=30))
def test_any_text_survives_yaml(value: str) -> None:
    """Field names and topics come from strangers: what is written is read back."""
    assert yaml.safe_load(f"a: {text(value)}")["a"] == value


@pytest.mark.parametrize("word", ["on", "No", "null", "1", "1.5", "a: b", "# c", "2024-01-01", "x\ny"])
def test_words_that_yaml_takes_for_something_else_are_quoted(word: str) -> None:
    """YAML's booleans, numbers and marks stay text."""
    assert yaml.safe_load(f"a: {text(word)}")["a"] == word


def test_the_draft_is_yaml_and_says_why() -> None:
    """Comments carry the reasons and what was left out, and break nothing, line breaks in names included."""
    draft = Draft("j", "t", "e.avsc", "json", 10, 2, 3, [("odd\nname: x", "it is a list")], PROPOSAL)
    written = render(draft)
    found = yaml.safe_load(written)
    assert found["source"] == {"topic": "t", "format": "json", "schema": "e.avsc", "key": "k", "event_time": "t"}
    assert (found["lateness"], found["partitions"]) == ("1h", 3)
    assert json.dumps("odd\nname: x") in written
    assert "2 further records" in written


def test_names_from_topics() -> None:
    """A job's name fits the job file's rule whatever the topic is called."""
    found = [job_name(one) for one in ("Orders.v1.events", "flights.events", "events", "2024_data", "ORDER-EVENT")]
    assert found == ["orders-v1", "flights", "events", "job-2024-data", "order"]
    assert schema_name("orders-v1") == "OrdersV1Event"


def test_durations_are_written_as_a_person_would() -> None:
    """The largest unit that divides."""
    assert [duration(ms) for ms in (DAY, 36 * HOUR, 90_000, 1_500)] == ["1d", "36h", "90s", "1500ms"]


def timed(*events: dict[str, Any]) -> list[SampleRow]:
    return [SampleRow({"user": "u", **event}, 0, at, START, None) for at, event in enumerate(events)]


def test_a_name_that_speaks_of_time_outweighs_a_missing_sample() -> None:
    """Nine of ten under that name, before ten of ten under another."""
    both, one = {"x": START, "time": START}, {"x": START}
    types = {"user": "string", "x": "timestamp-millis", "time": "timestamp-millis"}
    assert propose(timed(*[both] * 9, one), types).event_time == "time"
    assert propose(timed(*[both] * 7, *[one] * 3), types).event_time == "x"


def test_the_only_sample_decides_which_time_is_there() -> None:
    types = {"user": "string", "event_time": "timestamp-millis", "ingested": "timestamp-millis"}
    assert propose(timed({"ingested": START}), types).event_time == "ingested"


def test_records_without_a_timestamp_are_the_oldest() -> None:
    """Some of a topic's may have none."""
    some = timed(*[{"time": START + at * 1_000} for at in range(4)])
    mixed = [replace(one, timestamp_ms=None) if at % 2 else one for at, one in enumerate(some)]
    assert propose(mixed, {"user": "string", "time": "timestamp-millis"}).lateness_ms == 10_000


def test_fields_with_long_names_are_not_measured() -> None:
    short, long = "a" * 50, "b" * 51
    types = {"user": "string", "time": "timestamp-millis", short: "long", long: "long"}
    found = propose(timed({"time": START, short: 1, long: 1}), types).measures
    assert set(found) == {"events", f"total_{short}", f"max_{short}"}
