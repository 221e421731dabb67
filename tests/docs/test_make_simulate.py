"""`make simulate` hands what it is given to the simulation, and leaves the rest to it."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

from simulation import histories, region_histories
from simulation.__main__ import arguments
from support.pages import ROOT

VARIABLES = ("SEEDS", "SEED", "STEPS", "REGIONS")
PROGRAM = " -m simulation "


def called(*given: str) -> list[str]:
    """The program's words, as `make` would call it. What this test run itself was given says nothing here."""
    env = {name: value for name, value in os.environ.items() if name not in {*VARIABLES, "MAKEFLAGS", "MFLAGS"}}
    command = ["make", "--dry-run", "simulate", *given]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=True)
    (line,) = [one for one in done.stdout.splitlines() if PROGRAM in one]
    return shlex.split(line.partition(PROGRAM)[2])


@pytest.mark.parametrize(
    ("given", "regions", "seed", "seeds", "steps"),
    [
        ((), False, None, 5_000, histories.STEPS),
        (("SEEDS=7", "STEPS=9"), False, None, 7, 9),
        (("SEED=17",), False, 17, 5_000, histories.STEPS),
        (("REGIONS=1", "SEEDS=7"), True, None, 7, region_histories.STEPS),
        (("REGIONS=1", "SEED=17", "STEPS=9"), True, 17, 5_000, 9),
    ],
)
def test_it_asks_for_what_it_is_given(
    given: tuple[str, ...], regions: bool, seed: int | None, seeds: int, steps: int
) -> None:
    """Two regions have histories of another length, unless one is given."""
    asked = arguments(called(*given))
    assert (asked.regions, asked.seed, asked.seeds, asked.steps) == (regions, seed, seeds, steps)
