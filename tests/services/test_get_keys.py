"""`cutwater get` and the HTTP API answer for each key that may be written, however it looks in a path."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from apiserving import Own, app_of, serving
from changelogs import GENERATION, Sold, make_job
from test_view_store import rows
from typer.testing import CliRunner, Result

from cutwater.cli.key_command import with_keys_last
from cutwater.cli.main import app
from cutwater.core.key_path import path_of
from cutwater.local.running import RunningStack

KEYS = (
    *("JFK", "", "-5", "-", "--limit", "..", ".", "a/../b", "/", "//", "%2E", "a?b#c", "a+b c", "ü", "日本"),
    *("line\nbreak", "JFK\n", "\n", "\r\n", "a\tb", "\x7f", "[red]"),
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API, on a real port, of a view with one row of each key: its place in KEYS is the row's value.

    Starlette's TestClient decodes a path twice, and has no `%2E` of its own.
    """
    folder = tmp_path_factory.mktemp("keys")
    job, _ = make_job(folder)
    own = Own(folder / "v", job)
    own.show(1, rows(job, own.store, [Sold(key, 1, value) for value, key in enumerate(KEYS)]))
    with serving(app_of(own.view)) as url:
        yield url
    own.close()


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_each_key_has_a_path(url: str, key: str) -> None:
    """The rows of just this key, of `state` and of `stored`; and the same by its name in a body."""
    answer = httpx.get(url + path_of(key)).json()
    assert (answer["key"], [row["pieces"] for row in answer["rows"]]) == (key, [KEYS.index(key)])
    stored = httpx.get(url + path_of(key).replace("/v1/state/", "/v1/stored/", 1)).json()
    assert len(stored["rows"]) == 1
    (several,) = httpx.post(f"{url}/v1/keys", json={"keys": [key]}).json()["keys"]
    assert (several["key"], several["rows"]) == (key, answer["rows"])


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_get_reaches_each_key(url: str, key: str, tmp_path: Path) -> None:
    """As a user writes it; only where it begins with two dashes, behind `--`."""
    _stack(tmp_path, url)
    done = _get(tmp_path, "--json", *(["--", key] if key.startswith("--") else [key]))
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert (answer["key"], [row["pieces"] for row in answer["rows"]]) == (key, [KEYS.index(key)])


def test_a_key_that_no_event_has_is_refused(tmp_path: Path) -> None:
    """Bytes of a shell that are no UTF-8: exit 2 and no traceback."""
    _stack(tmp_path, "http://127.0.0.1:9")
    done = _get(tmp_path, os.fsdecode(b"\xff"))
    assert (done.exit_code, "no UTF-8" in done.output) == (2, True)


def test_an_unknown_option_is_still_refused(tmp_path: Path) -> None:
    """With the suggestion; an option without its value, and a second key, are refused too."""
    for words, says in (
        (["-5", "--limt", "3"], "--limit"),
        (["--limt"], "--limit"),
        (["-5", "--limit"], "requires an argument"),
        (["JFK", "-5"], "unexpected extra argument"),
        ([], "Missing argument"),
    ):
        done = _get(tmp_path, *words)
        assert (done.exit_code, says in done.output) == (2, True), done.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-5"], ["--", "-5"]),
        (["-5", "--limit", "3"], ["--limit", "3", "--", "-5"]),
        (["--from", "-5", "-x", "--json"], ["--from", "-5", "--json", "--", "-x"]),
        (["--limit=3", "-limit"], ["--limit=3", "--", "-limit"]),
        (["--json", "--", "--limit", "-5"], ["--json", "--", "--limit", "-5"]),
        (["-5", "--json", "--limit"], ["--json", "--limit"]),
        (["-j", "-5"], ["-j", "--", "-5"]),
    ],
    ids=" ".join,
)
def test_keys_come_last(words: list[str], expected: list[str]) -> None:
    """Options with their values first, then `--`, then what is no option."""
    options = {"--limit": True, "--from": True, "--json": False, "-j": False}
    assert with_keys_last(words, options) == expected


def _stack(folder: Path, url: str) -> None:
    """The file of a stack that runs: this process, with an API at `url`."""
    RunningStack(
        pid=os.getpid(),
        started=psutil.Process().create_time(),
        ready=True,
        job_file="job.yaml",
        job="job",
        generation=str(GENERATION),
        bootstrap_servers="127.0.0.1:9",
        api_url=url,
        spark_ui_url="",
        data_dir=str(folder),
        logs={},
    ).write()


def _get(folder: Path, *words: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["get", "--data-dir", str(folder), *words])
