"""The architecture that ARCHITECTURE.md promises, read from the code."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES_WITH_PATHS = [
    ROOT / name for name in ("ARCHITECTURE.md", "README.md", "docs/GUARANTEES.md", "docs/LIMITS.md")
]
DECISIONS = sorted((ROOT / "docs/decisions").glob("*.md"))


def imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_core_imports_the_standard_library_only() -> None:
    """No file of core imports anything but core and the standard library."""
    for file in (ROOT / "services/cutwater/core").rglob("*.py"):
        for name in imports(file):
            allowed = name.startswith("cutwater.core") or name.split(".")[0] in sys.stdlib_module_names
            assert allowed, f"{file.name} imports {name}"


def test_core_reads_no_clock_and_no_randomness() -> None:
    """Time and randomness enter core as arguments."""
    for file in (ROOT / "services/cutwater/core").rglob("*.py"):
        assert not imports(file) & {"time", "random", "os", "threading", "logging", "secrets"}, file.name


@pytest.mark.parametrize("page", [*PAGES_WITH_PATHS, *DECISIONS], ids=lambda page: page.name)
def test_every_path_on_a_page_exists(page: Path) -> None:
    """A path in backquotes that looks like a file of the project is one."""
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:tests|services|spark|native|deploy|schemas|docs)/[\w/.-]+)`", text):
        assert (ROOT / path).exists(), path


def test_the_architecture_is_read_in_ten_minutes() -> None:
    """ARCHITECTURE.md has at most 1,500 words, ten of them explained, two pictures and nine steps."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 1_500
    assert text.count("```mermaid") == 2
    words = text.partition("## Ten words")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\| (?!word )\w+ \|", words, re.MULTILINE)) == 10
    journey = text.partition("## One event's journey")[2].partition("\n## ")[0]
    assert re.findall(r"^(\d)\. \*\*", journey, re.MULTILINE) == [str(number) for number in range(1, 10)]


def test_every_folder_of_the_code_is_in_the_tree() -> None:
    """ARCHITECTURE.md names each package of `services/cutwater`, and `spark/cutwater_spark`."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    tree = text.partition("## The tree and its layers")[2].partition("\n## ")[0]
    named = {path.rpartition("/")[2] for path in re.findall(r"`([\w/]+)`", tree)}
    packages = {path.parent.name for path in (ROOT / "services/cutwater").glob("*/__init__.py")}
    assert {*packages, "cutwater_spark"} - named == set()


def test_no_file_names_a_package_registry_or_a_machine_path() -> None:
    """Tools use their own defaults; the project moves between machines."""
    hosts = ["py" + "pi.org", "maven" + ".org", "python" + "hosted", "npmjs" + ".", "/ro" + "ot/", "/wo" + "rk/"]
    for file in ROOT.rglob("*"):
        relative = file.relative_to(ROOT)
        skipped = {".git", ".venv", "build", "dist"} & set(relative.parts) or any(
            part.endswith("_cache") or part in {"__pycache__", ".hypothesis"} for part in relative.parts
        )
        if skipped or not file.is_file() or file.suffix == ".png":
            continue
        text = file.read_text(encoding="utf-8", errors="ignore")
        assert not [host for host in hosts if host in text], relative


def test_no_two_files_of_tests_have_one_name() -> None:
    """pytest imports them by it: on a clean clone the second one of a run is an error."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert [name for name in set(names) if names.count(name) > 1] == []


def test_no_folder_has_too_many_files() -> None:
    """Whoever looks for the place of a change reads the list of files."""
    count: Counter[str] = Counter()
    for folder in ("services", "spark", "benchmarks", "tests"):
        count.update(
            path.parent.relative_to(ROOT).as_posix()
            for path in (ROOT / folder).rglob("*.py")
            if path.name != "__init__.py"
        )
    assert [one for one, number in count.items() if number > (40 if one.startswith("tests") else 14)] == []
