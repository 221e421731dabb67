"""Options that several verbs share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from cutwater.adapters.config.settings import Settings, load_settings
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.cli.report import out
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.local import running_file
from cutwater.local.running_file import RunningStack


def _widen(wide: bool) -> bool:
    # typer calls this for each run of a verb, with or without the option.
    out.wide = wide
    return wide


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
WideOption = Annotated[
    bool,
    typer.Option("--wide", help="Print all columns and break no line, in a narrow terminal too.", callback=_widen),
]
"""For every verb that prints a table. `out.table` reads the value."""
DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder of the stack's state and logs. Default: CUTWATER_DATA_DIR or build/cutwater."),
]
BootstrapOption = Annotated[
    str | None,
    typer.Option(help="Your Kafka brokers as host:port, comma separated. CUTWATER_KAFKA_* set TLS and SASL."),
]
JobOption = Annotated[
    Path | None,
    typer.Argument(help="The job file, needed with --bootstrap-servers. Default: the running stack's."),
]


JobNameOption = Annotated[
    str | None, typer.Option("--job", help="The job, if the stack on the data folder runs several.")
]


class JobContext(NamedTuple):
    """A job and the cluster, settings and stack that it runs with."""

    job: Job
    job_file: Path
    cluster: Cluster
    settings: Settings
    """The environment's, with the brokers and the data folder of this place."""
    stack: RunningStack | None
    """None if the command line names brokers."""


def find_job(
    job_file: Path | None, bootstrap: str | None, data_dir: Path | None, job_name: str | None = None
) -> JobContext:
    """Return the named brokers with their job file, else the running stack; of several jobs the named one, else
    that of the job file.

    Raises UsageError if there is neither, UnavailableError while the stack is starting.
    """
    from cutwater.adapters.job_files.loader import (
        load_job,  # half of a verb's start-up time
    )

    settings = settings_for(data_dir, bootstrap)
    if bootstrap is not None:
        if job_file is None:
            raise UsageError("--bootstrap-servers needs the job file: name it before the options")
        return JobContext(load_job(job_file), job_file, settings.cluster, settings, None)
    job = load_job(job_file) if job_file else None
    if job and job_name is None and len(running_file.stacks(settings.data_dir)) > 1:
        job_name = job.name
    stack = running_file.require(settings.data_dir, job_name)
    cluster, path = stack.cluster, job_file or Path(stack.job_file)
    found = {"data_dir": Path(stack.data_dir), "bootstrap_servers": cluster.bootstrap}
    settings = settings.model_copy(update={**found, "kafka_security_protocol": cluster.security.protocol})
    return JobContext(job or load_job(path), path, cluster, settings, stack)


def settings_for(data_dir: Path | None, bootstrap: str | None = None) -> Settings:
    """Return the settings of the environment, overridden by those of the command line."""
    said = {"data_dir": data_dir, "bootstrap_servers": bootstrap}
    return load_settings().model_copy(update={name: value for name, value in said.items() if value})


def settings_beside(job: str, data_dir: Path | None, bootstrap: str | None) -> Settings:
    """Return the settings for a verb whose data folder need not be a stack's.

    The brokers are those of the command line, else of a stack that runs this job on the data folder or on the
    environment's folder, else of the environment.
    """
    settings = settings_for(data_dir, bootstrap)
    if bootstrap is None:
        for folder in (settings.data_dir, load_settings().data_dir):
            stack = running_file.find(folder, job)
            if stack is not None:
                cluster = stack.cluster
                said = {"bootstrap_servers": cluster.bootstrap}
                return settings.model_copy(update={**said, "kafka_security_protocol": cluster.security.protocol})
    return settings


def cluster_for(settings: Settings, bootstrap: str | None) -> Cluster | None:
    """Return the cluster of the command line, else of the running stack, else of the environment, else None."""
    if bootstrap is None and (found := running_file.stacks(settings.data_dir)):
        return found[0].cluster  # all jobs of a stack have the same
    named = bootstrap is not None or "CUTWATER_BOOTSTRAP_SERVERS" in os.environ
    return settings.cluster if named else None
