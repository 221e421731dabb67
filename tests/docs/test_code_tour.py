"""docs/CODE_TOUR.md: each step of a walk names one file, and classes or functions that the file defines."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from support.pages import ROOT, text_of

PAGE = "docs/CODE_TOUR.md"
WALKS, FILES_MAX = 4, 15
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
STEP = re.compile(r"^(\d+)\. (.+(?:\n +.+)*)", re.MULTILINE)
QUOTED = re.compile(r"`([^`]+)`")


class Step(NamedTuple):
    """One step: the file, and the names in backquotes beside it."""

    number: int
    path: str
    names: tuple[str, ...]


class Walk(NamedTuple):
    """One section of the page with its numbered list."""

    title: str
    steps: tuple[Step, ...]


def walks() -> list[Walk]:
    """Return the walks of the page."""
    parts = SECTION.split(text_of(PAGE))
    return [Walk(title, steps_of(text)) for title, text in zip(parts[1::2], parts[2::2], strict=True)]


def steps_of(text: str) -> tuple[Step, ...]:
    """Return the steps of a numbered list; the first words in backquotes are the file."""
    found = ((int(number), QUOTED.findall(step)) for number, step in STEP.findall(text))
    return tuple(Step(number, "".join(quoted[:1]), tuple(quoted[1:])) for number, quoted in found)


def every_step() -> list[Step]:
    """Return the steps of all walks."""
    return [step for walk in walks() for step in walk.steps]


def names_in(path: str) -> set[str]:
    """Return the classes and functions at the top of a file, and methods as `Class.method`."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = set[str]()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, functions):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {node.name, *(f"{node.name}.{one.name}" for one in node.body if isinstance(one, functions))}
    return found


def test_there_are_four_walks() -> None:
    """Each is a section with a list that counts from 1."""
    assert len(walks()) == WALKS
    for walk in walks():
        assert walk.steps, walk.title
        assert [one.number for one in walk.steps] == list(range(1, len(walk.steps) + 1)), walk.title


def test_a_walk_has_few_files() -> None:
    """At most 15 files, each of them in one step."""
    for walk in walks():
        files = [one.path for one in walk.steps]
        assert len(set(files)) <= FILES_MAX, walk.title
        assert [one for one in set(files) if files.count(one) > 1] == [], walk.title


def test_each_file_exists() -> None:
    """A step begins with a file of the code, by its path in the repository."""
    for step in every_step():
        assert step.path.endswith(".py"), step
        assert (ROOT / step.path).is_file(), step


def test_each_name_is_defined_in_its_file() -> None:
    """Beside a file is at least one public class or function, and the file defines each of them."""
    for step in every_step():
        assert step.names, step
        assert [one for one in step.names if one.startswith("_") or "._" in one] == [], step
        assert set(step.names) - names_in(step.path) == set(), step


def test_what_a_walk_leaves_out_exists() -> None:
    """The files and folders after a list are in the repository."""
    quoted = QUOTED.findall(text_of(PAGE))
    paths = [one for one in quoted if one.startswith(("services/", "spark/", "native"))]
    assert [one for one in paths if not (ROOT / one).exists()] == []
