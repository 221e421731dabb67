"""A client of Confluent's schema registry API over HTTP, which Apicurio, Karapace and Redpanda implement too.

Every call has a time limit and a bounded number of attempts; only temporary errors are retried.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.registry_references import AVRO_SCHEMA, SchemaReader
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.events.avro_types import in_one_piece
from cutwater.core.events.formats import REGISTRY_FORMATS
from cutwater.core.job.job import Job

if TYPE_CHECKING:
    import httpx

ATTEMPTS = 5
TIMEOUT_S = 10.0
WAIT_S_MAX = 5.0
VERSIONS_MAX = 200
"""Maximum versions of one subject: each is a branch of the query that decodes."""
ANSWER_BYTES_MAX = 16_000_000
"""Of one answer; a registry keeps schemas in records of a topic, by default of at most 1 MB."""
_DELETED = {"deleted": "true"}
_CONTENT = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}


@dataclass(frozen=True)
class Registered:
    """One version of a subject."""

    version: int
    id: int
    """The schema id in the header of its events."""
    schema: dict[str, Any]
    problem: str = ""
    """The reason why it cannot be read; then `schema` is empty."""
    text: str = ""
    """As the registry gives it."""


class _Passing(UnavailableError):
    """A temporary error, which is retried."""


class MuteError(UsageError):
    """The server at the address gives no usable answer until a setting is changed."""


class ClosedError(MuteError):
    """The registry denies this client the request."""


class NotThereError(UsageError):
    """The requested object does not exist; it may be registered later."""


class Registry:
    """A client for one registry. Close it, or use it in a `with` block."""

    def __init__(
        self,
        url: str,
        username: str = "",
        password: str = "",
        timeout_s: float = TIMEOUT_S,
        attempts: int = ATTEMPTS,
        setting: str = "CUTWATER_REGISTRY",
    ) -> None:
        """`setting`: the prefix of the settings' names for this registry."""
        import httpx  # takes 0.1 s, and readers of other framings need no registry

        self.url = url.rstrip("/")
        self._setting = setting
        self._attempts = attempts
        auth = httpx.BasicAuth(username, password) if username else None
        self._client = httpx.Client(auth=auth, timeout=timeout_s, headers=_CONTENT)

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def versions(self, subject: str, deleted: bool = True, kind: str = AVRO_SCHEMA) -> list[Registered]:
        """Return every version of a subject, newest first, with deleted ones: their events may be kept.

        `kind`: that of the schemas. An Avro schema that refers to others is returned together with them, in one
        piece; of other kinds the schema is left empty. Raises UsageError if the subject does not exist,
        UnavailableError if the registry does not answer in time. A version that cannot be read has a `problem`:
        other versions may have written most events.
        """
        base = f"/subjects/{quote(subject, safe='')}/versions"
        numbers = self.call("GET", base, subject, params=_DELETED if deleted else None)
        if not isinstance(numbers, list) or not all(isinstance(one, int) for one in numbers):
            raise MuteError(f"the registry at {self.url} answers {numbers!r:.100} for the versions of {subject}")
        if not 0 < len(numbers) <= VERSIONS_MAX:
            raise UsageError(f"subject {subject} has {len(numbers)} versions; 1 to {VERSIONS_MAX} can be read")
        reader = SchemaReader(self._referenced, kind)
        return [self._version(subject, base, one, reader) for one in sorted(numbers, reverse=True)]

    def equal_number(self, subject: str, schema: dict[str, Any]) -> int | None:
        """Return the id of the newest version that is this schema, maybe in several pieces; None without one."""
        try:
            found = self.versions(subject, deleted=False)
        except (NotThereError, ClosedError):  # who may register need not be allowed to read
            return None
        wanted = in_one_piece(schema, ())
        equal = (one.id for one in found if not one.problem and in_one_piece(one.schema, ()) == wanted)
        return next(equal, None)

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """Register a schema, if new, and return its id. Raises UsageError with the registry's reason."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        return _number(self.call("POST", path, subject, body={"schema": json.dumps(schema)}), "id", self.url)

    def number_of(self, subject: str, schema: dict[str, Any], auto_register: bool) -> int:
        """Return a schema's id; `auto_register`: register a new one. Raises UsageError if it is missing."""
        if auto_register:
            return self.register(subject, schema)
        path = f"/subjects/{quote(subject, safe='')}"
        try:
            return _number(self.call("POST", path, subject, body={"schema": json.dumps(schema)}), "id", self.url)
        except NotThereError:
            raise UsageError(
                f"the schema registry at {self.url} does not have schema {schema.get('name')} under {subject}, "
                "and registry.auto_register is false: register it with 'cutwater schemas register JOBFILE'"
            ) from None

    def schema(self, number: int) -> dict[str, Any]:
        """Return the record schema of an id; raises UsageError if there is none."""
        found = self.call("GET", f"/schemas/ids/{number}", f"with number {number}")
        origin = f"number {number} at {self.url}"
        return SchemaReader(self._referenced).schema(found, origin)

    def _referenced(self, subject: str, version: int) -> Any:
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        try:
            return self.call("GET", path, subject, params=_DELETED)
        except NotThereError:
            return None

    def _version(self, subject: str, base: str, number: int, reader: SchemaReader) -> Registered:
        found = self.call("GET", f"{base}/{number}", subject, params=_DELETED)
        origin = f"version {number} of {subject} at {self.url}"
        id_ = _number(found, "id", self.url)
        try:
            return Registered(number, id_, reader.schema(found, origin), text=str(found.get("schema", "")))
        except MuteError:  # of a schema that it refers to: nothing is known about the events
            raise
        except UsageError as error:
            return Registered(number, id_, {}, str(error))

    def call(self, method: str, path: str, subject: str, params: Any = None, body: Any = None) -> Any:
        """Return the answer as JSON. `subject`: the subject in an error's text."""
        from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential, wait_random

        attempts = Retrying(
            stop=stop_after_attempt(self._attempts),
            wait=wait_exponential(multiplier=0.2, max=WAIT_S_MAX) + wait_random(0, 0.2),
            retry=retry_if_exception_type(_Passing),
            reraise=True,
        )
        return attempts(self._once, method, path, subject, params, body)

    def _once(self, method: str, path: str, subject: str, params: Any, body: Any) -> Any:
        import httpx

        try:
            with self._client.stream(method, self.url + path, params=params, json=body) as answer:
                text = self._read(answer)
        except httpx.TransportError as error:
            raise _Passing(
                f"the schema registry at {self.url} does not answer ({type(error).__name__}): check that it runs "
                f"or set {self._setting}_URL"
            ) from None
        except httpx.InvalidURL as error:
            raise MuteError(f"{self._setting}_URL: the schema registry's URL is invalid: {error}") from None
        if answer.is_success:
            try:
                return json.loads(text)
            except (ValueError, RecursionError):
                raise MuteError(
                    f"{self.url} does not answer in JSON: is it a schema registry? Check {self._setting}_URL"
                ) from None
        raise self._refusal(answer.status_code, text, subject)

    def _read(self, answer: httpx.Response) -> bytes:
        found = bytearray()
        for part in answer.iter_bytes():
            found += part
            if len(found) > ANSWER_BYTES_MAX:
                raise MuteError(f"{self.url} answers with more than {ANSWER_BYTES_MAX:,} bytes, which is not read")
        return bytes(found)

    def _refusal(self, code: int, text: bytes, subject: str) -> Exception:
        reason = " ".join(text.decode(errors="replace").split())[:300]
        if code >= 500 or code in (408, 429):
            return _Passing(f"the schema registry at {self.url} answers {code}: {reason}")
        if code in (401, 403):
            return ClosedError(
                f"the schema registry at {self.url} refuses this client ({code}): set {self._setting}_USERNAME "
                f"and {self._setting}_PASSWORD"
            )
        if code == 404:
            return NotThereError(
                f"the schema registry at {self.url} has no subject {subject}: name it in source.subject, or "
                "register the job's schema with 'cutwater schemas register JOBFILE'"
            )
        if code == 409:
            return UsageError(f"the schema registry refuses the schema as incompatible with {subject}: {reason}")
        return MuteError(f"the schema registry at {self.url} answers {code}: {reason}")


def _number(found: Any, name: str, url: str) -> int:
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, int) or not 0 <= value < 2**31:
        raise UsageError(f"the registry at {url} returns no valid {name}: {found!r:.100}")
    return value


def registry_for(job: Job, settings: Settings) -> Registry | None:
    """Return a job's registry; None if no format needs one. Raises UsageError if none is configured."""
    formats = {"source": job.format.kind, "changelog": job.changelog_format, "output": job.output.format}
    wanted = [f"{place}.format {kind}" for place, kind in formats.items() if kind in REGISTRY_FORMATS]
    if not wanted:
        return None
    return registry_at(job, settings, f"{' and '.join(wanted)} needs it")


def registry_at(job: Job, settings: Settings, why: str = "a record was framed by one") -> Registry:
    """Return the registry of the environment or the job file; raises UsageError if neither names one."""
    url = settings.registry_url or job.registry.url
    if not url:
        raise UsageError(
            f"job {job.name}: no schema registry is configured, and {why}: set registry.url or "
            "CUTWATER_REGISTRY_URL"
        )
    return Registry(url, settings.registry_username, settings.registry_password.get_secret_value())
