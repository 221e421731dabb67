"""The architecture that ARCHITECTURE.md promises, read from the code."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


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
    for file in (ROOT / "services/cutwater/core").glob("*.py"):
        for name in imports(file):
            allowed = name.startswith("cutwater.core") or name.split(".")[0] in sys.stdlib_module_names
            assert allowed, f"{file.name} imports {name}"


def test_core_reads_no_clock_and_no_randomness() -> None:
    """Time and randomness enter core as arguments."""
    for file in (ROOT / "services/cutwater/core").glob("*.py"):
        assert not imports(file) & {"time", "random", "os", "threading", "logging", "secrets"}, file.name


def test_every_test_named_in_the_architecture_exists() -> None:
    """A path in backquotes that looks like a file of the project is one."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8") + (ROOT / "README.md").read_text(
        encoding="utf-8"
    )
    for path in re.findall(r"`((?:tests|services|spark|deploy|schemas|docs)/[\w/.-]+)`", text):
        assert (ROOT / path).exists(), path


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
