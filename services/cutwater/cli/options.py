"""Options that several verbs share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from cutwater.adapters.cluster import Cluster
from cutwater.adapters.settings import Settings, load_settings
from cutwater.local import running

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder of the stack's state and logs; default CUTWATER_DATA_DIR or build/cutwater."),
]
BootstrapOption = Annotated[
    str | None,
    typer.Option(help="Your Kafka brokers, host:port, comma separated; TLS and SASL by CUTWATER_KAFKA_*."),
]


def settings_for(data_dir: Path | None, bootstrap: str | None = None) -> Settings:
    """The settings of the environment, with what the command line says instead."""
    said = {"data_dir": data_dir, "bootstrap_servers": bootstrap}
    return load_settings().model_copy(update={name: value for name, value in said.items() if value})


def cluster_for(settings: Settings, bootstrap: str | None) -> Cluster | None:
    """The cluster to look at: of the command line, else of the running stack, else of the environment.

    None when none of them names one.
    """
    if bootstrap is None and (stack := running.find(settings.data_dir)):
        return stack.cluster
    named = bootstrap is not None or "CUTWATER_BOOTSTRAP_SERVERS" in os.environ
    return settings.cluster if named else None
