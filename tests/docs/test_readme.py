"""README and command line tell the truth about each other."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import click
import pytest
import typer.main
from docs._generate.pages import PAGES
from typer.testing import CliRunner

from cutwater.cli.main import app
from cutwater.core import errors

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def blocks() -> list[str]:
    return [line for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]


def test_every_make_target_in_the_readme_exists() -> None:
    """What README says after 'make' is a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([a-z]+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_two_commands_stand_alone() -> None:
    """The first block of README is exactly the two commands."""
    assert blocks()[:2] == ["make demo", "make test"]


def test_the_table_of_commands_has_five_that_exist() -> None:
    """README lists five commands of `cutwater`, and links to the page with all."""
    listed = re.findall(r"^\| `cutwater ([a-z-]+)`", README, re.MULTILINE)
    assert len(listed) == len(set(listed)) == 5
    assert set(listed) <= set(COMMANDS)
    assert "(docs/CLI.md) has all commands" in README


def test_the_page_of_commands_is_complete() -> None:
    """docs/CLI.md, which README links to, lists every command of `cutwater`, and no other."""
    page = (ROOT / "docs/CLI.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## cutwater ([a-z-]+)$", page, re.MULTILINE)) == set(COMMANDS)


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_has_examples(verb: str) -> None:
    """`cutwater VERB --help` works and shows examples that parse."""
    result = CliRunner().invoke(app, [verb, "--help"])
    assert result.exit_code == 0
    text = " ".join((COMMANDS[verb].help or "").split())
    examples = text.partition("Examples:")[2].split("·")
    assert examples[0].strip(), f"{verb} has no examples"
    for example in examples:
        words = example.rpartition("|")[2].split()
        assert words[:2] == ["cutwater", verb], example
        try:
            COMMANDS[verb].make_context(verb, words[2:])
        except click.exceptions.ClickException as error:
            raise AssertionError(f"{example}: {error}") from error


def test_exit_codes_in_readme_are_the_ones_of_the_errors() -> None:
    """Each error class's code stands in README's table."""
    listed = {int(code) for code in re.findall(r"^\| ([0-9]+) \|", README, re.MULTILINE)}
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)]
    assert listed == {0, 130, *(kind.exit_code for kind in kinds)}  # type: ignore[attr-defined]


def test_make_help_lists_the_targets() -> None:
    """`make help` names each target that the issue of a newcomer needs."""
    text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("demo", "demo-regions", "up", "down", "test", "check", "docs", "fmt", "clean"):
        assert f"make {target}" in text


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_current(name: str) -> None:
    """docs/ says of settings and job file what the models say; `make fmt` renews it."""
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == PAGES[name]()
