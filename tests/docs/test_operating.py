"""docs/OPERATING.md tells the truth about the command line and the topics."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from cutwater.cli.main import app
from cutwater.core import estimate, topics
from cutwater.core.generations import Generation

PAGE = (Path(__file__).parents[2] / "docs/OPERATING.md").read_text(encoding="utf-8")
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
BLOCKS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


@pytest.mark.parametrize("line", [line for line in BLOCKS if line.startswith("cutwater ")])
def test_every_cutwater_line_parses(line: str) -> None:
    """Each command line on the page is one that the command line accepts."""
    _, verb, *arguments = shlex.split(line)
    COMMANDS[verb].make_context(verb, arguments, resilient_parsing=False)


def test_every_topic_that_is_added_is_on_the_page() -> None:
    """The page lists what a job adds to a cluster, topic by topic."""
    listed = set(re.findall(r"^\| topic, [^|]*\| `<job>\.([a-z-]+)[.<`]", PAGE, re.MULTILINE))
    owned = {one.name.removeprefix("job.").split(".")[0] for one in topics.owned("job", Generation(1, "local"), 2)}
    assert listed == owned


def test_the_formula_has_the_codes_numbers() -> None:
    """Bytes of a protocol record, of a cut's entry and of a record's frame are those of the code."""
    assert f"3 x {estimate.PROTOCOL_BYTES} + 2 x {estimate.CUT_BYTES} x partitions" in PAGE
    assert f"bytes of an event + {estimate.RECORD_BYTES}" in PAGE
