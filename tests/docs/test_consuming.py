"""docs/CONSUMING.md tells the truth about command line and client library."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
import typer.main

import cutwater.client
from cutwater.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs/CONSUMING.md").read_text(encoding="utf-8")
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
LINES = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("cutwater ")])
def test_every_cutwater_line_parses(line: str) -> None:
    """Each command line on the page is one that the command line accepts."""
    _, verb, *arguments = shlex.split(line)
    COMMANDS[verb].make_context(verb, arguments, resilient_parsing=False)


@pytest.mark.parametrize("block", PYTHON)
def test_every_name_of_the_client_library_exists(block: str) -> None:
    """What the page imports from it is exported."""
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.ImportFrom) and node.module == "cutwater.client":
            assert {one.name for one in node.names} <= set(cutwater.client.__all__)
