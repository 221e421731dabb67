"""At the mirror's start: do the registries of both regions know the events' schemas by the same numbers?

Copying goes on whatever the answer is: bytes are copied right, and a registry can be mended later. But a driver
here could not read the events, or would read them as something else, and nobody would know before a failover.
"""

from __future__ import annotations

from typing import Any

from cutwater.adapters.avro import crc64
from cutwater.adapters.registry import MuteError, Registry
from cutwater.adapters.settings import Settings
from cutwater.core.errors import CutwaterError, UnavailableError
from cutwater.core.formats import CONFLUENT
from cutwater.core.job import Job
from cutwater.core.schema_numbers import differing

TIMEOUT_S, ATTEMPTS = 3.0, 2
SHOWN_MAX = 5


def compare_registries(job: Job, settings: Settings, log: Any) -> None:
    """Says in the log how the two stand to each other; nothing of a job whose events name no number."""
    if job.format.kind != CONFLUENT:
        return
    # The job file is the origin's.
    there = settings.origin_registry_url or job.registry.url
    here = settings.registry_url or job.registry.url
    subject = job.format.subject
    if not (there and here):
        missing = "CUTWATER_REGISTRY_URL" if there else "CUTWATER_ORIGIN_REGISTRY_URL"
        _unknown(log, subject, f"{missing} is not set, and the job file names no registry")
    elif there.rstrip("/") == here.rstrip("/"):
        log.info("schemas", subject=subject, registry=here, found="both regions ask one registry")
    else:
        _compare(subject, _registry(settings, there, "origin_"), _registry(settings, here, ""), log)


def _registry(settings: Settings, url: str, of: str) -> Registry:
    password = getattr(settings, f"{of}registry_password").get_secret_value()
    username, setting = getattr(settings, f"{of}registry_username"), f"CUTWATER_{of.upper()}REGISTRY"
    return Registry(url, username, password, TIMEOUT_S, ATTEMPTS, setting)


def _compare(subject: str, there: Registry, here: Registry, log: Any) -> None:
    with there, here:
        try:
            wanted = _numbers(there, subject)
        except CutwaterError as error:
            _unknown(log, subject, str(error))
            return
        try:
            known = _numbers(here, subject)
        except (UnavailableError, MuteError) as error:
            _unknown(log, subject, str(error))
            return
        except CutwaterError as error:  # it answers, and has nothing that a driver could read
            log.error("schemas differ", subject=subject, reason=str(error), advice=_ADVICE)
            return
    if wrong := differing(wanted, known):
        shown = "; ".join(wrong[:SHOWN_MAX])
        log.error("schemas differ", subject=subject, count=len(wrong), reason=shown, advice=_ADVICE)
    else:
        log.info(
            "schemas", subject=subject, found=f"all {len(wanted)} numbers of the origin's are known here alike"
        )


_ADVICE = "a driver here could not read these events: copy the subject into the registry here with its numbers"


def _numbers(registry: Registry, subject: str) -> dict[int, str]:
    return {one.id: crc64(one.schema).hex() for one in registry.versions(subject)}


def _unknown(log: Any, subject: str, reason: str) -> None:
    log.warning(
        "schemas not compared",
        subject=subject,
        reason=reason,
        advice="events name their schemas by the numbers of the origin's registry: see docs/MIRRORING.md",
    )
