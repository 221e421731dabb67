"""What the command line imports before it does anything: that is how long a verb takes to begin."""

from __future__ import annotations

import gc
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
import typer.main

from cutwater.cli import verbs
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
LATER = ("aiokafka", "structlog", "prometheus_client", "tenacity", "rich.console", "httpx", "cutwater.local.stack")
"""What no verb needs before its first question to the brokers, or ever."""
PROGRAM = """
import os, sys
def call(words):
    sys.argv = ["cutwater", *words]
    try:
        main()
    except SystemExit as left:
        print(f"\\n{left.code or 0}", end="")
    print("\\n" + " ".join(sys.modules), flush=True)
from cutwater.cli.main import main
calls = [one.split() for one in sys.argv[1:]]
if len(calls) > 1:
    import cutwater.adapters.config.settings, cutwater.cli.options  # each verb needs them: once, before the forks
for words in calls:
    if not (child := os.fork()):
        call(words)
        os._exit(0)
    os.waitpid(child, 0)
    print("\\0", flush=True)
"""
"""Runs each call in a process of its own; prints its output, its exit code and its modules at the end."""
LISTS_MAX, BROKERLESS_MAX, ASKS_MAX, EXPORT_MAX = 400, 450, 650, 780
"""Modules, Python's own included. All verbs together import some 2,300."""
HERE = "--data-dir {folder}"
ASKING = {
    **{one: HERE for one in ("status", "milestones", "history", "cadence", "tail", "verify", "generation list")},
    **{one: HERE for one in ("snapshots list", "late list", "dead-letters list")},
    **{one: "{folder}/none.yaml" for one in ("regions", "mirror status", "forks list")},
    "export": "{folder}/none.yaml --out {folder}/none.parquet",
}
"""Verbs that ask a running stack or its brokers, with arguments that end them before they ask."""


class Call(NamedTuple):
    code: int
    said: str
    modules: set[str]


def called(*calls: str) -> list[Call]:
    """What each call printed, and the modules that were there at its end."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *calls],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=True,
    )
    found = (one.strip().rsplit("\n", 2) for one in done.stdout.split("\0")[:-1])
    return [Call(int(code), said, set(modules.split())) for said, code, modules in found]


def brought(modules: set[str], packages: tuple[str, ...]) -> set[str]:
    return {one for one in packages if one in modules}


@pytest.mark.parametrize("words", ["--help", "--version"])
def test_the_list_of_verbs_imports_no_verb(words: str) -> None:
    (one,) = called(words)
    assert one.code == 0
    assert not brought(one.modules, (*HEAVY, *BROKERS, "pydantic_settings", "httpx"))
    assert not {f"cutwater.cli.{module}" for module, _ in VERBS.values()} & one.modules
    assert len(one.modules) < LISTS_MAX


@pytest.mark.parametrize("words", ["get JFK --data-dir {folder}", "config show"])
def test_a_verb_that_asks_no_broker_imports_no_client(words: str, tmp_path: Path) -> None:
    (one,) = called(words.format(folder=tmp_path))
    assert one.code == 0 or "start one with 'cutwater up'" in one.said
    assert not brought(one.modules, (*HEAVY, *BROKERS, *LATER))
    assert len(one.modules) < BROKERLESS_MAX


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Call]:
    """The calls of ASKING, by verb."""
    folder = tmp_path_factory.mktemp("none")
    calls = [f"{verb} {words.format(folder=folder)}" for verb, words in ASKING.items()]
    return dict(zip(ASKING, called(*calls), strict=True))


@pytest.mark.parametrize("verb", ASKING)
def test_a_verb_that_asks_a_running_stack_begins_with_little(verb: str, asking: dict[str, Call]) -> None:
    """Where none runs it has imported what it needs to find that out: at most a client of brokers beside.

    An export asks by HTTP only, so it imports that client.
    """
    one, exports = asking[verb], verb == "export"
    assert (one.code, one.said[:6]) == (2, "error:"), "an error of usage would show nothing"
    assert ASKING[verb] != HERE or "start one with 'cutwater up'" in one.said
    later = tuple(name for name in LATER if not (exports and name in ("httpx", "rich.console")))
    assert not brought(one.modules, (*HEAVY, *later))
    assert len(one.modules) < (EXPORT_MAX if exports else ASKS_MAX)


def test_no_garbage_is_searched_while_a_verb_is_imported() -> None:
    """Nothing else is switched off: afterwards collections go on."""
    seen: list[bool] = []
    made = verbs.LazyCommands()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verbs, "import_module", lambda name: seen.append(gc.isenabled()) or import_module(name))
        assert made["get"].name == "get"
    assert (seen, gc.isenabled()) == ([False], True)


def test_the_list_says_what_each_verb_says_of_itself() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    told = {name: " ".join((one.help or "").split("\n\n")[0].split()) for name, one in commands.items()}
    assert told == {name: line for name, (_, line) in VERBS.items()}
