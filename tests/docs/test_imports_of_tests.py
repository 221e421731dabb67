"""One test module that takes a name from another: an absent name ends the whole run at its collection."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def imports() -> Iterator[tuple[Path, ast.ImportFrom]]:
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("test_"):
                yield path, node


def names(module: Path) -> set[str]:
    """What stands at the top of a module: its definitions, assignments and imports."""
    found: set[str] = set()
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update(alias.asname or alias.name for alias in node.names)
        else:
            found.update(one.id for one in ast.walk(node) if isinstance(one, ast.Name))
    return found


def test_the_names_are_there() -> None:
    for path, node in imports():
        module = path.with_name(f"{node.module}.py")
        assert module.exists(), f"{path} imports {node.module}, which does not stand beside it"
        absent = {alias.name for alias in node.names} - names(module)
        assert not absent, f"{path} imports {sorted(absent)} from {module.name}, where these names are not"
