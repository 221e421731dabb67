"""`calibrate`: this machine's figures for `size`."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cutwater.adapters.config.settings import load_settings
from cutwater.cli.options import JsonOption
from cutwater.cli.report import out, print_json, print_note, report_errors
from cutwater.cli.result_file import require_place, write_result
from cutwater.core.errors import UsageError
from cutwater.core.sizing.machine import Machine
from cutwater.local.calibration.run import calibrate as measure
from cutwater.local.machine.extras import require


@report_errors
def calibrate(
    path: Annotated[Path, typer.Option("--out", help="The file for 'cutwater size'.")] = Path("machine.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure what a driver and what is beside it take on this machine, and write a file for 'cutwater size'.

    Three small jobs run one after the other, each with its own broker, for about seven minutes together: until a
    driver is warm, each gets the same loads again. Let nothing else run meanwhile. Figures that are not measured,
    such as restores, keep their defaults.

    Examples:  cutwater calibrate  ·  cutwater calibrate --out m5-large.yaml --force
    """
    if path.exists() and not force:
        raise UsageError(f"{path} exists: name another file with --out, or replace it with --force")
    require_place(path, "--out")
    require("local", "pyspark", "jgo")
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="cutwater-calibrate-"))
    try:
        found = measure(load_settings(), folder, print_note)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        phases = [one._asdict() for one in found.phases]
        print_json({"path": str(path), "figures": _figures(found.machine), "phases": phases})
    else:
        for name, value in _figures(found.machine).items():
            out.print(f"{name}: {value:g}")
    write_result(path, machine_text(found.machine))
    print_note(f"{path} written after {time.monotonic() - began:,.0f} s: cutwater size JOB_FILE --machine {path}")


def _figures(machine: Machine) -> dict[str, float]:
    """Return the machine's size and what differs from the defaults, to four digits."""
    default = {**asdict(Machine()), **dict.fromkeys(("cores", "memory_gb"))}
    return {name: float(f"{value:.4g}") for name, value in asdict(machine).items() if value != default[name]}


def machine_text(machine: Machine) -> str:
    """Return a file that `cutwater size --machine` reads."""
    lines = [f"{name}: {value:g}" for name, value in _figures(machine).items()]
    return "\n".join(["# Measured by 'cutwater calibrate'; docs/SIZING.md says what each figure is.", *lines, ""])


def register(app: typer.Typer) -> None:
    app.command()(calibrate)
