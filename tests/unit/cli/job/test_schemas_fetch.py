"""`cutwater schemas fetch`: a subject's schema as files that a job file can name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cutwater.adapters.events.registry import Registry
from cutwater.adapters.job_files.loader import load_job
from cutwater.cli.main import app
from support.cli.jsonshapes import parsed
from support.events import messages
from support.events.registries import StandIn, apicurio
from support.events.wide import job_text

ORDER = """\
syntax = "proto3";
package shop;
import "common/money.proto";
import "google/protobuf/timestamp.proto";
message Other { int32 x = 1; }
message Order { string key = 1; google.protobuf.Timestamp at = 2; common.Money price = 3; }
"""
MONEY = 'syntax = "proto3"; package common; import "common/unit.proto"; message Money { Unit unit = 1; } // ö\n'
UNIT = 'syntax = "proto3"; package common; message Unit { string name = 1; }\n'
POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "at", "type": "Point"}]}


@pytest.fixture(scope="module")
def real_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apicurio(tmp_path_factory.mktemp("apicurio")) as url:
        yield url


@pytest.fixture(params=["stand-in", pytest.param("apicurio", marks=pytest.mark.slow)])
def registry(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """With the schemas above."""
    if request.param == "apicurio":
        yield from _with_schemas(request.getfixturevalue("real_url"), monkeypatch)
    else:
        with StandIn().running() as stand_in:
            yield from _with_schemas(stand_in.url, monkeypatch)


def _with_schemas(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    with Registry(url, attempts=1) as made:
        monkeypatch.setenv("CUTWATER_REGISTRY_URL", url)
        put(made, "unit", UNIT)
        put(made, "money", MONEY, ("common/unit.proto", "unit"))
        put(made, "orders-value", messages.PROTO)
        put(made, "orders-value", ORDER, ("common/money.proto", "money"))
        yield made


def put(
    registry: Registry, subject: str, schema: Any, *references: tuple[str, str], kind: str = "PROTOBUF"
) -> None:
    named = [{"name": name, "subject": of, "version": 1} for name, of in references]
    text = schema if isinstance(schema, str) else json.dumps(schema)
    body = {"schema": text, "schemaType": kind, "references": named}
    registry.call("POST", f"/subjects/{subject}/versions", subject, body=body)


def fetch(folder: Path, subject: str = "orders-value", *options: str) -> Result:
    return CliRunner().invoke(app, ["schemas", "fetch", subject, "--into", str(folder), *options])


def test_a_proto_is_written_with_all_that_it_imports(registry: Registry, tmp_path: Path) -> None:
    """And a job file reads it; a second time nothing is to be written."""
    folder = tmp_path / "jobs"
    done = fetch(folder)
    assert done.exit_code == 0, done.output
    assert {str(one.relative_to(folder)): one.read_text("utf-8") for one in folder.rglob("*.proto")} == {
        "orders-value.proto": ORDER,
        "common/money.proto": MONEY,
        "common/unit.proto": UNIT,
    }
    assert "shop.Other\n  shop.Order\n" in done.stdout
    text = job_text("wide", "format: confluent-protobuf, message: shop.Order")
    (folder / "job.yaml").write_text(text.replace("event.avsc", "orders-value.proto"), encoding="utf-8")
    fields = load_job(folder / "job.yaml").event_schema["fields"]
    assert [one["name"] for one in fields] == ["key", "at", "price"]
    again = parsed(["schemas", "fetch"], fetch(folder, "orders-value", "--json").stdout)
    assert (again["version"], again["messages"]) == (2, ["shop.Other", "shop.Order"])
    assert [one["written"] for one in again["files"]] == [False] * 3


def test_another_file_is_overwritten_with_force_only(registry: Registry, tmp_path: Path) -> None:
    """Nothing is written beside it."""
    (tmp_path / "common").mkdir()
    own = tmp_path / "common" / "money.proto"
    own.write_text("mine", encoding="utf-8")
    refused = fetch(tmp_path)
    assert (refused.exit_code, "money.proto is another file; nothing was written" in _line(refused)) == (2, True)
    assert [one.name for one in tmp_path.rglob("*.proto")] == ["money.proto"]
    assert own.read_text("utf-8") == "mine"
    assert fetch(tmp_path, "orders-value", "--force").exit_code == 0
    assert own.read_text("utf-8") == MONEY


def test_an_earlier_version(registry: Registry, tmp_path: Path) -> None:
    assert fetch(tmp_path, "orders-value", "--version", "1").exit_code == 0
    assert (tmp_path / "orders-value.proto").read_text("utf-8") == messages.PROTO


def test_avro_is_written_in_one_piece(registry: Registry, tmp_path: Path) -> None:
    put(registry, "point", POINT, kind="AVRO")
    put(registry, "a%3Aplaces", PLACE, ("Point", "point"), kind="AVRO")
    done = fetch(tmp_path, "a:places")
    assert done.exit_code == 0, done.output
    (file,) = tmp_path.iterdir()
    assert file.name == "a_places.avsc"
    (field,) = json.loads(file.read_text("utf-8"))["fields"]
    assert (field["type"]["name"], field["type"]["fields"]) == ("Point", POINT["fields"])


only_stand_in = pytest.mark.parametrize("registry", ["stand-in"], indirect=True)
"""Apicurio refuses what a lying registry would answer."""


@only_stand_in
@pytest.mark.parametrize(
    "name", ["../up.proto", "/etc/up.proto", "a/../../up.proto", "a\\up.proto", ".bashrc", ""]
)
def test_names_that_leave_the_folder_are_refused(registry: Registry, tmp_path: Path, name: str) -> None:
    put(registry, "evil", 'syntax = "proto3";', (name, "unit"))
    refused = fetch(tmp_path / "in", "evil")
    assert (refused.exit_code, "which is no .proto below a folder" in _line(refused)) == (2, True)
    assert list(tmp_path.iterdir()) == []


@only_stand_in
def test_what_cannot_be_a_file_is_refused_with_what_to_do(registry: Registry, tmp_path: Path) -> None:
    """And a registry that is not there has another exit code."""
    put(registry, "json", {"type": "object"}, kind="JSON")
    put(registry, "twice", 'syntax = "proto3";', ("x.proto", "unit"), ("x.proto", "money"))
    put(registry, "own", 'syntax = "proto3";', ("own.proto", "unit"))
    put(registry, "mixed", 'syntax = "proto3";', ("x.proto", "json"))
    put(registry, "packed", "CgtvcmRlci5wcm90bw==")
    put(registry, "lost", 'syntax = "proto3";', ("x.proto", "nowhere"))
    said = {
        "json": "is JSON; Avro and Protobuf are fetched: draft the job with 'cutwater init'",
        "twice": "imports version 1 of money as 'x.proto', which is another file's name too",
        "own": "as 'own.proto', which is another file's name too",
        "mixed": "version 1 of json is JSON, and a .proto imports it",
        "packed": "is registered as a descriptor",
        "lost": "has no version 1 of subject nowhere",
        "none": "has no subject none",
    }
    for subject, text in said.items():
        refused = fetch(tmp_path, subject)
        assert (refused.exit_code, text in _line(refused)) == (2, True), refused.output
    assert fetch(tmp_path, "orders-value", "--version", "9").exit_code == 2
    assert fetch(tmp_path, "orders-value", "--registry", "no url").exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_without_a_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUTWATER_REGISTRY_URL", raising=False)
    refused = fetch(tmp_path)
    assert (refused.exit_code, "give --registry, or set CUTWATER_REGISTRY_URL" in _line(refused)) == (2, True)


def _line(done: Result) -> str:
    return " ".join(done.output.split())
