"""Single-object encoding: fingerprints by the specification, and files that are no schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro.codec import Codec, crc64, load_schema, protocol_codec, schema_folder
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.job.job import WINDOW_KEY_SCHEMA

ROOT = Path(__file__).parents[4]
GOLDEN: dict[str, Any] = json.loads((ROOT / "tests/golden/format.json").read_text(encoding="utf-8"))


def test_fingerprints_are_crc_64_avro() -> None:
    """Of the Avro specification, written here a second time from its text; the vector is a published one."""
    assert crc64_by_specification(b'"int"') == crc64("int").hex() == GOLDEN["crc64_of_int"] == "8f5c393f1ad57572"
    for name in ("start", "barrier", "committed", "heartbeat", "milestone", "end", "published"):
        assert protocol_codec(name).header.hex() == "c301" + GOLDEN["fingerprints"][name]
    assert Codec(WINDOW_KEY_SCHEMA).header.hex() == "c301" + GOLDEN["fingerprints"]["window_key"]
    job = load_job(ROOT / "deploy/jobs/flights.yaml")
    assert Codec(job.state_schema).header.hex() == "c301" + GOLDEN["fingerprints"]["flights_state"]
    assert job.fingerprint == GOLDEN["flights_definition"], (
        "another definition: no generation goes on with the old"
    )


def crc64_by_specification(canonical: bytes) -> str:
    empty = 0xC15D213AA4D7A795
    value = empty
    for byte in canonical:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (empty if value & 1 else 0)
    return value.to_bytes(8, "little").hex()


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"{",
        b"42",
        b'"int"',
        b"[]",
        b"[" * 100_000,
        b"1" * 5_000,
        b'{"type": "record", "name": "A"}',
        b'{"type": "record", "name": "A", "fields": 7}',
    ],
)
def test_a_file_that_is_no_record_schema_is_named(tmp_path: Path, content: bytes) -> None:
    """Whatever is in the file: one error with its path."""
    path = tmp_path / "event.avsc"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"event\.avsc: "):
        load_schema(path)


def test_a_schema_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Missing, or a folder: the path and the reason."""
    with pytest.raises(UsageError, match=r"gone\.avsc: no such schema file"):
        load_schema(tmp_path / "gone.avsc")
    with pytest.raises(UsageError, match="cannot be read"):
        load_schema(tmp_path)


def test_a_schema_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """As editors of Windows write it, and as job files and .proto files may."""
    (tmp_path / "event.avsc").write_bytes(b"\xef\xbb\xbf" + json.dumps(WINDOW_KEY_SCHEMA).encode())
    assert load_schema(tmp_path / "event.avsc") == WINDOW_KEY_SCHEMA


def test_bytes_of_another_schema_are_refused_by_fingerprint() -> None:
    """Both fingerprints are in the message; nothing is decoded with a schema that did not write it."""
    windows = Codec(WINDOW_KEY_SCHEMA)
    with pytest.raises(
        UsageError, match=f"c301e615.* are not of schema Start .{protocol_codec('start').header.hex()}"
    ):
        protocol_codec("start").decode(windows.encode({"key": "a", "window_start": 0, "window_end": 1}))


def test_a_field_the_schema_does_not_know_is_refused() -> None:
    """A misspelt field must not vanish in silence."""
    record = {"key": "a", "window_start": 0, "window_end": 1}
    for wrong in (record | {"window": 1}, {"key": "a"}, record | {"key": None}):
        with pytest.raises(UsageError, match="does not fit schema"):
            Codec(WINDOW_KEY_SCHEMA).encode(wrong)


def test_each_schema_of_the_project_is_valid_and_documented() -> None:
    """Every field of every schema says what it means; the page of the format says the rest."""
    for path in schema_folder().glob("*.avsc"):
        schema = load_schema(path)
        assert all(field.get("doc") for field in schema["fields"]), path.name


def test_the_page_of_the_format_shows_the_golden_bytes() -> None:
    """docs/FORMAT.md is what readers in other languages are written from: every vector stands there."""
    page = (ROOT / "docs/FORMAT.md").read_text(encoding="utf-8")
    unbroken = page.replace("\n", "")
    changelog = GOLDEN["changelog"]
    shown = [*GOLDEN["records"].values(), *GOLDEN["lists"].values(), *GOLDEN["fingerprints"].values()]
    shown += [GOLDEN["milestone_hash"], GOLDEN["flights_definition"], GOLDEN["output"]["json_end"]]
    shown += [*GOLDEN["confluent"]["values"], *GOLDEN["confluent"]["output"], GOLDEN["confluent"]["output_end"]]
    shown += [*GOLDEN["output"]["avro"], *GOLDEN["output"]["json"]]
    shown += [str(row[name]) for row in changelog["rows"] for name in row if name not in {"key", "value"}]
    assert [one for one in [*shown, str(changelog["digest"])] if one not in unbroken] == []


def test_every_schema_is_in_the_index() -> None:
    """schemas/README.md names each file, and none that is gone."""
    index = (ROOT / "schemas/README.md").read_text(encoding="utf-8")
    assert [path.name for path in schema_folder().glob("*.avsc") if f"`{path.name}`" not in index] == []
