"""Schemas of a registry that refer to other subjects, read with all that they refer to."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cutwater.adapters.avro.codec import check_schema
from cutwater.core.errors import UsageError
from cutwater.core.events.avro_types import in_one_piece
from cutwater.core.events.registry_ids import REFERENCED_MAX, REFERENCES_DEEP, Reference

AVRO_SCHEMA, JSON_SCHEMA, PROTOBUF_SCHEMA = "AVRO", "JSON", "PROTOBUF"
_REMEDIES = {
    AVRO_SCHEMA: "set source.format: confluent",
    JSON_SCHEMA: "set source.format: confluent-json",
    PROTOBUF_SCHEMA: "set source.format: confluent-protobuf",
}
READ_MAX, CHARACTERS_MAX = 1_000, 4_000_000
"""Schemas that all versions of one subject together refer to, and their characters."""

_Version = tuple[str, int]


def schema_kind(found: Any) -> str:
    """Return the kind of schema in a registry's answer."""
    return str(found.get("schemaType") or AVRO_SCHEMA)


def references_of(found: Any) -> tuple[Reference, ...]:
    """Return the references in a registry's answer. Raises AttributeError, KeyError, TypeError or ValueError."""
    return tuple(
        Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
        for one in found.get("references") or ()
    )


class SchemaReader:
    """Reads the schemas of one subject's versions, Avro in one piece. What they refer to is read once."""

    def __init__(self, read: Callable[[str, int], Any], kind: str = AVRO_SCHEMA) -> None:
        """`read`: returns the registry's answer for a version of a subject; None if there is none. `kind`: that of
        the schemas."""
        self._read, self._kind = read, kind
        self._found: dict[_Version, Any] = {}
        self._characters = 0

    def schema(self, found: Any, origin: str) -> dict[str, Any]:
        """Return the schema of a registry's answer, empty if it is not Avro.

        Raises UsageError if it cannot be read, or is of another kind.
        """
        if self._kind != AVRO_SCHEMA:
            _require_kind(found, origin, self._kind)
            return {}
        referenced: dict[_Version, Any] = {}
        self._add_referenced(found, origin, (), referenced)
        schema = _parsed(found, origin)
        if referenced:
            try:
                schema = in_one_piece(schema, list(referenced.values()))
            except UsageError as error:
                raise UsageError(f"{origin}: {error}") from None
        return check_schema(schema, origin)

    def _add_referenced(
        self, found: Any, origin: str, path: tuple[_Version, ...], referenced: dict[_Version, Any]
    ) -> None:
        """Add the schemas that one refers to, each after those that it refers to itself."""
        _require_kind(found, origin, AVRO_SCHEMA)
        for one in require_references(found, origin):
            at = one.subject, one.version
            name = f"version {one.version} of {one.subject}"
            if at in referenced:
                continue
            if at in path:
                raise UsageError(f"{origin} refers to {name}, which refers to it: a registry's schema cannot")
            if len(path) >= REFERENCES_DEEP or len(referenced) >= REFERENCED_MAX:
                raise UsageError(
                    f"{origin} refers to {name}: at most {REFERENCED_MAX} schemas can be read with one, and "
                    f"references of references {REFERENCES_DEEP} deep: register it in one piece"
                )
            inner = self._answer(at, f"{origin} refers to {name}")
            self._add_referenced(inner, name, (*path, at), referenced)
            referenced[at] = _parsed(inner, name)

    def _answer(self, at: _Version, origin: str) -> Any:
        if at not in self._found:
            if len(self._found) >= READ_MAX or self._characters > CHARACTERS_MAX:
                raise UsageError(
                    f"{origin}: all versions of a subject together may refer to {READ_MAX:,} schemas of "
                    f"{CHARACTERS_MAX:,} characters"
                )
            self._found[at] = self._read(*at)
            self._characters += len(str(self._found[at]))
        if self._found[at] is None:
            raise UsageError(f"{origin}, which the registry does not have")
        return self._found[at]


def _require_kind(found: Any, origin: str, kind: str) -> None:
    if (other := schema_kind(found)) != kind:
        remedy = _REMEDIES.get(other, "name another source.subject")
        raise UsageError(f"{origin} is {other}, and source.format reads {kind}: {remedy}")


def require_references(found: Any, origin: str) -> tuple[Reference, ...]:
    """Return the references in a registry's answer. Raises UsageError, which names the origin, for others."""
    try:
        return references_of(found)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UsageError(f"{origin} refers to {found['references']!r:.100}, which are no references") from None


def _parsed(found: Any, origin: str) -> Any:
    try:
        return json.loads(found["schema"])
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"{origin}: not an Avro schema: {error!r:.200}") from None
