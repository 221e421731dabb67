"""The console's front: the token, pages of other sites, security headers, static files."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.console.security import HEADERS, POLICY
from cutwater.console.service import Console
from cutwater.console.static_files import TYPES, StaticFiles
from cutwater.core.errors import MachineError
from support.console.sample_job import served
from support.pages import ROOT

TOKEN, METRICS = "a-token-of-the-test", "another-for-metrics"
STATIC = ROOT / "services/cutwater/console/static"


@pytest.fixture(scope="module")
def plain() -> Iterator[str]:
    with served() as console:
        yield console.url


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    with served(settings=Settings(api_token=TOKEN, metrics_token=METRICS)) as console:  # type: ignore[arg-type]
        yield console.url


@pytest.mark.parametrize("path", ["", "static/app.js", "api/jobs", "api/jobs/nope/overview", "nothing", "metrics"])
def test_every_answer_has_the_security_headers(plain: str, path: str) -> None:
    """Errors too."""
    answer = httpx.get(plain + path)
    assert {name: answer.headers[name.decode()].encode() for name in HEADERS} == HEADERS


def test_the_policy_allows_neither_inline_nor_foreign() -> None:
    assert "unsafe" not in POLICY
    assert not re.search(r"https?:|\*|data:", POLICY)
    assert POLICY.startswith("default-src 'none'")


def test_a_refused_request_has_the_headers_too(guarded: str) -> None:
    answer = httpx.get(f"{guarded}api/jobs")
    assert answer.status_code == 401
    assert answer.headers["content-security-policy"] == POLICY


def test_data_needs_the_token_and_the_page_does_not(guarded: str) -> None:
    """A browser cannot send a header with a page's address; the page holds no data."""
    right = {"authorization": f"Bearer {TOKEN}"}
    for path in ("", "static/app.js", "healthz"):
        assert httpx.get(guarded + path).status_code == 200
    for path in ("api/jobs", "api/jobs/flights/overview", "api/jobs/flights/events", "api/nothing", "metrics"):
        assert httpx.get(guarded + path).status_code == 401
        assert httpx.get(guarded + path, headers={"authorization": "Bearer wrong"}).status_code == 401
    assert httpx.get(f"{guarded}api/jobs", headers=right).status_code == 200
    assert httpx.get(f"{guarded}metrics", headers={"authorization": f"Bearer {METRICS}"}).status_code == 200
    assert httpx.get(f"{guarded}api/jobs", headers={"authorization": f"Bearer {METRICS}"}).status_code == 401


def test_without_a_token_other_sites_names_are_refused(plain: str) -> None:
    """DNS rebinding: a page of another site whose name leads here."""
    for path in ("", "api/jobs"):
        assert httpx.get(plain + path, headers={"host": "evil.example"}).status_code == 403
        assert httpx.get(plain + path, headers={"host": "localhost"}).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_cannot_let_the_console_work(plain: str, site: str) -> None:
    """It could not read the answer, but a rebuild of an older milestone costs a core."""
    answer = httpx.get(f"{plain}api/jobs/flights/explore?key=a&at=latest", headers={"sec-fetch-site": site})
    assert answer.status_code == 403
    assert httpx.get(plain, headers={"sec-fetch-site": site}).status_code == 200
    assert httpx.get(f"{plain}api/jobs", headers={"sec-fetch-site": "same-origin"}).status_code == 200


def test_only_reading_is_answered(plain: str) -> None:
    assert httpx.head(plain).status_code == 200
    assert httpx.head(plain).content == b""
    assert httpx.post(plain, headers={"sec-fetch-site": "same-origin"}).status_code == 405


def test_a_file_is_not_sent_twice(plain: str) -> None:
    first = httpx.get(f"{plain}static/style.css")
    again = httpx.get(f"{plain}static/style.css", headers={"if-none-match": first.headers["etag"]})
    assert (first.headers["content-type"], again.status_code, again.content) == (
        "text/css; charset=utf-8",
        304,
        b"",
    )


@pytest.mark.parametrize(
    "path", ["../service.py", "%2e%2e/service.py", "static/../service.py", "static/", "static"]
)
def test_nothing_beside_the_static_files_is_answered(plain: str, path: str) -> None:
    with httpx.Client() as client:
        request = client.build_request("GET", plain)
        request.url = request.url.copy_with(raw_path=f"/{path}".encode())
        assert client.send(request).status_code == 404


def test_every_static_file_is_answered_with_its_type() -> None:
    found = StaticFiles().by_path
    there = {one.relative_to(STATIC).as_posix() for one in STATIC.rglob("*") if one.is_file()}
    assert {path.removeprefix("/static/") for path in found} == {*there - {"index.html"}, "/"}
    assert {one.kind for one in found.values()} == set(TYPES.values())


def test_the_page_names_only_its_own_files() -> None:
    """No inline script or style, no other host, nothing that is missing."""
    files = StaticFiles().by_path
    page = files["/"].body.decode()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)
    named = re.findall(r'(?:src|href)="([^"#]+)"', page)
    assert len(named) == 5
    assert set(named) <= set(files)
    for path, file in files.items():
        if path.endswith(".js"):
            folder = path.rpartition("/")[0]
            for name in re.findall(r'from "(\.[^"]+)"', file.body.decode()):
                assert str((ROOT / f".{folder}" / name).resolve()).replace(str(ROOT), "") in files, (path, name)


def test_own_files_hold_no_address_of_another_host() -> None:
    for path, file in StaticFiles().by_path.items():
        if "/vendor/" not in path:
            text = file.body.decode().replace("http://www.w3.org/2000/svg", "")
            assert "//" not in re.sub(r"^\s*//.*$|\s// .*$", "", text, flags=re.MULTILINE), path
            assert "innerHTML" not in text


def test_the_vendored_library_has_its_licence() -> None:
    text = (STATIC / "vendor/uPlot.LICENSE").read_text(encoding="utf-8")
    assert "MIT License" in text
    assert "Leon Sorokin" in text


def test_a_port_in_use_is_the_machines_problem() -> None:
    with served() as console, pytest.raises(MachineError, match="is in use: choose another --port"):
        Console(Settings(), "127.0.0.1", int(httpx.URL(console.url).port or 0), list)


def test_a_console_for_others_without_a_token_is_known() -> None:
    console = Console(Settings(), "0.0.0.0", 0, list)
    assert console.open_to_network
    assert not Console(Settings(api_token=TOKEN), "0.0.0.0", 0, list).open_to_network  # type: ignore[arg-type]
