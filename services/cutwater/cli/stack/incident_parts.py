"""The parts of an incident's file, in the order of their use, and the secrets that none of them may show."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.connect import ask
from cutwater.adapters.topics import commit_stream
from cutwater.adapters.topics.alerts import read_alerts
from cutwater.adapters.topics.recovery_log import history
from cutwater.cli.job.config import settings_shown, unknown_variables
from cutwater.cli.job.doctor import findings_of
from cutwater.cli.json_values import to_plain
from cutwater.cli.options import cluster_for, settings_for
from cutwater.cli.report import milestone_json
from cutwater.cli.stack.history import recovery_json
from cutwater.cli.stack.status import read_status
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.monitoring.alerts import plain
from cutwater.core.monitoring.incident import Excerpt
from cutwater.core.util.redaction import Redactor, secrets_of
from cutwater.local import running_file
from cutwater.local.incident import parts as machine
from cutwater.local.incident.archive import ArchivePart, json_part
from cutwater.local.running_file import RunningStack

BROKERS_S = 5.0
MILESTONES = 500
STARTS = 200


@dataclass(frozen=True)
class Place:
    """The job, and what is known of where it runs."""

    job_name: str
    job_file: Path
    settings: Settings
    bootstrap: str | None
    stack: RunningStack | None
    """The one that runs or has ended with an error; None if none is known."""

    @cached_property
    def cluster(self) -> Cluster:
        """The brokers. Raises CutwaterError, each time the same, if they do not answer or none are named: a part
        must not wait once more for what another has waited for."""
        if isinstance(found := self._brokers, CutwaterError):
            raise found
        return found

    @cached_property
    def _brokers(self) -> Cluster | CutwaterError:
        try:
            found = self.known_cluster
            if found is None:
                return UsageError("no brokers are named: give --bootstrap-servers")
            ask(found, BROKERS_S)
        except CutwaterError as error:
            return error
        return found

    @property
    def known_cluster(self) -> Cluster | None:
        if self.bootstrap is None and self.stack is not None:
            return self.stack.cluster
        return cluster_for(self.settings, self.bootstrap)

    def require_stack(self) -> RunningStack:
        """Return the stack. Raises UnavailableError if it does not run."""
        if self.stack is None or not self.stack.alive:
            said = f"; it has ended, at {self.stack.ended}" if self.stack and self.stack.ended else ""
            raise UnavailableError(f"no stack of {self.job_name} runs on {self.settings.data_dir}{said}")
        return self.stack


def find_place(job_file: Path | None, bootstrap: str | None, data_dir: Path | None, name: str | None) -> Place:
    """Return the job of a file, else of the stack that runs or has ended with an error. Raises UsageError."""
    settings = settings_for(data_dir, bootstrap)
    named = load_job(job_file).name if job_file else name
    stack = None if bootstrap else running_file.last(settings.data_dir, named)
    if stack is None and job_file is None:
        raise UsageError(f"no stack is known on {settings.data_dir}: name the job file")
    found = job_file or Path(stack.job_file if stack else "")
    return Place(named or (stack.job if stack else ""), found, settings, bootstrap, stack)


def redactor_of(place: Place) -> Redactor:
    """Return what takes out the secrets of the settings, and of the variables of this process and of the stack."""
    given = [getattr(place.settings, name) for name in Settings.model_fields]
    settings = [one.get_secret_value() for one in given if isinstance(one, SecretStr)]
    variables = (os.environ, machine.environment_of(place.stack))
    return Redactor([*settings, *(secret for each in variables for secret in secrets_of(each))])


def parts_of(place: Place, redactor: Redactor) -> Iterator[ArchivePart]:
    """Yield the parts: what is short and tells most comes first, the logs last."""

    def document(name: str, read: Callable[[], Any]) -> ArchivePart:
        return json_part(f"{name}.json", lambda: to_plain(read()), redactor)

    settings, job = place.settings, place.job_name
    yield document("versions", lambda: machine.versions(_cluster_or_none(place)))
    yield document("settings", lambda: _settings(settings))
    yield ArchivePart("job.yaml", lambda _max: Excerpt(place.job_file.read_text(encoding="utf-8")))
    yield document("stack", lambda: asdict(_known(place)))
    yield document("processes", lambda: machine.processes(place.require_stack()))
    yield document("status", lambda: _status(place))
    yield document("alerts", lambda: [plain(one) for one in read_alerts(place.cluster, job).values()])
    yield document("doctor", lambda: _findings(place))
    yield document("history", lambda: [recovery_json(one) for one in history(place.cluster, job, STARTS)])
    yield document(
        "milestones",
        lambda: [milestone_json(one) for one, _ in commit_stream.milestones(place.cluster, job, MILESTONES)],
    )
    if place.stack is None:
        yield ArchivePart("metrics", lambda _max: _none_known(place))
    else:
        yield from machine.metrics_parts(place.stack, settings)
    yield from _logs(place)


def _settings(settings: Settings) -> dict[str, Any]:
    shown = [{"name": one.name, "value": one.value, "source": one.source} for one in settings_shown(settings)]
    return {"settings": shown, "unknown_variables": unknown_variables(os.environ)}


def _status(place: Place) -> dict[str, Any]:
    stack = place.require_stack()
    place.cluster  # noqa: B018  (raises if no broker answers)
    return read_status(stack, place.settings)


def _findings(place: Place) -> list[dict[str, Any]]:
    return [asdict(one) for one in findings_of(place.job_file, place.settings, _cluster_or_none(place), False)]


def _logs(place: Place) -> list[ArchivePart]:
    folders = [place.settings.data_dir / "logs"]
    named: list[str] = []
    if place.stack is not None:
        folders.append(Path(place.stack.data_dir) / "logs")
        named = list(place.stack.logs.values())
    found = machine.log_parts(folders, named)
    where = folders[-1]
    return found or [ArchivePart("logs", lambda _max: _raise(UnavailableError(f"no log is in {where}")))]


def _cluster_or_none(place: Place) -> Cluster | None:
    try:
        return place.cluster
    except CutwaterError:
        return None


def _known(place: Place) -> RunningStack:
    if place.stack is None:
        raise UnavailableError(f"no stack of {place.job_name} is known on {place.settings.data_dir}")
    return place.stack


def _none_known(place: Place) -> Excerpt:
    _known(place)
    return Excerpt("")


def _raise(error: CutwaterError) -> Excerpt:
    raise error
