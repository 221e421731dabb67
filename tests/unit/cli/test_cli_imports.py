"""What the command line imports before it does anything: that is how long a verb takes to begin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from cutwater.cli.main import app
from cutwater.cli.verbs import VERBS

HEAVY = (
    "pyspark",
    "pandas",
    "numpy",
    "duckdb",
    "pyarrow",
    "matplotlib",
    "datasketches",
    "faust",
    "jgo",
    "fastapi",
)
"""What no verb needs before it knows what it is asked."""
BROKERS = ("confluent_kafka", "aiokafka", "fastavro", "rocksdict", "obstore", "structlog", "prometheus_client")
"""What only a verb that asks brokers or a store may import."""
PROGRAM = """
import atexit, sys
atexit.register(lambda: print("\\n" + " ".join(sys.modules), file=sys.stdout))
sys.argv = ["cutwater", *sys.argv[1:]]
from cutwater.cli.main import main
main()
"""
LISTS_MAX, ASKS_MAX = 400, 940
"""Modules, Python's own included. All verbs together import some 2,300."""


def imported(*words: str) -> tuple[int, set[str]]:
    """The exit code of a call, and the modules that were there at its end."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, set(done.stdout.splitlines()[-1].split())


def brought(modules: set[str], packages: tuple[str, ...]) -> set[str]:
    return {one for one in packages if one in modules}


@pytest.mark.parametrize("words", [("--help",), ("--version",)])
def test_the_list_of_verbs_imports_no_verb(words: tuple[str, ...]) -> None:
    code, modules = imported(*words)
    assert code == 0
    assert not brought(modules, (*HEAVY, *BROKERS, "pydantic_settings", "httpx"))
    assert not {f"cutwater.cli.{module}" for module, _ in VERBS.values()} & modules
    assert len(modules) < LISTS_MAX


@pytest.mark.parametrize("words", [("get", "JFK"), ("config", "show")], ids=" ".join)
def test_a_verb_that_asks_no_broker_imports_no_client(words: tuple[str, ...], tmp_path: Path) -> None:
    where = () if words[0] == "config" else ("--data-dir", str(tmp_path))
    code, modules = imported(*words, *where)
    assert code in (0, 2)
    assert not brought(modules, (*HEAVY, *BROKERS))
    assert len(modules) < ASKS_MAX


@pytest.mark.variations
@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("milestones",),
        ("history",),
        ("tail",),
        ("regions",),
        ("verify",),
        ("export",),
        ("generation", "list"),
        ("snapshots", "list"),
        ("mirror", "status"),
        ("forks", "list"),
        ("late", "list"),
        ("dead-letters", "list"),
    ],
    ids=" ".join,
)
def test_a_verb_that_asks_a_running_stack_begins_with_little(words: tuple[str, ...], tmp_path: Path) -> None:
    """Where none runs it has imported what it needs to find that out: at most a client of brokers beside."""
    code, modules = imported(*words, "--data-dir", str(tmp_path))
    assert code == 2
    assert not brought(modules, HEAVY)
    assert len(modules) < ASKS_MAX


def test_the_list_says_what_each_verb_says_of_itself() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    told = {name: " ".join((one.help or "").split("\n\n")[0].split()) for name, one in commands.items()}
    assert told == {name: line for name, (_, line) in VERBS.items()}
