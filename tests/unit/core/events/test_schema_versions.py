"""Versions of a schema side by side, as plain values."""

from __future__ import annotations

from typing import Any

import pytest

from cutwater.core.events.schema_versions import SchemaFile, changes_problems, families, place, problems

INT = {"type": "record", "name": "A", "fields": [{"name": "n", "type": "int"}]}
LONG = {"type": "record", "name": "A", "fields": [{"name": "n", "type": "long"}]}
TEXT = {"type": "record", "name": "A", "fields": [{"name": "n", "type": "string"}]}


def file(name: str, schema: dict[str, Any], fingerprint: str) -> SchemaFile:
    family, version = place(name) or ("", 0)
    return SchemaFile(name, family, version, schema, fingerprint)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("event.avsc", ("event", 0)),
        ("event.v1.avsc", ("event", 1)),
        ("event.v12.avsc", ("event", 12)),
        ("event.v0.avsc", ("event.v0", 0)),
        ("a.b.v2.avsc", ("a.b", 2)),
        ("event.json", None),
    ],
)
def test_a_name_says_family_and_version(name: str, expected: tuple[str, int] | None) -> None:
    """The layout of schemas/README.md."""
    assert place(name) == expected


def test_a_family_has_its_newest_first() -> None:
    """Then the latest of the older ones; families do not mix."""
    files = [file(name, INT, name) for name in ("b.avsc", "a.v2.avsc", "a.v10.avsc", "a.avsc")]
    assert {name: [one.name for one in found] for name, found in families(files).items()} == {
        "a": ["a.avsc", "a.v10.avsc", "a.v2.avsc"],
        "b": ["b.avsc"],
    }


def test_the_newest_must_read_every_older_one() -> None:
    """The problem names both files and the field."""
    good = [file("a.avsc", LONG, "1"), file("a.v1.avsc", INT, "2")]
    assert problems(good) == []
    assert problems([file("a.avsc", INT, "1"), file("a.v1.avsc", LONG, "2")]) == [
        "a.v1.avsc → a.avsc: n: was long and is int: long cannot be read as int (new reader, old record)"
    ]
    assert [one.partition(":")[0] for one in problems(good, "full")] == ["a.v1.avsc → a.avsc"]


def test_a_family_needs_its_newest_and_no_twins() -> None:
    """A number alone is nobody's newest; two files of one fingerprint cannot be told apart."""
    (alone,) = problems([file("a.v1.avsc", INT, "1")])
    assert alone == "a.v1.avsc: a.avsc, the newest version, is missing in the same folder"
    (twin,) = problems([file("a.avsc", INT, "1"), file("a.v1.avsc", INT, "1")])
    assert twin.startswith("a.v1.avsc has the fingerprint of a.avsc")


def test_a_changed_schema_must_be_kept_beside_the_new_one() -> None:
    """Against the past: what was there is still there under a number, and the newest reads it."""
    before = [file("a.avsc", INT, "1")]
    kept = [file("a.avsc", LONG, "2"), file("a.v1.avsc", INT, "1")]
    assert changes_problems(before, kept, "main") == []
    (gone,) = changes_problems(before, kept[:1], "main")
    assert gone.startswith("a.avsc of main is gone: its records (1)")
    assert gone.endswith("keep it as a.v1.avsc")
    (wrong,) = changes_problems(before, [file("a.avsc", TEXT, "3"), file("a.v1.avsc", INT, "1")], "main")
    assert wrong.startswith("a.avsc of main → a.avsc: n: was int and is string")
    assert "keep it as a.v1.avsc" in changes_problems(before, [], "main")[0]


def test_a_logical_type_that_changes_under_one_fingerprint_is_found() -> None:
    """The step that looks like no step: same fingerprint, other numbers."""
    decimals = [
        {"type": "record", "name": "A", "fields": [
            {"name": "n", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": scale}}]}
        for scale in (2, 3)
    ]  # fmt: skip
    (found,) = changes_problems([file("a.avsc", decimals[0], "1")], [file("a.avsc", decimals[1], "1")], "main")
    assert "decimal(9, 2)" in found
