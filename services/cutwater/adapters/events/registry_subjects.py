"""The subjects of a schema registry as they stand: read whole, and copied with their numbers and versions kept.

Copied as Confluent's own tools do: under the subject's mode IMPORT a registry takes numbers and versions from
outside. It overwrites a version then, so only those that are free are written; the mode is put back behind that.
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
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.events.registry_ids import Entry, Reference

IMPORT, READ_ONLY, READ_WRITE = "IMPORT", "READONLY", "READWRITE"
_AVRO = "AVRO"
_DELETED = {"deleted": "true"}
"""Deleted versions too: their events may be kept."""


class Subjects:
    """What one registry holds. Every call has the registry's time-outs and attempts."""

    def __init__(self, registry: Registry, in_time: Callable[[], None] = lambda: None) -> None:
        """`in_time`: called before each request; what it raises ends the work."""
        self._registry, self._in_time = registry, in_time
        self.left: dict[str, str | None] = {}
        """Subjects whose mode could not be put back, and what it was."""

    def entries(self, subject: str, known: dict[tuple[str, int], Entry]) -> list[Entry]:
        """Every version, the oldest first; none without the subject. `known`: not asked for again; added to."""
        versions = self._versions(subject)
        if len(versions) > VERSIONS_MAX:
            raise UsageError(f"subject {subject} has {len(versions)} versions; {VERSIONS_MAX} can be read")
        for version in versions:
            if (subject, version) not in known:
                known[subject, version] = self.entry(subject, version)
        return [known[subject, version] for version in versions]

    def entry(self, subject: str, version: int) -> Entry:
        """One version; raises NotThereError without it."""
        return _entry(self._call("GET", f"{_path(subject)}/{version}", subject, _DELETED), self._registry.url)

    def meaning(self, number: int) -> str | None:
        """What a number means, under whatever subject; None where it is nothing's."""
        try:
            found = self._call("GET", f"/schemas/ids/{number}", f"with number {number}")
        except NotThereError:
            return None
        return _meaning(*_schema(found, self._registry.url))

    def copy(self, subject: str, entries: Sequence[Entry]) -> None:
        """Add versions of a subject, each under its own number and version, and see that they stand so.

        Raises ClosedError where nothing may be written; UsageError where it cannot be, as it says.
        """
        with self._importing(subject):
            # Behind the change of the mode: from here on nobody else can take a version.
            standing = self._versions(subject)
            for one in entries:
                if one.version in standing:
                    raise UsageError(f"version {one.version} of {subject} was registered here meanwhile")
                self._add(one)

    def put_back(self, subject: str, mode: str | None) -> None:
        """A subject's own mode; None: it has none, and the registry's holds."""
        self.left[subject] = mode
        path = f"/mode/{quote(subject, safe='')}"
        try:
            if mode is not None:
                raise NotThereError("it had a mode of its own")
            self._registry.call("DELETE", path, subject)
        except (NotThereError, MuteError):  # older ones know no DELETE
            self._set_back(path, subject, mode or READ_WRITE)
        del self.left[subject]

    def _set_back(self, path: str, subject: str, mode: str) -> None:
        try:
            self._registry.call("PUT", path, subject, None, {"mode": mode})
        except CutwaterError as error:
            raise UnavailableError(
                f"the mode of {subject} was left at {IMPORT}, in which producers are refused that register a "
                f"schema; set it back to {mode}: {error}"
            ) from None

    def mode(self, subject: str) -> tuple[str | None, str | None]:
        """The subject's own mode and the one that holds for it; None where the registry has or tells none."""
        own = self._mode(f"/mode/{quote(subject, safe='')}", subject)
        return own, own or self._mode("/mode", subject)

    @contextmanager
    def _importing(self, subject: str) -> Iterator[None]:
        own, holds = self.mode(subject)
        if holds == READ_ONLY:
            raise ClosedError(f"the schema registry at {self._registry.url} is {READ_ONLY} for {subject}")
        if holds == IMPORT:  # by somebody's will, or another process of the mirror's
            yield
            return
        path, force = f"/mode/{quote(subject, safe='')}", {"force": "true"}
        try:
            # Forced, since the subject need not be empty: what stands there is not touched.
            self._call("PUT", path, subject, force, {"mode": IMPORT})
        except ClosedError:
            raise
        except UsageError as error:
            raise UsageError(
                f"the schema registry at {self._registry.url} does not let the mode of {subject} be {IMPORT}, "
                f"without which it takes no numbers from outside: {error}"
            ) from None
        try:
            yield
        finally:
            self.put_back(subject, own)

    def _add(self, one: Entry) -> None:
        body: dict[str, Any] = {"schema": one.text, "id": one.id, "version": one.version}
        if one.kind != _AVRO:
            body["schemaType"] = one.kind
        if one.references:
            body["references"] = [ref._asdict() for ref in one.references]
        self._call("POST", _path(one.subject), one.subject, None, body)
        stands = self.entry(one.subject, one.version)
        if (stands.id, stands.meaning) != (one.id, one.meaning):
            raise UsageError(f"the registry at {self._registry.url} took {one} and shows {stands}")

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
            f"the registry at {url} answers {found!r:.100}, which is no version of a subject"
        ) from None
    return Entry(subject, version, number, kind, text, references, _meaning(kind, text, references))


def _schema(found: Any, url: str) -> tuple[str, str, tuple[Reference, ...]]:
    try:
        references = tuple(
            Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
            for one in found.get("references") or ()
        )
        return str(found.get("schemaType") or _AVRO), str(found["schema"]), references
    except (AttributeError, KeyError, TypeError, ValueError):
        raise MuteError(f"the registry at {url} answers {found!r:.100}, which is no schema") from None


def _meaning(kind: str, text: str, references: tuple[Reference, ...]) -> str:
    """Of Avro in one piece what readers resolve by, and not how it is written; of others the text."""
    if kind == _AVRO and not references and (found := meaning(text)) is not None:
        return found
    whole = json.dumps([kind, " ".join(text.split()), references])
    return hashlib.sha256(whole.encode()).hexdigest()[:16]
