"""`cutwater schemas`, and the formats in job files."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cutwater.adapters.events.registry import Registry
from cutwater.cli.main import app
from cutwater.core.errors import UsageError
from cutwater.local.running_file import describe_self
from support.cli.jsonshapes import parsed
from support.events import wide
from support.events.registries import StandIn
from unit.local.test_running_file import STACK

INT = {"type": "record", "name": "A", "fields": [{"name": "n", "type": "int"}]}
LONG = {"type": "record", "name": "A", "fields": [{"name": "n", "type": "long"}]}


def cutwater(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["schemas", *map(str, arguments)])


def put(folder: Path, **schemas: Any) -> Path:
    """Files `a__v1` -> a.v1.avsc."""
    folder.mkdir(exist_ok=True)
    for name, schema in schemas.items():
        (folder / f"{name.replace('__', '.')}.avsc").write_text(json.dumps(schema), encoding="utf-8")
    return folder


def test_check_says_what_is_wrong_and_exits_1(tmp_path: Path) -> None:
    """Fine is 0; a version that cannot be read is 1, as a line and as JSON; no schemas is 2."""
    folder = put(tmp_path / "a", a=LONG, a__v1=INT)
    good = cutwater("check", folder)
    assert (good.exit_code, "2 schemas, rule backward: no problems" in good.output) == (0, True)
    put(folder, a=INT, a__v1=LONG)
    bad = cutwater("check", folder)
    assert bad.exit_code == 1
    assert "a.v1.avsc → a.avsc: n: was long and is int" in bad.output
    told = parsed(["schemas", "check"], cutwater("check", folder, "--json").stdout)
    assert len(told["problems"]) == 1
    assert cutwater("check", tmp_path).exit_code == 2
    assert cutwater("check", tmp_path / "none").exit_code == 2
    assert cutwater("check", folder, "--rule", "sideways").exit_code == 2


def test_check_against_a_folder_and_a_commit(tmp_path: Path) -> None:
    """A changed schema whose old version is not kept is found in both; kept, it is fine."""
    past = put(tmp_path / "past", a=INT)
    folder = put(tmp_path / "now", a=INT)
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for step in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *step], check=True)
    put(folder, a=LONG)
    for against in (past, "HEAD"):
        found = cutwater("check", folder, "--against", against)
        assert found.exit_code == 1
        assert "keep it as a.v1.avsc" in found.output
    put(folder, a__v1=INT)
    for against in (past, "HEAD"):
        assert cutwater("check", folder, "--against", against).exit_code == 0
    for wrong in ("no-such-commit", "--output=x"):
        assert cutwater("check", folder, f"--against={wrong}").exit_code == 2


def test_show_prints_every_schema_of_a_job(tmp_path: Path) -> None:
    """Event, older versions, key and state, each with its fingerprint."""
    put(tmp_path, event__v1={**wide.SCHEMA, "fields": wide.SCHEMA["fields"][:3]})
    older = wide.SCHEMA["fields"][:2]
    wide.job(tmp_path, {**wide.SCHEMA, "fields": older})
    shown = parsed(["schemas", "show"], cutwater("show", tmp_path / "job.yaml").stdout)
    assert [shown["format"], len(shown["older"]), shown["key"]["fingerprint"]] == ["avro", 1, "e615dbd9f9255f82"]
    assert shown["state"]["schema"]["name"] == "State"
    data = tmp_path / "data"
    data.mkdir()
    none = cutwater("show", "--data-dir", data)
    assert none.exit_code == 2
    assert "cutwater up" in none.output
    pid, started = describe_self()
    stack = replace(STACK, pid=pid, started=started, job_file=str(tmp_path / "job.yaml"), data_dir=str(data))
    stack.write()
    assert parsed(["schemas", "show"], cutwater("show", "--data-dir", data).stdout) == shown, "the stack's job"


def test_show_lists_each_version_of_the_subject_and_why_it_is_refused(tmp_path: Path) -> None:
    """What the driver rejects is told before it runs; without the registry the rest is shown all the same."""
    fields = [{**one, "type": "long"} if one["name"] == "exact" else one for one in wide.SCHEMA["fields"]]
    other = {**wide.SCHEMA, "fields": fields}
    with StandIn().running() as registry:
        wide.job(tmp_path, wide.SCHEMA, f"format: confluent, registry: '{registry.url}'")
        with Registry(registry.url) as client:
            for schema in (other, wide.SCHEMA):
                client.register("wide.events-value", schema)
        shown = parsed(["schemas", "show"], cutwater("show", tmp_path / "job.yaml").stdout)
    newest, oldest = shown["writers"]
    assert (newest["name"], newest["refused"], newest["unfit"]) == ("number 2 (version 2)", "", [])
    assert oldest["refused"].startswith("is of schema number 1 (version 1): "), oldest
    without = cutwater("show", tmp_path / "job.yaml")
    assert parsed(["schemas", "show"], without.stdout) == {**shown, "writers": None}
    assert (without.exit_code, registry.url in without.stderr) == (0, True)


def test_register_tells_the_number(tmp_path: Path) -> None:
    """Each schema that is written with a number, under its subject; other jobs have no registry."""
    with StandIn().running() as registry:
        wide.job(tmp_path, wide.SCHEMA, f"format: confluent, registry: '{registry.url}'")
        told = parsed(["schemas", "register"], cutwater("register", tmp_path / "job.yaml", "--json").stdout)
        assert told == {"registered": [{"subject": "wide.events-value", "id": 1}]}
        own = wide.job_text("wide") + "output: {format: confluent}\nchangelog: {format: confluent}\n"
        (tmp_path / "job.yaml").write_text(f"{own}registry: {{url: '{registry.url}'}}\n")
        told = parsed(["schemas", "register"], cutwater("register", tmp_path / "job.yaml", "--json").stdout)
    assert [one["subject"] for one in told["registered"]] == [
        "wide.changelog.g1-local-00000000-value",
        "wide.output-value",
        "wide.output-io.cutwater.End",
    ]
    wide.job(tmp_path, wide.SCHEMA)
    assert cutwater("register", tmp_path / "job.yaml").exit_code == 2


def test_older_versions_beside_the_schema_are_part_of_the_job(tmp_path: Path) -> None:
    """The latest first; one that the newest cannot read is refused with file and field."""
    first = {**wide.SCHEMA, "fields": wide.SCHEMA["fields"][:2]}
    second = {**wide.SCHEMA, "fields": wide.SCHEMA["fields"][:3]}
    put(tmp_path, event__v1=second, event__v2=first, other__v1=INT)
    assert wide.job(tmp_path, first).format.older == (first, second)
    with pytest.raises(UsageError, match=r"cannot read its older versions: event\.v2\.avsc: flag: is not"):
        wide.job(tmp_path, second)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "format: xml",
            "source.format: Input should be 'avro', 'confluent', 'json', 'confluent-json' or 'confluent-protobuf'",
        ),
        (
            "format: json, registry: 'http://r'",
            "belong to the formats confluent, confluent-json and confluent-protobuf; this one is json",
        ),
        (
            "format: avro, subject: s",
            "belong to the formats confluent, confluent-json and confluent-protobuf; this one is avro",
        ),
        ("format: confluent, registry: 'ftp://r'", "source.registry: write http:// or https:// and"),
        ("format: confluent, registry: 'http://ann:word@r'", "user and password are settings"),
    ],
)
def test_a_mistake_in_the_format_is_named(tmp_path: Path, source: str, said: str) -> None:
    """Field and remedy; a password has no place in a job file."""
    with pytest.raises(UsageError) as caught:
        wide.job(tmp_path, wide.SCHEMA, source)
    assert said in str(caught.value)
    assert "word@" not in str(caught.value)


def test_a_type_inside_that_json_events_cannot_have_is_refused(tmp_path: Path) -> None:
    """It is named with its path when the job file is read."""
    legs = {"type": "array", "items": {"type": "int", "logicalType": "time-millis"}}
    schema = {**wide.SCHEMA, "fields": [*wide.SCHEMA["fields"][:2], {"name": "legs", "type": legs}]}
    with pytest.raises(UsageError, match=r"field 'legs\[\]' is time-millis, which events in JSON cannot have"):
        wide.job(tmp_path, schema, "format: json")
    assert wide.job(tmp_path, schema).format.kind == "avro"
