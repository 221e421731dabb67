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
    """Called for each run of a verb, with or without the option."""
    out.wide = wide
    return wide


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
WideOption = Annotated[
    bool,
    typer.Option("--wide", help="All columns, and no line broken, in a narrow terminal too.", callback=_widen),
]
"""Of every verb that prints a table; what it sets is read by `out.table`."""
DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder of the stack's state and logs; default CUTWATER_DATA_DIR or build/cutwater."),
]
BootstrapOption = Annotated[
    str | None,
    typer.Option(help="Your Kafka brokers, host:port, comma separated; TLS and SASL by CUTWATER_KAFKA_*."),
]
JobOption = Annotated[
    Path | None, typer.Argument(help="The job file, with --bootstrap-servers; else the running stack's.")
]


class Place(NamedTuple):
    """Where a job runs."""

    job: Job
    job_file: Path
    cluster: Cluster
    settings: Settings
    """Those of the environment; brokers and data folder are the place's."""
    stack: RunningStack | None
    """None where brokers are named."""


def place_of(job_file: Path | None, bootstrap: str | None, data_dir: Path | None) -> Place:
    """The brokers named with their job file, else the running stack.

    Raises UsageError where there is neither; UnavailableError where the stack is still starting.
    """
    from cutwater.adapters.job_files.loader import (
        load_job,  # reading a job file takes half of what a verb needs to begin
    )

    settings = settings_for(data_dir, bootstrap)
    if bootstrap is not None:
        if job_file is None:
            raise UsageError("with --bootstrap-servers the job file is needed: name it before the options")
        return Place(load_job(job_file), job_file, settings.cluster, settings, None)
    stack = running_file.require(settings.data_dir)
    cluster, path = stack.cluster, job_file or Path(stack.job_file)
    found = {"data_dir": Path(stack.data_dir), "bootstrap_servers": cluster.bootstrap}
    settings = settings.model_copy(update={**found, "kafka_security_protocol": cluster.security.protocol})
    return Place(load_job(path), path, cluster, settings, stack)


def settings_for(data_dir: Path | None, bootstrap: str | None = None) -> Settings:
    """The settings of the environment, with what the command line says instead."""
    said = {"data_dir": data_dir, "bootstrap_servers": bootstrap}
    return load_settings().model_copy(update={name: value for name, value in said.items() if value})


def settings_beside(job: str, data_dir: Path | None, bootstrap: str | None) -> Settings:
    """As `settings_for`, for a verb whose data folder need not be a stack's: the brokers of a job that runs here.

    Of the command line, else of the stack on the folder, else of that on the environment's folder; a stack counts
    if it runs this job. Else of the environment.
    """
    settings = settings_for(data_dir, bootstrap)
    if bootstrap is None:
        for folder in (settings.data_dir, load_settings().data_dir):
            stack = running_file.find(folder)
            if stack is not None and stack.job == job:
                cluster = stack.cluster
                said = {"bootstrap_servers": cluster.bootstrap}
                return settings.model_copy(update={**said, "kafka_security_protocol": cluster.security.protocol})
    return settings


def cluster_for(settings: Settings, bootstrap: str | None) -> Cluster | None:
    """The cluster to look at: of the command line, else of the running stack, else of the environment.

    None when none of them names one.
    """
    if bootstrap is None and (stack := running_file.find(settings.data_dir)):
        return stack.cluster
    named = bootstrap is not None or "CUTWATER_BOOTSTRAP_SERVERS" in os.environ
    return settings.cluster if named else None
