"""What a mirror says at its start of the registries of both regions: events name schemas by number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from changelogs import make_job
from snapshots import Told

from cutwater.adapters.registry import Registry
from cutwater.adapters.settings import Settings
from cutwater.core.formats import CONFLUENT, EventFormat, RegistryUse
from cutwater.core.job import Job
from cutwater.core.schema_numbers import differing
from cutwater.mirror.schemas import compare_registries
from registries import StandIn

V1 = {"type": "record", "name": "Event", "namespace": "test", "fields": [{"name": "n", "type": "int"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "unit", "type": "string", "default": "kg"}]}
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


def register(at: StandIn, *schemas: dict[str, Any]) -> None:
    with Registry(at.url) as registry:
        for one in schemas:
            registry.register(SUBJECT, one)


def said(job: Job, there: str = "", here: str = "") -> list[tuple[str, str, dict[str, Any]]]:
    told = Told()
    compare_registries(job, Settings(origin_registry_url=there, registry_url=here), told)
    return told.lines


def test_equal_numbers_are_said(job: Job, registries: tuple[StandIn, StandIn]) -> None:
    """More versions here are no harm."""
    there, here = registries
    register(there, V1)
    register(here, V1, V2)
    ((level, text, about),) = said(job, there.url, here.url)
    assert (level, text) == ("info", "schemas")
    assert about["found"] == "all 1 numbers of the origin's are known here alike"


def test_other_numbers_are_an_error_with_each_of_them(job: Job, registries: tuple[StandIn, StandIn]) -> None:
    there, here = registries
    register(there, V1, V2)
    ((level, text, about),) = said(job, there.url, here.url)
    assert (level, text) == ("error", "schemas differ")
    assert f"has no subject {SUBJECT}" in about["reason"]
    register(here, OTHER)
    ((level, text, about),) = said(job, there.url, here.url)
    assert (level, text, about["count"]) == ("error", "schemas differ", 2)
    assert "number 1 is another schema here" in about["reason"]
    assert "number 2 (" in about["reason"]


def test_what_cannot_be_compared_is_said(job: Job, registries: tuple[StandIn, StandIn]) -> None:
    there, here = registries
    register(there, V1)
    ((level, text, about),) = said(job, here=here.url)
    assert (level, text) == ("warning", "schemas not compared")
    assert about["reason"].startswith("CUTWATER_ORIGIN_REGISTRY_URL is not set")
    here.faults = [500, 500]
    ((level, text, about),) = said(job, there.url, here.url)
    assert (level, text) == ("warning", "schemas not compared")
    assert "answers 500" in about["reason"]


def test_a_registry_that_lets_nobody_in_does_not_differ(job: Job, registries: tuple[StandIn, StandIn]) -> None:
    """Here or there: nothing was compared, and the settings are named that let the mirror in."""
    there, here = registries
    register(there, V1)
    for closed, setting in ((here, "CUTWATER_REGISTRY"), (there, "CUTWATER_ORIGIN_REGISTRY")):
        closed.login = ("mirror", "secret")
        for status in (401, 403):
            closed.faults = [] if status == 401 else [status]
            ((level, text, about),) = said(job, there.url, here.url)
            assert (level, text) == ("warning", "schemas not compared")
            wanted = f"refuses this client ({status}): set {setting}_USERNAME and {setting}_PASSWORD"
            assert wanted in about["reason"]
        closed.login = None
    here.faults = [400]
    ((level, text, about),) = said(job, there.url, here.url)
    assert (level, text) == ("warning", "schemas not compared")


def test_one_registry_and_events_without_numbers_need_no_look(job: Job) -> None:
    one = replace(job, registry=RegistryUse(url="http://127.0.0.1:1/"))
    ((level, _, about),) = said(one)
    assert (level, about["found"]) == ("info", "both regions ask one registry")
    assert said(replace(job, format=EventFormat())) == []


def test_what_differs_is_told_by_number() -> None:
    assert differing({1: "a", 2: "b", 3: "c"}, {1: "a", 2: "x", 4: "d"}) == [
        "number 2 is another schema here: x, not b",
        "number 3 (c) is not known here",
    ]
