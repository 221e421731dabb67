"""`config`: the settings of the environment, as every process of Cutwater reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import typer
from pydantic import SecretStr

from cutwater.adapters.config.settings import Settings, load_settings
from cutwater.adapters.runtime.cache_folder import CACHE_VARIABLE
from cutwater.cli.options import JsonOption, WideOption
from cutwater.cli.report import print_note, print_report, report_errors
from cutwater.core.util.text_tables import Column

MASK = "********"
_PREFIX = "CUTWATER_"
app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True)
class SettingRow:
    """One setting as it is printed. A secret shows only whether it is set."""

    name: str
    value: Any
    source: str
    """`default` or `environment`."""
    secret: bool
    meaning: str


def settings_shown(settings: Settings) -> list[SettingRow]:
    """Return every setting, in the order of docs/SETTINGS.md."""
    return [
        SettingRow(
            name=f"{_PREFIX}{name.upper()}",
            value=_value(getattr(settings, name)),
            source="environment" if name in settings.model_fields_set else "default",
            secret=isinstance(getattr(settings, name), SecretStr),
            meaning=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the names of CUTWATER_ variables that are no setting, usually typing errors."""
    known = {f"{_PREFIX}{name.upper()}" for name in Settings.model_fields} | {CACHE_VARIABLE}
    return sorted(name for name in environment if name.upper().startswith(_PREFIX) and name.upper() not in known)


def _value(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return MASK if value.get_secret_value() else ""
    return value if isinstance(value, bool | int | None) else str(value)


@app.command()
@report_errors
def show(as_json: JsonOption = False, wide: WideOption = False) -> None:
    """Show every setting, its value and where it comes from. Secrets are masked.

    Examples:  cutwater config show  ·  cutwater config show --json
    """
    settings = load_settings()
    settings.cluster  # noqa: B018  (raises UsageError for security settings that contradict each other)
    shown = settings_shown(settings)
    rows = ((one.name, one.value, one.source, one.meaning) for one in shown)
    columns = ("variable", "value", Column("from", 1), Column("meaning", below=True))
    print_report("settings", columns, rows, [asdict(one) for one in shown], as_json)
    for name in unknown_variables(os.environ):
        print_note(f"warning: {name} is set, but no setting has this name (docs/SETTINGS.md lists them)")


@app.callback()
def config() -> None:
    """Settings: show the values in force, and where each comes from.

    Examples:  cutwater config show  ·  cutwater config show --json
    """


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="config")
