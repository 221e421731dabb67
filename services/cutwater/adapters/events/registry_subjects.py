"""Subjects of a schema registry, read completely and copied with their ids and versions.

Copies work like Confluent's own tools: in the subject's mode IMPORT a registry accepts given ids and versions. As
it then overwrites existing versions, only free ones are written. Afterwards the mode is restored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from cutwater.adapters.avro.codec import meaning
from cutwater.adapters.events.registry import VERSIONS_MAX, ClosedError, MuteError, NotThereError, Registry
from cutwater.adapters.events.registry_references import AVRO_SCHEMA, references_of, schema_kind
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.events.registry_ids import Entry, Reference

IMPORT, READ_ONLY, READ_WRITE = "IMPORT", "READONLY", "READWRITE"
_DELETED = {"deleted": "true"}
"""Read deleted versions too: their events may be kept."""


class Subjects:
    """The subjects of one registry. Every call has the registry's time-outs and attempts."""

    def __init__(self, registry: Registry, in_time: Callable[[], None] = lambda: None) -> None:
        """`in_time`: called before each request; an error that it raises ends the work."""
        self._registry, self._in_time = registry, in_time
        self.left: dict[str, str | None] = {}
        """Subjects whose mode could not be restored, with their previous mode."""

    def entries(self, subject: str, known: dict[tuple[str, int], Entry]) -> list[Entry]:
        """Return every version, oldest first; none without the subject. `known`: a cache, which is extended."""
        versions = self._versions(subject)
        if len(versions) > VERSIONS_MAX:
            raise UsageError(f"subject {subject} has {len(versions)} versions; at most {VERSIONS_MAX} can be read")
        for version in versions:
            if (subject, version) not in known:
                known[subject, version] = self.entry(subject, version)
        return [known[subject, version] for version in versions]

    def entry(self, subject: str, version: int) -> Entry:
        """Return one version; raises NotThereError if it does not exist."""
        return _entry(self._call("GET", f"{_path(subject)}/{version}", subject, _DELETED), self._registry.url)

    def meaning(self, number: int) -> str | None:
        """Return the meaning of a schema id under any subject; None for an unused id."""
        try:
            found = self._call("GET", f"/schemas/ids/{number}", f"with number {number}")
        except NotThereError:
            return None
        return _meaning(*_schema(found, self._registry.url))

    def copy(self, subject: str, entries: Sequence[Entry]) -> None:
        """Add versions with their ids, and verify them. Raises ClosedError if denied; UsageError if impossible."""
        with self._importing(subject):
            # Read after the mode change: from now on no other client can register a version.
            standing = self._versions(subject)
            for one in entries:
                if one.version in standing:
                    raise UsageError(f"version {one.version} of {subject} was registered here meanwhile")
                self._add(one)

    def put_back(self, subject: str, mode: str | None) -> None:
        """Restore a subject's own mode; None removes it, so that the registry's mode applies."""
        self.left[subject] = mode
        path = f"/mode/{quote(subject, safe='')}"
        try:
            if mode is not None:
                raise NotThereError("it had a mode of its own")
            self._registry.call("DELETE", path, subject)
        except (NotThereError, MuteError):  # older registries have no DELETE
            self._set_back(path, subject, mode or READ_WRITE)
        del self.left[subject]

    def _set_back(self, path: str, subject: str, mode: str) -> None:
        try:
            self._registry.call("PUT", path, subject, None, {"mode": mode})
        except CutwaterError as error:
            raise UnavailableError(
                f"the mode of {subject} was left at {IMPORT}, in which producers cannot register a schema; set it "
                f"back to {mode}: {error}"
            ) from None

    def mode(self, subject: str) -> tuple[str | None, str | None]:
        """Return the subject's own mode and its effective one; None if the registry has or reports none."""
        own = self._mode(f"/mode/{quote(subject, safe='')}", subject)
        return own, own or self._mode("/mode", subject)

    @contextmanager
    def _importing(self, subject: str) -> Iterator[None]:
        own, holds = self.mode(subject)
        if holds == READ_ONLY:
            raise ClosedError(f"the schema registry at {self._registry.url} is {READ_ONLY} for {subject}")
        if holds == IMPORT:  # set by an operator or another process of the mirror
            yield
            return
        path, force = f"/mode/{quote(subject, safe='')}", {"force": "true"}
        try:
            # Forced, since the subject need not be empty: existing versions are not changed.
            self._call("PUT", path, subject, force, {"mode": IMPORT})
        except ClosedError:
            raise
        except UsageError as error:
            raise UsageError(
                f"the schema registry at {self._registry.url} refuses mode {IMPORT} for {subject}, without which "
                f"it accepts no given ids: {error}"
            ) from None
        try:
            yield
        finally:
            self.put_back(subject, own)

    def _add(self, one: Entry) -> None:
        body: dict[str, Any] = {"schema": one.text, "id": one.id, "version": one.version}
        if one.kind != AVRO_SCHEMA:
            body["schemaType"] = one.kind
        if one.references:
            body["references"] = [ref._asdict() for ref in one.references]
        self._call("POST", _path(one.subject), one.subject, None, body)
        stands = self.entry(one.subject, one.version)
        if (stands.id, stands.meaning) != (one.id, one.meaning):
            raise UsageError(f"the registry at {self._registry.url} accepted {one} but returns {stands}")

    def _versions(self, subject: str) -> list[int]:
        try:
            found = self._call("GET", _path(subject), subject, _DELETED)
        except NotThereError:
            return []
        if not isinstance(found, list) or not all(isinstance(one, int) for one in found):
            raise MuteError(f"{self._registry.url} answers {found!r:.100} for the versions of {subject}")
        return sorted(found)

    def _mode(self, path: str, subject: str) -> str | None:
        try:
            found = self._call("GET", path, subject)
        except ClosedError:
            raise
        except (NotThereError, MuteError):
            return None
        mode = found.get("mode") if isinstance(found, dict) else None
        return mode.upper() if isinstance(mode, str) else None

    def _call(self, method: str, path: str, subject: str, params: Any = None, body: Any = None) -> Any:
        self._in_time()
        return self._registry.call(method, path, subject, params, body)


def _path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}/versions"


def _entry(found: Any, url: str) -> Entry:
    kind, text, references = _schema(found, url)
    try:
        subject, version, number = str(found["subject"]), int(found["version"]), int(found["id"])
    except (KeyError, TypeError, ValueError):
        raise MuteError(
            f"the registry at {url} answers {found!r:.100}, which is not a version of a subject"
        ) from None
    return Entry(subject, version, number, kind, text, references, _meaning(kind, text, references))


def _schema(found: Any, url: str) -> tuple[str, str, tuple[Reference, ...]]:
    try:
        return schema_kind(found), str(found["schema"]), references_of(found)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise MuteError(f"the registry at {url} answers {found!r:.100}, which is not a schema") from None


def _meaning(kind: str, text: str, references: tuple[Reference, ...]) -> str:
    # Plain Avro schemas are compared by what readers resolve by, not by text; all others by their text.
    if kind == AVRO_SCHEMA and not references and (found := meaning(text)) is not None:
        return found
    whole = json.dumps([kind, " ".join(text.split()), references])
    return hashlib.sha256(whole.encode()).hexdigest()[:16]
