"""Every command line of every page is one that its program accepts; those that need nothing else are run."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import typer.main
import yaml
from docs._generate import service_pages
from pip._internal.commands import create_command
from pydantic import BaseModel
from typer.testing import CliRunner

from cutwater import pytest_plugin
from cutwater.adapters.config.settings import Settings
from cutwater.cli.main import app
from cutwater.core.events.rejection import REASONS
from cutwater.local.jobs.api_router import JOBS_PATH
from cutwater.rehydrator.http_api.keys_body import Keys
from cutwater.rehydrator.http_api.sets_body import Sets
from support.kubernetes.chart import has_value
from support.pages import EXAMPLES, PAGES, ROOT, blocks, check_each, inline

GROUP: Any = typer.main.get_command(app)
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
SHELL = {"sh", "indented"}
RUN_WITHOUT_A_STACK = {("plan",), ("schemas", "check"), ("schemas", "show"), ("config", "show")}


def lines(page: str | None = None) -> list[str]:
    """The command lines of a page, or of all."""
    shown = [one for one in blocks(page) if one.language in SHELL and one.text not in EXAMPLES]
    return [line for block in shown for line in block.lines]


def commands(line: str) -> list[list[str]]:
    """The words of each command in a line with pipes."""
    found: list[list[str]] = [[]]
    for word in shlex.split(line.replace(r"\|", "|"), comments=True):
        if word == "|":
            found.append([])
        else:
            found[-1].append(word)
    return found


def cutwater(words: list[str]) -> None:
    """Group, verb and options exist, and their values are allowed."""
    verb, name = GROUP, "cutwater"
    while hasattr(verb, "commands"):
        name, *words = words
        assert name in verb.commands, f"there is no verb '{name}'"
        verb = verb.commands[name]
    context = verb.make_context(name, list(words), resilient_parsing=False)
    reasons = context.params.get("reason")  # of a list these are given ones, of a decision free words
    assert isinstance(reasons, str) or set(reasons or ()) <= set(REASONS)


def make(words: list[str]) -> None:
    """Target and variables are the Makefile's."""
    for word in words:
        name, is_variable, _ = word.partition("=")
        wanted = rf"\$\({name}\)" if is_variable else rf"^{name}:"
        assert re.search(wanted, MAKEFILE, re.MULTILINE), word


def export(words: list[str]) -> None:
    """Variables with our prefix are settings."""
    for word in words:
        name = word.partition("=")[0]
        if name.startswith("CUTWATER_"):
            assert name.removeprefix("CUTWATER_").lower() in Settings.model_fields, name


def curl(words: list[str]) -> None:
    """The address is a route of the HTTP API, its parameters are that route's, a body is its question."""
    (address,) = [urlsplit(one) for one in words if one.startswith("http")]
    assert address.port == Settings.model_fields["port"].default
    if address.path == JOBS_PATH.decode():
        return
    routes = service_pages.routes()
    of_one = re.sub(rf"^{JOBS_PATH.decode()}/[^/]+", "/v1", address.path)
    (found,) = [told for path, told in routes.items() if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), of_one)]
    method = "post" if "-d" in words else "get"
    assert set(parse_qs(address.query)) <= {one["name"] for one in found[method].get("parameters", ())}
    if method == "post":
        bodies: dict[str, type[BaseModel]] = {
            "/v1/keys": Keys,
            "/v1/global/keys": Keys,
            "/v1/distinct": Sets,
            "/v1/global/distinct": Sets,
        }
        bodies[address.path].model_validate_json(words[words.index("-d") + 1])


def pip(words: list[str]) -> None:
    """pip has these options."""
    create_command(words[0]).parse_args(words[1:])


def python(words: list[str]) -> None:
    """The program is there, or the service."""
    if words[0] == "-m":
        assert (ROOT / "services" / words[1].replace(".", "/") / "__main__.py").is_file(), words[1]
        return
    assert (ROOT / words[0]).is_file(), words[0]


def spark_submit(words: list[str]) -> None:
    """The program is there, and it gets our jars."""
    assert words[:2] == ["--jars", "$CUTWATER_SPARK_JARS"]
    python(words[2:])


def activate(words: list[str]) -> None:
    """The environment that the Makefile makes."""
    assert words == [".venv/bin/activate"]
    assert "\nVENV := .venv\n" in MAKEFILE


def run_pytest(words: list[str]) -> None:
    """The folder is there, and the option is the plugin's."""
    folder, *options = words
    assert (ROOT / folder).is_dir(), folder
    assert options in ([], ["--cutwater", pytest_plugin.CONTAINERS])


def compose(words: list[str]) -> None:
    """The files are there, and the profile; what is run in a container, is one that the file has."""
    files = [words[at + 1] for at, word in enumerate(words) if word == "-f"]
    assert all((ROOT / one).is_file() for one in files)
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    profiles = {one for service in services.values() for one in service.get("profiles", ())}
    assert {words[at + 1] for at, word in enumerate(words) if word == "--profile"} <= profiles
    assert words[0] != "exec" or words[1] in services


def helm(words: list[str]) -> None:
    """The chart is there, and it has the values that are set."""
    assert words[0] == "install"
    assert (ROOT / words[2] / "Chart.yaml").is_file()
    for option, given in pairwise(words):
        if option in {"--set", "--set-file"}:
            path, _, value = given.partition("=")
            assert has_value(path), path
            assert option == "--set" or (ROOT / value).is_file(), value


def kubectl(words: list[str]) -> None:
    """A verb of kubectl; what is named is of the release that the page installs."""
    verbs = {"get", "port-forward", "rollout", "delete"}
    assert verbs & set(words)
    assert all(word.startswith("service/shop-flights-") for word in words if word.startswith("service/"))


def variable(name: str) -> None:
    """What stands before a command is a variable of the compose file."""
    assert "${" + name in (ROOT / "docker-compose.yml").read_text(encoding="utf-8"), name


PROGRAMS: dict[str, Callable[[list[str]], None]] = {
    "cutwater": cutwater,
    ".venv/bin/cutwater": cutwater,
    "make": make,
    "export": export,
    "curl": curl,
    "pip": pip,
    "python": python,
    "pytest": run_pytest,
    "docker-compose": compose,
    "helm": helm,
    "kubectl": kubectl,
    "spark-submit": spark_submit,
    ".": activate,
    "cat": lambda _words: None,
}


@pytest.mark.parametrize("page", PAGES)
def test_every_line_is_accepted(page: str) -> None:
    check_each(lines(page), accept)


def accept(line: str) -> None:
    """By the program that it calls; a program that is not in PROGRAMS needs a check first."""
    for command in commands(line):
        before = list(takewhile(lambda word: "=" in word, command))
        for word in before:
            variable(word.partition("=")[0])
        program, *words = command[len(before) :]
        assert program in PROGRAMS, f"no test covers '{program}'"
        PROGRAMS[program](words)


def mentions(page: str) -> set[str]:
    """Commands inside of sentences, as far as they are whole words: `cutwater late list`, `make bench B=b5`."""
    return {code for code in inline(page) if re.fullmatch(r"(cutwater|make) [a-z][\w =.:/-]*", code)}


@pytest.mark.parametrize("page", PAGES)
def test_every_command_in_a_sentence_exists(page: str) -> None:
    check_each(sorted(mentions(page)), find)


def find(code: str) -> None:
    """Its verbs and options, or its target; arguments may be left out."""
    program, *words = code.split()
    if program == "make":
        make(words)
        return
    verb = GROUP
    while hasattr(verb, "commands") and words:
        assert words[0] in verb.commands, f"there is no verb '{words[0]}'"
        verb, words = verb.commands[words[0]], words[1:]
    known = {name for one in verb.params for name in one.opts}
    assert {word for word in words if word.startswith("--")} <= known | {"--help"}


def runnable() -> list[list[str]]:
    """The lines that need neither brokers nor a stack, and whose files are in the repository."""
    found = {}
    for line in lines():
        words = commands(line)[-1]
        if words[0].endswith("cutwater") and any(words[1:][: len(one)] == [*one] for one in RUN_WITHOUT_A_STACK):
            files = [word for word in words if word.endswith(".yaml")]
            if all((ROOT / one).is_file() for one in files) and "--against" not in words:
                found[" ".join(words)] = words[1:]
    return list(found.values())


def test_what_needs_no_stack_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From the clone's root, without any setting."""
    for name in [name for name in os.environ if name.startswith("CUTWATER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CUTWATER_DATA_DIR", str(tmp_path))
    monkeypatch.chdir(ROOT)
    found = runnable()
    assert {tuple(words[:1]) for words in found} == {("plan",), ("schemas",), ("config",)}, "the choice is empty"
    check_each(found, run)


def run(words: list[str]) -> None:
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, bool(done.output)) == (0, True), done.output
