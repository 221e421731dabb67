"""The schema registry: one suite against a real one and a stand-in, and the stand-in's faults."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

import cutwater.adapters.events.registry as client
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.avro_events import AvroReader
from cutwater.adapters.events.event_encoder import event_encoder, known_schemas, unreadable
from cutwater.adapters.events.registry import Registry, registry_for
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.events.formats import CONFLUENT as CONFLUENT_KIND
from cutwater.core.events.formats import confluent_header
from cutwater.core.events.rejection import Flaw
from cutwater.core.job.event_decoding import Decoding
from support.events import wide
from support.events.registries import StandIn
from support.naming import unique

V1 = {"type": "record", "name": "Event", "namespace": "test", "fields": [{"name": "n", "type": "int"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "unit", "type": "string", "default": "kg"}]}
CONFLUENT = "format: confluent, registry: 'http://127.0.0.1:1'"


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with StandIn().running() as registry:
        yield registry


@pytest.mark.slow
def test_registered_versions_come_back_with_their_numbers(url: str) -> None:
    """Two schemas under a subject: both versions, the newest first, each with the number of its registration."""
    subject = unique("orders") + "-value"
    with Registry(url) as registry:
        numbers = [registry.register(subject, one) for one in (V1, V2)]
        found = registry.versions(subject)
    assert [(one.version, one.id) for one in found] == [(2, numbers[1]), (1, numbers[0])]
    assert [Codec(one.schema).header for one in found] == [Codec(V2).header, Codec(V1).header]


def test_registering_again_gives_the_same_number(url: str) -> None:
    """A producer that starts a second time adds no version."""
    subject = unique("again") + "-value"
    with Registry(url) as registry:
        assert registry.register(subject, V1) == registry.register(subject, V1)
        assert len(registry.versions(subject)) == 1


def test_without_auto_register_only_what_is_there_has_a_number(url: str) -> None:
    """Nothing is registered by the way; what somebody has registered is found, both ways."""
    subject = unique("own") + "-value"
    with Registry(url) as registry:
        with pytest.raises(UsageError, match=rf"Event under {subject}, and registry\.auto_register is false"):
            registry.number_of(subject, V1, auto_register=False)
        with pytest.raises(UsageError, match="has no subject"):
            registry.versions(subject)
        number = registry.number_of(subject, V1, auto_register=True)
        assert registry.number_of(subject, V1, auto_register=False) == number
        with pytest.raises(UsageError, match="auto_register is false"):
            registry.number_of(subject, V2, auto_register=False)
        assert Codec(registry.schema(number)).header == Codec(V1).header
        with pytest.raises(UsageError, match="number 77777777"):
            registry.schema(77_777_777)


def test_a_subject_that_does_not_exist_is_named_with_what_to_do(url: str) -> None:
    """404 is the user's to mend."""
    with Registry(url) as registry, pytest.raises(UsageError, match=r"has no subject nobody.*schemas register"):
        registry.versions("nobody")


def test_a_subject_s_name_may_hold_anything(url: str) -> None:
    """Slashes and spaces are quoted on the way."""
    subject = unique("a b%c") + "-value"
    with Registry(url) as registry:
        registry.register(subject, V1)
        assert len(registry.versions(subject)) == 1


def test_events_are_framed_with_the_registry_s_number(url: str, tmp_path: Path) -> None:
    """Zero byte, number, body; and the query learns every number of the subject, with what it cannot read."""
    job = _job(tmp_path, unique("framed"))
    with Registry(url) as registry:
        old = registry.register(job.format.subject, V1)
        foreign = registry.register(unique("other"), {**V1, "name": "Other"})
        value = event_encoder(job, registry)({"n": 3, "unit": "t"})
        known = known_schemas(job, registry)
    assert value[5:] == Codec(V2).body({"n": 3, "unit": "t"})
    assert [one.header for one in known] == [value[:5], confluent_header(old)]
    assert confluent_header(foreign) not in {one.header for one in known}
    assert unreadable(job, known) == []
    narrower = replace(job, event_schema={**V1, "fields": [{"name": "n", "type": "string"}]})
    assert [line.split(": ")[1] for line in unreadable(narrower, known)] == ["n", "n"]


def _job(folder: Path, subject: str) -> Any:
    job = wide.job(folder, wide.SCHEMA, CONFLUENT)
    return replace(job, event_schema=V2, format=replace(job.format, subject=subject))


def test_deleted_versions_are_read_too(stand_in: StandIn) -> None:
    """A version that was deleted softly may have written events that are still kept."""
    with Registry(stand_in.url) as registry:
        registry.register("gone", V1)
        registry.register("gone", V2)
        assert httpx.delete(f"{stand_in.url}/subjects/gone/versions/1").status_code == 200
        assert [one.version for one in registry.versions("gone")] == [2, 1]


def test_faults_that_pass_are_tried_again(stand_in: StandIn) -> None:
    """500, 503 and 429 before each answer: the caller sees none of them."""
    with Registry(stand_in.url) as registry:
        stand_in.faults = [500, 503, 429]
        registry.register("orders", V1)
    assert stand_in.requests == 4
    assert stand_in.faults == []


@pytest.mark.slow
def test_a_fault_that_stays_ends_within_the_attempts(stand_in: StandIn) -> None:
    """Bounded: so many requests and no more, then exit code 4 with the address and the registry's word."""
    stand_in.faults = [500] * 10
    with (
        Registry(stand_in.url, attempts=3) as registry,
        pytest.raises(UnavailableError, match=r"answers 500: .*demand"),
    ):
        registry.versions("orders")
    assert stand_in.requests == 3


def test_a_slow_registry_is_given_up(stand_in: StandIn) -> None:
    """An answer that does not come within the time limit counts as a failed attempt."""
    stand_in.delay_s = 1.0
    with (
        Registry(stand_in.url, timeout_s=0.1, attempts=2) as registry,
        pytest.raises(UnavailableError, match=r"does not answer .ReadTimeout."),
    ):
        registry.versions("orders")
    assert stand_in.requests >= 1


@pytest.mark.slow
def test_a_registry_that_is_not_there_is_named() -> None:
    """Nobody listens: the address, and the setting that names it."""
    with (
        Registry("http://127.0.0.1:1", attempts=2) as registry,
        pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1 does not answer .*CUTWATER_REGISTRY_URL"),
    ):
        registry.versions("orders")


def test_an_answer_without_end_is_not_read(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up at the bound; just below it is read."""
    monkeypatch.setattr(client, "ANSWER_BYTES_MAX", 1_000)
    with Registry(stand_in.url) as registry:
        monkeypatch.setattr(stand_in, "answer", lambda *_: (200, "x" * 998))
        assert registry.call("GET", "/subjects", "") == "x" * 998
        monkeypatch.setattr(stand_in, "answer", lambda *_: (200, "x" * 999))
        with pytest.raises(UsageError, match="answers with more than 1,000 bytes"):
            registry.call("GET", "/subjects", "")


@pytest.mark.slow
def test_a_login_is_sent_and_a_refusal_names_the_settings(stand_in: StandIn, tmp_path: Path) -> None:
    """401 is not tried again; with the right user it works; the password is in no message."""
    stand_in.login = ("ann", "s3cret-word")
    job = wide.job(tmp_path, wide.SCHEMA, CONFLUENT)
    wrong = Settings(registry_url=stand_in.url, registry_username="ann", registry_password="wr0ng-word")
    registry = registry_for(job, wrong)
    assert registry is not None
    with registry, pytest.raises(UsageError, match="CUTWATER_REGISTRY_USERNAME") as refused:
        registry.versions("orders")
    assert "wr0ng-word" not in str(refused.value)
    assert stand_in.requests == 1
    right = registry_for(job, wrong.model_copy(update={"registry_password": SecretStr("s3cret-word")}))
    assert right is not None
    with right:
        assert right.register("orders", V1) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            {"schemaType": "PROTOBUF"},
            "is PROTOBUF, and source.format reads AVRO: set source.format: confluent-protobuf",
        ),
        (
            {"references": [{"name": "a", "subject": "b", "version": 1}]},
            "refers to version 1 of b, which the registry does not have",
        ),
        ({"schema": '"int"'}, "the schema of an event must be a record"),
        ({"schema": '{"type": "record"}'}, "not an Avro schema"),
    ],
)
def test_a_subject_of_no_use_is_named(stand_in: StandIn, tmp_path: Path, body: dict[str, Any], said: str) -> None:
    """Where there is no other: what the registry holds is checked like a file, with version and reason."""
    schema = '{"type": "record", "name": "A", "fields": []}'
    httpx.post(f"{stand_in.url}/subjects/odd/versions", json={"schema": schema, **body})
    job = _job(tmp_path, "odd")
    with Registry(stand_in.url) as registry, pytest.raises(UsageError, match=said):
        known_schemas(job, registry)


@pytest.mark.slow
def test_an_address_that_is_no_registry_is_named(stand_in: StandIn) -> None:
    """Another service, or a wrong path: the answer's code and the address."""
    with (
        Registry(stand_in.url + "/elsewhere") as registry,
        pytest.raises(UsageError, match="elsewhere has no subject"),
    ):
        registry.versions("orders")


@pytest.mark.slow
def test_a_refused_schema_shows_the_registry_s_reason(stand_in: StandIn) -> None:
    """409: the registry's own rule of compatibility."""
    stand_in.faults = [409]
    with (
        Registry(stand_in.url) as registry,
        pytest.raises(UsageError, match=r"incompatible with orders: .*demand"),
    ):
        registry.register("orders", V1)


def test_the_environment_goes_before_the_job_file(tmp_path: Path) -> None:
    """CUTWATER_REGISTRY_URL, else source.registry, else a message; other formats have no registry."""
    job = wide.job(tmp_path, wide.SCHEMA, "format: confluent")
    assert job.format.subject == "wide.events-value"
    with pytest.raises(UsageError, match=r"source\.format confluent needs it: set registry\.url or CUTWATER"):
        registry_for(job, Settings())
    assert registry_for(wide.job(tmp_path, wide.SCHEMA), Settings()) is None
    with pytest.raises(UsageError, match="format confluent need a schema registry"):
        known_schemas(job, None)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"schemaType": "PROTOBUF"}, "is PROTOBUF"),
        (
            {"references": [{"name": "a", "subject": "b", "version": 1}]},
            "refers to version 1 of b, which the registry does not have",
        ),
        ({"schema": '{"type": "record"}'}, "not an Avro schema"),
        (
            {"schema": json.dumps({**V1, "fields": [{"name": "a-b", "type": "int"}]})},
            "field 'a-b': no name that Avro",
        ),
        (
            {"schema": '{"type": "record", "name": "A", "fields": [{"name": "x", "type": DEEP}]}'},
            "more than 100 types",
        ),
    ],
)
def test_one_version_that_is_no_use_is_in_no_one_s_way(
    stand_in: StandIn, tmp_path: Path, body: dict[str, Any], said: str
) -> None:
    """The others are read; of it a reason is known, for the log and for each of its events."""
    deep = '{"type": "array", "items": ' * 200 + '"int"' + "}" * 200
    body = {key: one.replace("DEEP", deep) if isinstance(one, str) else one for key, one in body.items()}
    job = _job(tmp_path, "mixed-value")
    with Registry(stand_in.url) as registry:
        registry.register("mixed-value", V1)
        httpx.post(f"{stand_in.url}/subjects/mixed-value/versions", json={"schema": json.dumps(V2), **body})
        known = known_schemas(job, registry)
    assert [bool(one.problem) for one in known] == [True, False]
    assert said in known[0].problem
    (line,) = unreadable(job, known)
    assert line.startswith(f"schema {known[0].name}: version 2 of mixed-value at ")
    assert said in line
    flaw = AvroReader(CONFLUENT_KIND, job.event_schema, known).read(known[0].header + b"\x02")
    assert isinstance(flaw, Flaw)
    assert said in flaw.rule
    parsed = Decoding.parse(Decoding.of(job, known).text)
    assert parsed.known == known, "a query that goes on says the same"
