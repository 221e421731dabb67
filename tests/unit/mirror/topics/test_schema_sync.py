"""A mirror copies the schemas that events name by number, and stops them where a number is another schema here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.event_encoder import event_encoder, known_schemas
from cutwater.adapters.events.registry import Registry
from cutwater.core.events.formats import CONFLUENT, EventFormat, RegistryUse, confluent_header, confluent_numbers
from cutwater.core.job.job import Job
from cutwater.core.mirror.gaps import SCHEMAS, Gap
from cutwater.mirror.metrics import Metrics
from cutwater.mirror.topics.schema_sync import AGAIN_S, RETRY_S, STRANGE_MAX, Schemas, schemas_of
from support.events.registries import StandIn, apicurio
from support.views.changelogs import make_job
from support.views.snapshots import Told

V1 = {"type": "record", "name": "Event", "namespace": "test", "fields": [{"name": "n", "type": "int"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "unit", "type": "string", "default": "kg"}]}
V3 = {**V2, "fields": [*V2["fields"], {"name": "of", "type": "string", "default": ""}]}
OTHER = {**V1, "name": "Other"}
SUBJECT = "shop-value"


@pytest.fixture
def registries() -> Iterator[tuple[StandIn, StandIn]]:
    """There, and here."""
    with StandIn().running() as there, StandIn().running() as here:
        yield there, here


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return replace(make_job(tmp_path)[0], format=EventFormat(CONFLUENT, subject=SUBJECT))


class Looking:
    """A mirror's schemas with what they say, and a clock that stands still."""

    def __init__(self, job: Job, there: str, here: str) -> None:
        self.told, self.metrics, self.now_s = Told(), Metrics(), 1000.0
        settings = Settings(origin_registry_url=there, registry_url=here)
        self.schemas = schemas_of(job, settings, self.told, self.metrics, lambda: self.now_s)

    def look(self, *numbers: int) -> Gap | None:
        assert isinstance(self.schemas, Schemas)
        self.told.lines.clear()
        return self.schemas.look(numbers)

    def value(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"cutwater_mirror_schemas_{name}")


@pytest.fixture
def looking(job: Job, registries: tuple[StandIn, StandIn]) -> Callable[[], Looking]:
    return lambda: Looking(job, registries[0].url, registries[1].url)


def register(at: StandIn, *schemas: dict[str, Any], subject: str = SUBJECT) -> list[int]:
    with Registry(at.url) as registry:
        return [registry.register(subject, one) for one in schemas]


def standing(at: StandIn, subject: str = SUBJECT) -> list[tuple[int, int, dict[str, Any]]]:
    with Registry(at.url) as registry:
        return [(one.version, one.id, one.schema) for one in reversed(registry.versions(subject))]


def test_events_of_two_versions_are_read_by_what_the_registry_here_says(
    job: Job, registries: tuple[StandIn, StandIn], looking: Callable[[], Looking]
) -> None:
    """Neither the numbers nor the versions begin at one; the mode is put back, and again nothing changes."""
    there, here = registries
    register(there, OTHER, V3, subject="others")
    with Registry(there.url) as registry:
        jobs = [replace(job, event_schema=schema) for schema in (V1, V2)]
        rows = [{"n": 5}, {"n": 6, "unit": "t"}]
        events = [event_encoder(one, registry)(row) for one, row in zip(jobs, rows, strict=True)]
    assert confluent_numbers(events) == {3, 4}
    mirror = looking()
    assert mirror.look() is None
    assert standing(here) == [(1, 3, V1), (2, 4, V2)] == standing(there)
    with Registry(here.url) as registry:
        known = {one.header: one.schema for one in known_schemas(job, registry)}
    read = [Codec(known[event[:5]]).decode(Codec(known[event[:5]]).header + event[5:]) for event in events]
    assert read == rows
    assert here.modes == {}
    assert (mirror.value("copied_total"), mirror.value("missing")) == (2, 0)
    assert [line[1] for line in mirror.told.lines] == ["schemas copied", "schemas"]

    here.closed_to_writes = 403
    again = looking()
    assert again.look() is None
    ((level, text, about),) = again.told.lines
    assert (level, text, about["found"]) == (
        "info",
        "schemas",
        "all 2 versions of the origin are registered here under their ids",
    )
    assert again.value("copied_total") == 0


def test_a_new_number_is_copied_before_the_event_that_names_it(
    registries: tuple[StandIn, StandIn], looking: Callable[[], Looking]
) -> None:
    """Into a subject that is not empty. Numbers that are nobody's are asked about once, until it is time again."""
    there, here = registries
    register(there, V1)
    mirror = looking()
    assert mirror.look() is None
    (number,) = register(there, V2)
    asked = there.requests
    assert mirror.look(1) is None
    assert there.requests == asked, "nothing new"
    assert mirror.look(1, number) is None
    assert standing(here) == standing(there)
    asked = there.requests
    assert mirror.look(77) is None
    assert there.requests > asked
    asked = there.requests
    assert mirror.look(77) is None
    assert there.requests == asked
    mirror.look(*range(1000, 1000 + STRANGE_MAX))
    asked = there.requests
    assert mirror.look(78) is None
    assert there.requests == asked
    register(there, V3)
    mirror.now_s += AGAIN_S + 1
    assert mirror.look() is None
    assert standing(here) == standing(there)


def test_a_number_that_is_another_schema_here_is_a_gap(
    registries: tuple[StandIn, StandIn], looking: Callable[[], Looking]
) -> None:
    """In the subject or elsewhere in the registry; nothing is written, and nothing is overwritten."""
    there, here = registries
    register(there, V1, V2)
    register(here, OTHER, subject="elsewhere")
    for more in ([], [V3]):
        register(here, *more)
        before = [standing(here, "elsewhere"), standing(here) if more else []]
        gap = looking().look()
        assert gap is not None
        assert gap.cause == SCHEMAS
        shown = f"{SUBJECT} version 1, number 1 ({Codec(V1).header[2:].hex()}): number 1 is another schema here"
        assert shown in gap.text
        assert Codec(OTHER).header[2:].hex() in gap.text
        assert "restart the mirror" in gap.text
        assert [standing(here, "elsewhere"), standing(here) if more else []] == before
        assert here.modes == {}
    assert f"{SUBJECT} version 2, number 2" in gap.text
    assert "another schema here" in gap.text


@pytest.mark.slow
def test_a_version_that_stands_here_is_not_overwritten(
    registries: tuple[StandIn, StandIn], looking: Callable[[], Looking]
) -> None:
    """It was registered here for itself, under a number of this registry: said, counted, and not a gap."""
    there, here = registries
    register(there, V1, V2)
    with Registry(here.url) as registry:
        registry.call("PUT", "/mode/shop-value", SUBJECT, None, {"mode": "IMPORT"})
        body = {"schema": '"int"', "id": 9, "version": 2}
        registry.call("POST", f"/subjects/{SUBJECT}/versions", SUBJECT, None, body)
    here.modes.clear()
    mirror = looking()
    assert mirror.look() is None
    assert httpx.get(f"{here.url}/subjects/{SUBJECT}/versions/2").json()["id"] == 9
    ((level, text, about),) = [one for one in mirror.told.lines if one[0] == "error"]
    assert (level, text, about["count"]) == ("error", "schemas differ", 1)
    assert f"{SUBJECT} version 2, number 9 (" in about["reason"]
    assert "its place is taken by" in about["reason"]
    assert mirror.value("missing") == 1


@pytest.mark.slow
def test_a_version_that_is_registered_meanwhile_is_not_overwritten(
    registries: tuple[StandIn, StandIn], looking: Callable[[], Looking], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the change of the mode, behind which nobody can."""
    there, here = registries
    register(there, V1)
    turn = StandIn._mode

    def slow(self: StandIn, method: str, subject: str, query: str, body: Any) -> tuple[int, Any]:
        if method == "PUT" and body["mode"] == "IMPORT":
            self._ids[5] = {"schema": '"int"', "references": []}
            entry = {"subject": subject, "version": 1, "id": 5, "schema": '"int"', "deleted": False}
            self._subjects[subject] = [entry]
        return turn(self, method, subject, query, body)

    monkeypatch.setattr(StandIn, "_mode", slow)
    mirror = looking()
    assert mirror.look() is None
    assert "version 1 of shop-value was registered here meanwhile" in mirror.told.errors()
    assert [one["id"] for one in here._subjects[SUBJECT]] == [5]
    assert here.modes == {}


@pytest.mark.slow
def test_where_nothing_may_be_written_it_is_compared(
    registries: tuple[StandIn, StandIn], looking: Callable[[], Looking]
) -> None:
    """Refused, or made read only: no gap, the reason said once; a conflict is one all the same."""
    there, here = registries
    register(there, V1)
    for status in (401, 403):
        here.closed_to_writes = status
        mirror = looking()
        assert mirror.look() is None
        ((level, text, about),) = mirror.told.lines
        assert (level, text, about["count"]) == ("error", "schemas differ", 1)
        assert "schemas are only compared, because the registry here refuses writes" in about["reason"]
        assert f"({status}): set CUTWATER_REGISTRY_USERNAME" in about["reason"]
        assert f"{SUBJECT} version 1, number 1 (" in about["reason"]
        assert mirror.value("missing") == 1
        mirror.now_s += RETRY_S + 1
        assert mirror.look() is None
        assert mirror.told.lines == [], "it was said"
    here.closed_to_writes = 0
    mirror.now_s += RETRY_S + 1
    mirror.look()
    assert standing(here) == standing(there)
    for subject in (SUBJECT, ""):
        here.modes = {subject: "READONLY"}
        register(there, V2)
        mirror = looking()
        mirror.look()
        assert "is READONLY for shop-value" in mirror.told.errors()
        assert here.modes == {subject: "READONLY"}
    here.modes.clear()
    register(here, OTHER)
    here.closed_to_writes = 403
    gap = looking().look()
    assert gap is not None
    assert gap.cause == SCHEMAS


@pytest.mark.slow
def test_a_registry_without_modes_is_said(
    registries: tuple[StandIn, StandIn], looking: Callable[[], Looking]
) -> None:
    """As Apicurio's: nothing is registered under another number there."""
    there, here = registries
    register(there, V1)
    here.knows_modes = False
    mirror = looking()
    assert mirror.look() is None
    assert "refuses mode IMPORT for shop-value" in mirror.told.errors()
    assert f"{SUBJECT} version 1, number 1 (" in mirror.told.errors()
    assert here._subjects == {}


@pytest.mark.slow
def test_a_registry_that_takes_the_schema_and_not_its_number_is_found(
    registries: tuple[StandIn, StandIn], looking: Callable[[], Looking], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written is read back."""
    there, _ = registries
    register(there, OTHER, subject="others")
    register(there, V1)
    take = StandIn._register

    def numbering(self: StandIn, subject: str, body: Any) -> tuple[int, Any]:
        self.modes.clear()
        return take(self, subject, {"schema": body["schema"]})

    monkeypatch.setattr(StandIn, "_register", numbering)
    mirror = looking()
    mirror.look()
    assert f"accepted {SUBJECT} version 1, number 2 (" in mirror.told.errors()
    assert f"but returns {SUBJECT} version 1, number 1 (" in mirror.told.errors()


@pytest.mark.slow
def test_real_registries(job: Job, registries: tuple[StandIn, StandIn], tmp_path: Path) -> None:
    """Apicurio's is copied from; copied into it is nothing, since it would give numbers of its own."""
    ours, _ = registries
    register(ours, V1, subject="others")
    register(ours, V1, V2)
    with apicurio(tmp_path) as url:
        into = Looking(job, ours.url, url)
        assert into.look() is None
        assert "refuses mode IMPORT for shop-value" in into.told.errors()
        assert httpx.get(f"{url}/subjects").json() == []
        with Registry(url) as registry:
            numbers = [registry.register(SUBJECT, one) for one in (OTHER, V3)]
        ours._subjects.clear()
        ours._ids.clear()
        outof = Looking(job, url, ours.url)
        assert outof.look() is None
        assert outof.told.errors() == ""
        assert standing(ours) == [(1, numbers[0], OTHER), (2, numbers[1], V3)]


@pytest.mark.slow
def test_what_a_schema_refers_to_is_copied_first(
    registries: tuple[StandIn, StandIn], looking: Callable[[], Looking]
) -> None:
    """One through another; where another schema stands in the place of one, nothing is copied."""
    there, here = registries
    register(there, {"type": "enum", "name": "test.Unit", "symbols": ["KG"]}, subject="unit")
    weight = {"type": "record", "name": "test.Weight", "fields": [{"name": "unit", "type": "test.Unit"}]}
    event = {**V1, "fields": [{"name": "weight", "type": "test.Weight"}]}
    with Registry(there.url) as registry:
        for subject, schema, name, of in (
            ("weight", weight, "test.Unit", "unit"),
            (SUBJECT, event, "test.Weight", "weight"),
        ):
            references = [{"name": name, "subject": of, "version": 1}]
            body = {"schema": json.dumps(schema), "references": references}
            registry.call("POST", f"/subjects/{subject}/versions", subject, None, body)
    register(here, OTHER, subject="unit")
    here._ids[50] = here._ids.pop(1)
    here._subjects["unit"][0]["id"] = 50
    mirror = looking()
    assert mirror.look() is None
    assert "refers to unit version 1, number 1" in mirror.told.errors()
    assert list(here._subjects) == ["unit"]
    here._subjects.clear()
    mirror = looking()
    assert mirror.look() is None
    assert mirror.told.errors() == ""
    assert here._subjects == {name: there._subjects[name] for name in ("unit", "weight", SUBJECT)}
    assert list(here._subjects) == ["unit", "weight", SUBJECT]


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (7, "refers to version 7 of unit, which the origin's registry does not have"),
        (1, "refers to itself through others"),
    ],
)
def test_references_that_lead_nowhere_are_said(
    registries: tuple[StandIn, StandIn], looking: Callable[[], Looking], version: int, said: str
) -> None:
    """A missing one, and a circle, which no registry accepts: nothing is copied."""
    there, here = registries
    with Registry(there.url) as registry:
        for subject, of, of_version in (("unit", SUBJECT, 1), (SUBJECT, "unit", version)):
            references = [{"name": of, "subject": of, "version": of_version}]
            body = {"schema": json.dumps(V1), "references": references}
            registry.call("POST", f"/subjects/{subject}/versions", subject, None, body)
    mirror = looking()
    assert mirror.look() is None
    assert said in mirror.told.errors()
    assert here._subjects == {}


def test_a_mode_that_could_not_be_put_back_is_put_back_later(
    registries: tuple[StandIn, StandIn], looking: Callable[[], Looking], monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = registries
    register(there, V1)
    here.modes = {SUBJECT: "READWRITE"}
    turn = StandIn._mode

    def stuck(self: StandIn, method: str, subject: str, query: str, body: Any) -> tuple[int, Any]:
        if method == "PUT" and body["mode"] != "IMPORT":
            return 422, {"error_code": 42205, "message": "not now"}
        return turn(self, method, subject, query, body)

    mirror = looking()
    with monkeypatch.context() as patch:
        patch.setattr(StandIn, "_mode", stuck)
        assert mirror.look() is None
    ((level, text, about),) = mirror.told.lines
    assert (level, text) == ("warning", "schemas not compared")
    assert "was left at IMPORT" in about["reason"]
    assert "set it back to READWRITE" in about["reason"]
    killed = looking()
    killed.look()
    assert killed.told.lines[-1][1] == "subject is in mode IMPORT"
    mirror.now_s += RETRY_S + 1
    assert mirror.look() is None
    assert here.modes == {SUBJECT: "READWRITE"}
    assert standing(here) == standing(there)


@pytest.mark.slow
def test_what_cannot_be_asked_is_said_and_asked_again(
    registries: tuple[StandIn, StandIn], looking: Callable[[], Looking]
) -> None:
    there, here = registries
    register(there, V1)
    here.faults = [500, 500]
    mirror = looking()
    assert mirror.look() is None
    ((level, text, about),) = mirror.told.lines
    assert (level, text) == ("warning", "schemas not compared")
    assert "answers 500" in about["reason"]
    asked = here.requests
    assert mirror.look(5) is None
    assert here.requests == asked, "nothing is copied meanwhile: not at every event"
    mirror.now_s += RETRY_S + 1
    assert mirror.look() is None
    assert standing(here) == standing(there)


@pytest.mark.slow
def test_a_look_ends(registries: tuple[StandIn, StandIn], looking: Callable[[], Looking]) -> None:
    """A slow registry holds nothing up for long, and the next look goes on where this one was."""
    there, _ = registries
    register(there, V1)
    mirror = looking()
    answer = there.answer

    def slow(*request: Any) -> tuple[int, Any]:
        mirror.now_s += 21
        return answer(*request)

    there.answer = slow  # type: ignore[method-assign]
    assert mirror.look() is None
    assert "took more than 20.0 s" in mirror.told.lines[0][2]["reason"]


@pytest.mark.slow
def test_a_registry_that_lets_nobody_in_does_not_differ(
    registries: tuple[StandIn, StandIn], looking: Callable[[], Looking]
) -> None:
    """Here or there: nothing was compared, and the settings are named that let the mirror in."""
    there, here = registries
    register(there, V1)
    for closed, setting in ((here, "CUTWATER_REGISTRY"), (there, "CUTWATER_ORIGIN_REGISTRY")):
        closed.login = ("mirror", "secret")
        for status in (401, 403):
            closed.faults = [] if status == 401 else [status]
            mirror = looking()
            assert mirror.look() is None
            ((level, text, about),) = mirror.told.lines
            assert (level, text) == ("warning", "schemas not compared")
            wanted = f"refuses this client ({status}): set {setting}_USERNAME and {setting}_PASSWORD"
            assert wanted in about["reason"]
        closed.login = None


def test_one_registry_and_events_without_numbers_need_no_look(job: Job) -> None:
    one = replace(job, registry=RegistryUse(url="http://127.0.0.1:1/"))
    found = Looking(one, "", "")
    ((level, _, about),) = found.told.lines
    assert (found.schemas, level, about["found"]) == (None, "info", "both regions use one registry")
    found = Looking(replace(job, format=EventFormat()), "http://127.0.0.1:1/", "http://127.0.0.1:2/")
    assert (found.schemas, found.told.lines) == (None, [])
    found = Looking(job, "", "http://127.0.0.1:1/")
    ((level, text, about),) = found.told.lines
    assert (found.schemas, level, text) == (None, "warning", "schemas not compared")
    assert about["reason"].startswith("CUTWATER_ORIGIN_REGISTRY_URL is not set")


def test_the_numbers_that_events_name() -> None:
    """Tombstones, JSON, other framings and what is cut short name none."""
    values = [None, b"", b"\0\0\0\1", b"{}", Codec(V1).header, confluent_header(7) + b"x", confluent_header(9)]
    assert confluent_numbers(values) == {7, 9}
