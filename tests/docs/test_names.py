"""The rooms and the names of the code: folders that can be read at a glance, and words of the field."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = {"services": ROOT / "services/cutwater", "spark": ROOT / "spark/cutwater_spark"}
MODULES_MAX, TEST_FILES_MAX = 14, 40
LINES_MIN = 25
PLACES_MAX = 2
EVERYWHERE = {"main", "register", "Metrics", "encode", "decode"}
"""Names of one form in each of their modules: entry points, verbs, a service's metrics, codecs."""
RETIRED = frozenset(Path(__file__).with_name("retired_words.txt").read_text(encoding="utf-8").split())
"""Words of no field that named modules, classes or functions once. GLOSSARY.md has the words to use."""


class Name(NamedTuple):
    text: str
    where: str
    nested: bool


def modules() -> Iterator[tuple[str, Path]]:
    for source, package in PACKAGES.items():
        for file in sorted(package.rglob("*.py")):
            yield ".".join(file.relative_to(ROOT / source).with_suffix("").parts), file


def names(file: Path) -> Iterator[Name]:
    """Classes and functions of a file; of a nested one too."""
    top = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(top):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield Name(node.name, f"{file.relative_to(ROOT)}:{node.lineno}", node not in top.body)


def importers() -> dict[str, set[str]]:
    known, found = {name for name, _ in modules()}, defaultdict[str, set[str]](set)
    for name, file in modules():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for one in {node.module, *(f"{node.module}.{each.name}" for each in node.names)} & known:
                    found[one].add(name)
    return found


def test_a_folder_is_read_at_a_glance() -> None:
    """At most 14 modules in a folder of the code, and at most 40 files in one of the tests."""
    for package, most in (
        (ROOT / "services", MODULES_MAX),
        (ROOT / "spark", MODULES_MAX),
        (ROOT / "tests", TEST_FILES_MAX),
    ):
        for folder in (one for one in package.rglob("*") if one.is_dir()):
            files = [one for one in folder.glob("*.py") if one.name != "__init__.py"]
            assert len(files) <= most, f"{folder.relative_to(ROOT)} has {len(files)} modules"


def test_a_module_holds_more_than_a_thought() -> None:
    """A module below 25 lines that one other module imports belongs into that one."""
    users = importers()
    for name, file in modules():
        if file.name not in ("__init__.py", "__main__.py") and len(users[name]) <= 1:
            lines = len(file.read_text(encoding="utf-8").splitlines())
            assert lines >= LINES_MIN, f"{name} has {lines} lines, and {users[name]} imports it"


def test_a_public_name_stands_in_few_modules() -> None:
    """Who searches for a name finds what is meant. Verbs of the command line have the verb's name."""
    where = defaultdict[str, list[str]](list)
    for name, file in modules():
        for one in names(file):
            if not one.nested and not one.text.startswith("_") and not name.startswith("cutwater.cli."):
                where[one.text].append(name)
    often = {name: found for name, found in where.items() if len(found) > PLACES_MAX and name not in EVERYWHERE}
    assert often == {}


def test_retired_words_do_not_come_back() -> None:
    """No module, class or function has one of these as its whole name."""
    for source in (*PACKAGES.values(), ROOT / "benchmarks", ROOT / "examples"):
        for file in source.rglob("*.py"):
            assert file.stem not in RETIRED, file.relative_to(ROOT)
            for one in names(file):
                assert one.text.strip("_").lower() not in RETIRED, one.where
