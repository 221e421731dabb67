"""Versions of one schema: `event.avsc` is the newest, `event.v1.avsc` and `event.v2.avsc` are earlier ones.

A topic may hold every version of a family, distinguished by fingerprint. So the newest must read all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cutwater.core.events.schema_compatibility import BACKWARD, incompatibilities

NEWEST = 0
"""The version of a file without a number."""
_NAME = re.compile(r"(?P<family>.+?)(?:\.v(?P<version>[1-9][0-9]{0,5}))?\.avsc")


@dataclass(frozen=True)
class SchemaFile:
    name: str
    family: str
    version: int
    """1, 2, …; NEWEST for the one in use."""
    schema: dict[str, Any]
    fingerprint: str
    """CRC-64-AVRO, in hex."""


def place(name: str) -> tuple[str, int] | None:
    """Return (family, version) of a file name; None if it is not a schema."""
    found = _NAME.fullmatch(name)
    return (found["family"], int(found["version"] or NEWEST)) if found else None


def families(files: Iterable[SchemaFile]) -> dict[str, list[SchemaFile]]:
    found: dict[str, list[SchemaFile]] = {}
    for one in sorted(files, key=lambda file: (file.family, file.version != NEWEST, -file.version)):
        found.setdefault(one.family, []).append(one)
    return found


def problems(files: Iterable[SchemaFile], rule: str = BACKWARD) -> list[str]:
    """Return the problems within each family, one line each."""
    found = []
    for family, members in families(files).items():
        newest, *older = members
        if newest.version != NEWEST:
            found.append(f"{newest.name}: {family}.avsc, the newest version, is missing in the same folder")
            continue
        for one in older:
            found += _between(one, newest, rule)
        found += _twins(members)
    return found


def changes_problems(
    before: Iterable[SchemaFile], now: Iterable[SchemaFile], origin: str, rule: str = BACKWARD
) -> list[str]:
    """Return the problems of the step from the files at `origin` to the current ones, one line each."""
    today = families(now)
    found = []
    for family, members in families(before).items():
        kept: Mapping[str, SchemaFile] = {one.fingerprint: one for one in today.get(family, [])}
        newest = today.get(family, [None])[0]
        for one in members:
            if one.fingerprint not in kept:
                found.append(
                    f"{one.name} of {origin} is gone: its records ({one.fingerprint}) could no longer be read; "
                    f"keep it as {family}.v{_next(today.get(family, []))}.avsc"
                )
            if newest is not None:
                found += _between(one, newest, rule, f" of {origin}")
    return found


def _between(old: SchemaFile, new: SchemaFile, rule: str, origin: str = "") -> list[str]:
    return [f"{old.name}{origin} → {new.name}: {one}" for one in incompatibilities(old.schema, new.schema, rule)]


def _twins(members: list[SchemaFile]) -> list[str]:
    first: dict[str, SchemaFile] = {}
    found = []
    for one in members:
        twin = first.setdefault(one.fingerprint, one)
        if twin is not one:
            found.append(f"{one.name} has the fingerprint of {twin.name}: delete it")
    return found


def _next(members: list[SchemaFile]) -> int:
    return max((one.version for one in members), default=0) + 1
