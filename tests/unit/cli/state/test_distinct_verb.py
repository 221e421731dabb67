"""`cutwater distinct` asks for sets as they are written, and shows the number with its bounds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cutwater.cli.main import app
from support.cli.stack_file import write_stack
from support.views.apiserving import app_of, serving
from support.views.changelogs import HOUR_MS
from unit.rehydrator.routes.test_distinct_sets import Values, job_of, shown

RIDERS: Values = {("JFK", 1): range(100), ("JFK", 2): range(50, 150), ("LGA", 1): range(90, 200),
                  ("a@b/c", 1): range(3), ("a@0/1", 1): range(7), ("big", 1): range(20_000)}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a stack with the API of such a view."""
    place = tmp_path_factory.mktemp("stack")
    own = shown(place / "v", job_of(place), RIDERS)
    with serving(app_of(own.view)) as url:
        write_stack(place, url)
        yield place
    own.close()


def distinct(folder: Path, *words: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["distinct", "--data-dir", str(folder), *words])


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (["--of", "JFK"], 150),
        (["--of", "JFK@/3600001"], 100),
        (["--of", "JFK@7200000/"], 100),
        (["--of", "JFK@1970-01-01T02:00:00Z/1970-01-01T03:00:00Z", "--not", "JFK@/7200000"], 50),
        (["--of", "JFK", "--to", "1970-01-01T02:00:00Z"], 100),
        (["--of", "JFK@/", "--to", "1970-01-01T02:00:00Z"], 150),
        (["--of", "JFK", "--of", "LGA"], 200),
        (["--of", "JFK", "--and", "LGA"], 60),
        (["--of", "JFK", "--of", "LGA", "--and", "JFK", "--and", "LGA", "--not", "JFK@7200000/"], 0),
        (["--of", "a@b/c"], 3),
        (["--of", "a@0/1@/"], 7),
    ],
)
def test_sets_are_read_as_they_are_written(folder: Path, words: list[str], number: int) -> None:
    """A span behind the key, or the one of all sets; a key may look like either."""
    done = distinct(folder, "riders", *words, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["estimate"], found["exact"]) == (number, True)


def test_people_see_sets_and_bounds(folder: Path) -> None:
    """How many rows and values each set has; the number is exact, or between two others."""
    done = distinct(folder, "riders", "--of", "JFK", "--not", "LGA@3600000/")
    assert "riders: 90 different values, exactly\n" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["of", "JFK", "2", "150"] in lines
    assert ["not", "LGA", "3600000", "1", "110"] in lines
    assert lines[0] == ["sets", "at", "g1-local-00000000:1"]
    done = distinct(folder, "riders", "--of", "big")
    [least, most] = [int(one.replace(",", "")) for one in re.findall(r"(?:from|to) ([\d,]+)", done.stdout)]
    assert 18_000 < least < 20_000 < most < 22_000
    assert "with a probability of 99.7 %" in done.stdout


def test_exit_codes(folder: Path, tmp_path: Path) -> None:
    """1: nothing there. 2: no stack, or the question is wrong, and how to put it right. 4: not reached in time."""
    assert distinct(folder, "riders", "--of", "nobody", "--and", "JFK").exit_code == 1
    assert distinct(folder, "riders", "--of", f"JFK@/{HOUR_MS}").exit_code == 1
    for words, said in (
        (["seats", "--of", "JFK"], "has no theta sketch: riders"),
        (["riders", "--of", "JFK@2013-01-01/tomorrow"], "write JFK@2013-01-01/tomorrow@/"),
        (["riders", "--of", "JFK", "--from", "noon"], "is not a time"),
        (["riders"], "--of"),
        (["riders", *["--of", "JFK"] * 33], "32"),
        (["riders", "--of", "JFK", "--at-least", "nonsense"], "is not a token"),
    ):
        done = distinct(folder, *words)
        assert (done.exit_code, said in done.output) == (2, True), done.output
    assert distinct(tmp_path, "riders", "--of", "JFK").exit_code == 2
