"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutwater.adapters.settings import Settings, load_settings

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder of the stack's state and logs; default CUTWATER_DATA_DIR or build/cutwater."),
]


def settings_for(data_dir: Path | None) -> Settings:
    """The settings of the environment, with the folder of the command line if one is given."""
    settings = load_settings()
    return settings.model_copy(update={"data_dir": data_dir}) if data_dir else settings
