"""`cutwater get` and the HTTP API answer for each key that may be written, however it looks in a path."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import ANY
from urllib.parse import urlsplit

import httpx
import pytest
from typer.testing import CliRunner, Result

from cutwater.adapters.http.client_options import no_authorities
from cutwater.cli.key_argument import with_keys_last
from cutwater.cli.main import app
from cutwater.core.events.key_columns import KeyColumn, key_text
from cutwater.core.events.rejection import MAX_KEY_BYTES
from cutwater.core.query.key_path import encoded, key_query, path_of
from support.cli.stack_file import write_stack
from support.views.apiserving import Own, app_of, serving
from support.views.changelogs import Sold, make_job
from unit.views.store.test_store import rows

KEYS = (
    *("JFK", "", "-5", "-", "--limit", "..", ".", "a/../b", "/", "//", "%2E", "a?b#c", "a+b c", "ü", "日本"),
    *("line\nbreak", "JFK\n", "\n", "\r\n", "a\tb", "\x7f", "\0", "[red]", "&key=x", "a=b"),
    "ü" * (MAX_KEY_BYTES // 2),  # as large as one may be
    "k" * 40_000,  # written by a version that had no bound
)
API = httpx.Client(verify=no_authorities())
FORMS = (lambda key: {"key": key}, lambda key: {"key64": encoded(key.encode())}, key_query)


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


def _name(key: str) -> str:
    return repr(key[:20])


@pytest.mark.parametrize("key", KEYS, ids=_name)
def test_each_key_has_a_query(url: str, key: str) -> None:
    """Text, base64 with and without what fills it up, and what the CLI asks by: all answer as the path does."""
    expected = API.get(url + path_of(key)).json()
    padded = encoded(key.encode()) + "=" * (-len(encoded(key.encode())) % 4)
    for query in (*(form(key) for form in FORMS), {"key64": padded}):
        assert API.get(f"{url}/v1/state", params=query).json() == expected | {"milestone": ANY}
    assert expected["key"] == key


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("key=a&key64=YQ", "not both"),
        ("key64=_w", "UTF-8"),
        ("key64=a+b", "base64"),
        ("key64=!", "base64"),
        ("key64=a", "base64"),
        ("key64=%C3%BC", "base64"),
        ("key=a&after=x", "after"),
        ("key64=YQ&shards=0-1", "shards"),
    ],
)
def test_a_key_that_is_not_named_well_is_refused(url: str, query: str, problem: str) -> None:
    """422 that says why; never the rows of all keys, or of another one."""
    answer = API.get(f"{url}/v1/state?{query}")
    assert (answer.status_code, problem in answer.json()["detail"]) == (422, True), answer.text


@pytest.mark.parametrize(
    "path", ["/v1/state/%ff", "/v1/stored/J%C3", "/v1/state?key=%ed%a0%bd", "/v1/global/state/%80"]
)
def test_bytes_that_are_no_text_name_no_key(url: str, path: str) -> None:
    """With a sign in place of what is wrong they would name another key, which may be there."""
    answer = API.get(url + path)
    assert (answer.status_code, answer.json()["detail"][:23]) == (400, "the URL is not in UTF-8"), answer.text
    assert API.get(f"{url}/v1/state/%EF%BF%BD").status_code == 200, "the sign itself is a key as any other"


def test_a_url_has_a_size(url: str, tmp_path: Path) -> None:
    """Behind it a key is asked for in a body: one of 300,000 bytes, as versions without a bound have written."""
    write_stack(tmp_path, url)
    key = "k" * 300_000
    done = _get(tmp_path, key[:100_000])
    assert (done.exit_code, "POST /v1/keys" in done.output) == (2, True), done.output
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)) as asking:
        asking.sendall(f"GET /v1/state?key={key[:70_000]} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert asking.recv(100).startswith(b"HTTP/1.1 400 ")
    (found,) = API.post(f"{url}/v1/keys", json={"keys": [key]}).json()["keys"]
    assert found["key"] == key


@pytest.mark.parametrize("key", KEYS, ids=_name)
def test_each_key_has_a_path(url: str, key: str) -> None:
    """The rows of just this key, of `state` and of `stored`; and the same by its name in a body."""
    answer = API.get(url + path_of(key)).json()
    assert (answer["key"], [row["pieces"] for row in answer["rows"]]) == (key, [KEYS.index(key)])
    stored = API.get(url + path_of(key).replace("/v1/state/", "/v1/stored/", 1)).json()
    assert len(stored["rows"]) == 1
    (several,) = API.post(f"{url}/v1/keys", json={"keys": [key]}).json()["keys"]
    assert (several["key"], several["rows"]) == (key, answer["rows"])


@pytest.mark.parametrize("key", KEYS, ids=_name)
def test_get_reaches_each_key(url: str, key: str, tmp_path: Path) -> None:
    """As a user writes it; only where it begins with two dashes, behind `--`."""
    write_stack(tmp_path, url)
    done = _get(tmp_path, "--json", *(["--", key] if key.startswith("--") else [key]))
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert (answer["key"], [row["pieces"] for row in answer["rows"]]) == (key, [KEYS.index(key)])


def test_a_key_that_no_event_has_is_refused(tmp_path: Path) -> None:
    """Bytes of a shell that are no UTF-8: exit 2 and no traceback."""
    write_stack(tmp_path, "http://127.0.0.1:9")
    done = _get(tmp_path, os.fsdecode(b"\xff"))
    assert (done.exit_code, "not UTF-8" in done.output) == (2, True)


def test_an_unknown_option_is_still_refused(tmp_path: Path) -> None:
    """With the suggestion; an option without its value, and a second key, are refused too."""
    write_stack(tmp_path, "http://127.0.0.1:9")
    for words, says in (
        (["-5", "--limt", "3"], "--limit"),
        (["--limt"], "--limit"),
        (["-5", "--limit"], "requires an argument"),
        (["JFK", "-5"], "write one key"),
        ([], "write one key"),
        (["--key", "airport=JFK"], "write one key"),
        (["--null", "airport"], "write one key"),
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


@pytest.fixture(scope="module")
def listed_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API of a job with the key columns airport and number."""
    folder = tmp_path_factory.mktemp("listed")
    columns = (KeyColumn("airport", "string"), KeyColumn("number", "long"))
    job = replace(make_job(folder)[0], key_field="", key_columns=columns)
    own = Own(folder / "v", job)
    sold = [Sold(key_text(key), 1, 1) for key in (("JFK", "7"), ("JFK", "8"), ("LGA", "7"))]
    own.show(1, rows(job, own.store, sold))
    with serving(app_of(own.view)) as url:
        yield url
    own.close()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["JFK", "007"], [("JFK", 7)]),
        (["--key", "number=8", "--key", "airport=JFK"], [("JFK", 8)]),
        (["--key", "airport=JFK"], [("JFK", 7), ("JFK", 8)]),
        (["--key", "airport=JFK", "--limit", "1"], [("JFK", 7)]),
        (['["LGA","7"]'], [("LGA", 7)]),
    ],
    ids=str,
)
def test_get_takes_columns(
    listed_url: str, tmp_path: Path, words: list[str], found: list[tuple[str, int]]
) -> None:
    """A word for each, or names; leading ones alone show all their rows."""
    write_stack(tmp_path, listed_url, ["airport", "number"])
    done = _get(tmp_path, "--json", *words)
    assert done.exit_code == 0, done.output
    assert [(row["airport"], row["number"]) for row in json.loads(done.stdout)["rows"]] == found
    assert "airport" in _get(tmp_path, *words).stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["JFK"], "the key's columns are airport, number: write 2 words"),
        ([], "write 2 words"),
        (["JFK", "7", "8"], "write 2 words"),
        (["JFK", "7", "--key", "airport=JFK"], "not both"),
        (["--key", "airport"], "as in airport=JFK"),
        (["--key", "port=JFK"], "each of airport, number"),
        (["--key", "airport=JFK", "--key", "airport=LGA"], "at most once"),
        (["--key", "number=7"], "only together with the columns before it"),
        (["--null", "airport"], "dead letters of this job"),
        (["--null", "port"], "each column that may be null at most once"),
        (["--key", "airport=JFK", "--null", "airport"], "not in --key"),
        (["JFK", "--null", "number"], "not both"),
        (["JFK", "x"], "no whole number"),
    ],
    ids=str,
)
def test_other_columns_are_refused(listed_url: str, tmp_path: Path, words: list[str], told: str) -> None:
    """With exit 2, and what to write."""
    write_stack(tmp_path, listed_url, ["airport", "number"])
    done = _get(tmp_path, *words)
    assert (done.exit_code, told in " ".join(done.output.split())) == (2, True), done.output


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["2013-01-01", "null"], ["null"]),
        (["--key", "day=2013-01-01", "--null", "carrier"], [None]),
        (["--key", "day=2013-01-01"], [None, "null"]),
        (['["2013-01-01",null]'], [None]),
        (["--null", "day"], []),
    ],
    ids=str,
)
def test_get_takes_nulls(tmp_path: Path, words: list[str], found: list[str | None]) -> None:
    """By the column's name, as the word null is a text."""
    columns = (KeyColumn("day", "date", nullable=True), KeyColumn("carrier", "string", nullable=True))
    job = replace(make_job(tmp_path)[0], key_field="", key_columns=columns)
    own = Own(tmp_path / "v", job)
    keys = [key_text(["2013-01-01", one]) for one in ("null", None)]
    own.show(1, rows(job, own.store, [Sold(key, 1, 1) for key in keys]))
    with serving(app_of(own.view)) as url:
        write_stack(tmp_path, url, ["day", "carrier"])
        done = _get(tmp_path, "--json", *words)
        shown = _get(tmp_path, *words)
    own.close()
    assert (done.exit_code, shown.exit_code) == (0 if found else 1,) * 2, done.output
    assert sorted((row["carrier"] for row in json.loads(done.stdout)["rows"]), key=str) == sorted(found, key=str)
    assert found or "day is null" in shown.stdout


def _get(folder: Path, *words: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["get", "--data-dir", str(folder), *words])
