"""The schemas of the source topic's events, which contain schema ids of the origin's registry.

They are copied into the registry here with ids and versions, before an event that needs one is written. Otherwise
a driver here could not read the events after a failover, or would read them wrong. They are checked before the
first write, for an event with a new id, and every 1 to 10 minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.registry import VERSIONS_MAX, ClosedError, NotThereError, Registry
from cutwater.adapters.events.registry_subjects import IMPORT, Subjects
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.events.formats import REGISTRY_FORMATS
from cutwater.core.events.registry_ids import (
    REFERENCED_MAX,
    REFERENCES_DEEP,
    Entry,
    SubjectComparison,
    compare_subject,
)
from cutwater.core.job.job import Job
from cutwater.core.mirror.gaps import SCHEMAS, Gap
from cutwater.mirror.metrics import Metrics

TIMEOUT_S, ATTEMPTS = 3.0, 2
LOOK_S = 20.0
"""A check takes at most this long, because nothing is copied meanwhile; the next one continues it."""
RETRY_S, AGAIN_S = 60.0, 600.0
"""Time to the next check: after a problem, and after success."""
SHOWN_MAX = 5
STRANGE_MAX = 1_000
"""Ids that neither registry knows, kept so that each is queried once."""

_ADVICE = "a driver here cannot read these events: copy the subject into the registry here with its schema ids"
_MEND = (
    "events would be read wrong here, so no more of them are copied: register the origin's schemas here under "
    "these ids, or let both regions use one registry, then restart the mirror (docs/MIRRORING.md)"
)


class Schemas:
    """The schemas of one job's source topic, in the registries of both regions."""

    def __init__(
        self,
        subject: str,
        there: Callable[[], Registry],
        here: Callable[[], Registry],
        log: Any,
        metrics: Metrics,
        clock_s: Callable[[], float],
    ) -> None:
        """`there`, `here`: open the origin's registry and this region's. `clock_s`: a monotonic clock."""
        self._subject = subject
        self._open = there, here
        self._log, self._metrics, self._clock_s = log, metrics, clock_s
        self._known: dict[tuple[str, int], Entry] = {}
        self._numbers: frozenset[int] = frozenset()
        """The ids of the origin's subject."""
        self._strange: set[int] = set()
        self._left: dict[str, str | None] = {}
        self._due_s = clock_s()
        self._failed = False
        self._said: object = None

    def look(self, numbers: Collection[int] = ()) -> Gap | None:
        """Copy missing schemas, if events have a new id, or a check is due. Returns a gap if events would be read
        wrong here. A failed check is only logged.
        """
        now = self._clock_s()
        if now >= self._due_s:
            self._strange.clear()
        new = set(numbers) - self._numbers - self._strange
        if now < self._due_s and (self._failed or not new or len(self._strange) >= STRANGE_MAX):
            return None
        self._failed, self._due_s = True, now + RETRY_S
        try:
            with self._opened() as (there, here):
                return self._compare_all(there, here, new)
        except CutwaterError as error:
            _unknown(self._log, self._subject, str(error))
            self._metrics.schemas_missing(None)
            return None

    @contextmanager
    def _opened(self) -> Iterator[tuple[Subjects, Subjects]]:
        until_s = self._clock_s() + LOOK_S

        def in_time() -> None:
            if self._clock_s() > until_s:
                raise UnavailableError(f"the registries' answers about {self._subject} took more than {LOOK_S} s")

        with ExitStack() as stack:
            there, here = (Subjects(stack.enter_context(one()), in_time) for one in self._open)
            here.left = self._left
            yield there, here

    def _compare_all(self, there: Subjects, here: Subjects, new: Collection[int]) -> Gap | None:
        for subject, mode in list(self._left.items()):
            here.put_back(subject, mode)
        wanted = there.entries(self._subject, self._known)
        if not wanted:
            raise UsageError(f"the origin's registry has no subject {self._subject}: correct source.subject")
        self._numbers = frozenset(one.id for one in wanted)
        self._strange |= set(new) - self._numbers
        found = _compared(self._subject, wanted, here)
        if found.missing and not found.conflicts:
            reason = self._copied(found.missing, there, here)
            found = _compared(self._subject, wanted, here)
        else:
            reason = ""
        return self._log_result(found, len(wanted), reason, here)

    def _copied(self, missing: Collection[Entry], there: Subjects, here: Subjects) -> str:
        """Copy schemas; return why some are missing, or ""."""
        try:
            for subject, some in groupby(_with_references(missing, there, here), lambda one: one.subject):
                here.copy(subject, list(some))
        except UnavailableError:
            raise
        except ClosedError as error:
            return f"schemas are only compared, because the registry here refuses writes: {error}"
        except CutwaterError as error:
            return str(error)
        self._metrics.schemas_copied(len(missing))
        shown = "; ".join(str(one) for one in list(missing)[:SHOWN_MAX])
        self._log.info("schemas copied", subject=self._subject, count=len(missing), schemas=shown)
        return ""

    def _log_result(self, found: SubjectComparison, versions: int, reason: str, here: Subjects) -> Gap | None:
        """Log changes, and set the time of the next check."""
        self._failed = False
        self._metrics.schemas_missing(len(found.unreadable))
        news, self._said = (found, reason) != self._said, (found, reason)
        shown = "; ".join(([reason] if reason else []) + found.unreadable[:SHOWN_MAX])
        if found.conflicts:
            return Gap(SCHEMAS, f"{shown}. {_MEND}")
        if found.unreadable:
            if news:
                count = len(found.unreadable)
                self._log.error("schemas differ", subject=self._subject, count=count, reason=shown, advice=_ADVICE)
            return None
        self._due_s = self._clock_s() + AGAIN_S
        if news:
            told = f"all {versions} versions of the origin are registered here under their ids"
            self._log.info("schemas", subject=self._subject, found=told)
            self._warn_of_mode(here)
        return None

    def _warn_of_mode(self, here: Subjects) -> None:
        """Warn of a mode that a mirror left when it was killed while copying."""
        try:
            own, _ = here.mode(self._subject)
        except ClosedError:  # without the right to read it, it was not changed
            return
        if own == IMPORT:
            reason = "a schema registered without an id is refused"
            advice = f"reset it, unless it is intended: DELETE /mode/{self._subject}"
            self._log.warning("subject is in mode IMPORT", subject=self._subject, reason=reason, advice=advice)


def schemas_of(
    job: Job, settings: Settings, log: Any, metrics: Metrics, clock_s: Callable[[], float]
) -> Schemas | None:
    """Return the schemas that a mirror of the job copies; None without schemas or without two registries."""
    if job.format.kind not in REGISTRY_FORMATS:
        return None
    # The job file is the origin's.
    there = settings.origin_registry_url or job.registry.url
    here = settings.registry_url or job.registry.url
    subject = job.format.subject
    if not (there and here):
        missing = "CUTWATER_REGISTRY_URL" if there else "CUTWATER_ORIGIN_REGISTRY_URL"
        _unknown(log, subject, f"{missing} is not set, and the job file names no registry")
        return None
    if there.rstrip("/") == here.rstrip("/"):
        log.info("schemas", subject=subject, registry=here, found="both regions use one registry")
        return None
    return Schemas(
        subject,
        lambda: _registry(settings, there, "origin_"),
        lambda: _registry(settings, here, ""),
        log,
        metrics,
        clock_s,
    )


def _registry(settings: Settings, url: str, of: str) -> Registry:
    password = getattr(settings, f"{of}registry_password").get_secret_value()
    username, setting = getattr(settings, f"{of}registry_username"), f"CUTWATER_{of.upper()}REGISTRY"
    return Registry(url, username, password, TIMEOUT_S, ATTEMPTS, setting)


def _compared(subject: str, wanted: Collection[Entry], here: Subjects) -> SubjectComparison:
    stands = here.entries(subject, {})
    strangers = {one.id for one in wanted} - {one.id for one in stands}
    meant = {number: means for number in sorted(strangers) if (means := here.meaning(number)) is not None}
    return compare_subject(list(wanted), stands, meant)


def _with_references(missing: Collection[Entry], there: Subjects, here: Subjects) -> list[Entry]:
    """Return the schemas and their missing references, in the order in which a registry accepts them."""
    found: dict[Entry, None] = {}
    for one in missing:
        _add_referenced(one, there, here, found, ())
    return list(found)


def _add_referenced(
    one: Entry, there: Subjects, here: Subjects, found: dict[Entry, None], path: tuple[Entry, ...]
) -> None:
    if one in path:
        raise UsageError(f"{one} refers to itself through others, which no registry accepts")
    if len(path) > REFERENCES_DEEP or len(found) > VERSIONS_MAX + REFERENCED_MAX:
        raise UsageError(f"{one}: references are too deep or too many to follow")
    for subject, version in [(ref.subject, ref.version) for ref in one.references]:
        try:
            needed = there.entry(subject, version)
        except NotThereError:
            raise UsageError(
                f"{one} refers to version {version} of {subject}, which the origin's registry does not have"
            ) from None
        stands = {other.version: other for other in here.entries(subject, {})}.get(version)
        if needed in found or (stands is not None and stands.meaning == needed.meaning):
            continue
        judgement = _compared(subject, [needed], here)
        if not judgement.missing:
            raise UsageError(f"{one} refers to {needed}, but the registry here has {stands}")
        _add_referenced(needed, there, here, found, (*path, one))
    found[one] = None


def _unknown(log: Any, subject: str, reason: str) -> None:
    log.warning(
        "schemas not compared",
        subject=subject,
        reason=reason,
        advice="events name their schemas by the ids of the origin's registry: see docs/MIRRORING.md",
    )
