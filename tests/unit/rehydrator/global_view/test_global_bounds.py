"""The bounds of the global view, its tokens and its certificates: against a region that does what a test says."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from cutwater.adapters.config.rehydrator_urls import Api, region_apis
from cutwater.adapters.http.client_options import no_authorities
from cutwater.core.access.roles import Tokens
from cutwater.core.errors import UsageError
from cutwater.core.util.timestamps import iso_ms
from cutwater.local.embedded_broker.security import Certificate
from cutwater.rehydrator.app import create_app
from cutwater.rehydrator.cluster import admission, regions
from cutwater.rehydrator.cluster.regions import Regions
from cutwater.rehydrator.global_view import query as global_query
from cutwater.rehydrator.global_view import rows as global_rows
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.rehydrator.routes import stored_rows
from cutwater.views.query.view import State, Status, View
from cutwater.views.store.store import Store
from support.kafka.certificates import Authority
from support.views.apiserving import serving
from support.views.changelogs import GENERATION, HOUR_MS, Sold, make_job, now_ms, until
from unit.views.store.test_store import entry, rows

OWN, THEIRS = "own-token-of-letters", "their-token-of-letters"
US = "g1-us-00000000"
Says = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def view(tmp_path: Path) -> Iterator[View]:
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    one, shown = View(store, job), entry(job, 1)
    store.commit(shown, rows(job, store, [Sold(shop, hour, hour) for shop in ("a", "b") for hour in range(20)]))
    one.show(shown)
    one.status = Status(State.FOLLOWING)
    yield one
    one.close()


@dataclass
class Elsewhere:
    url: str
    asked: list[Any] = field(default_factory=list)
    """The headers of each question."""


@contextmanager
def elsewhere(says: Says, certificate: Certificate | None = None) -> Iterator[Elsewhere]:
    """A region's API, in threads."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            one.asked.append(self.headers)
            says(self)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.certificate_file, certificate.key_file)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    one = Elsewhere(f"{scheme}://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield one
    finally:
        server.shutdown()
        thread.join(20)
        server.server_close()


def saying(body: bytes, status: int = 200, *, announced: bool = True, **headers: str) -> Says:
    def says(to: BaseHTTPRequestHandler) -> None:
        to.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            to.send_header(name.replace("_", "-"), value)
        if announced:
            to.send_header("content-length", str(len(body)))
        to.end_headers()
        try:
            to.wfile.write(body)
        except OSError:
            to.close_connection = True  # whoever asked has gone

    return says


class Here:
    """A rehydrator with a global view, served."""

    def __init__(self, url: str, metrics: Metrics, token: str) -> None:
        self.url, self.metrics = url, metrics
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(self, path: str = "/v1/global/state", **query: Any) -> httpx.Response:
        return httpx.get(self.url + path, params=query, headers=self._headers, timeout=40, verify=no_authorities())

    def count(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"cutwater_view_{name}", labels)

    def refusals(self, reason: str) -> float | None:
        return self.count("global_refusals_total", reason=reason)


@contextmanager
def asking(view: View, *apis: Api, token: str = "") -> Iterator[Here]:
    metrics = Metrics()
    every = Regions(GENERATION.region, {"us": apis}, token, metrics)
    with serving(create_app(view, GENERATION, metrics, now_ms, Tokens(plain=token), regions=every)) as url:
        yield Here(url, metrics, token)


def theirs(view: View, **changes: Any) -> bytes:
    """What region `us` would answer a scan with: the same rows, of events of its own."""
    client = TestClient(create_app(view, GENERATION, Metrics(), now_ms))
    answer = client.get("/v1/stored").json()
    answer["milestones"][0] |= {"token": f"{US}:1", "generation": US}
    return json.dumps(answer | {"lineage": US} | changes).encode()


def test_a_region_that_answers_is_merged(view: View) -> None:
    """What the other tests rely on; and nothing is held behind the answer."""
    with elsewhere(saying(theirs(view))) as us, asking(view, Api(us.url)) as here:
        answer = here.ask()
        assert answer.status_code == 200, answer.text
        assert {row["sales"] for row in answer.json()["rows"]} == {2 * hour for hour in range(20)}
        assert [here.count(name) for name in ("global_under_way", "region_answers_bytes")] == [0, 0]
        assert here.count("global_questions_total") == 1


def test_so_many_questions_and_no_more_are_under_way(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused at once, whatever else it allows; when one has ended the next is taken."""
    monkeypatch.setattr(admission, "QUESTIONS_MAX", 2)
    go, body = threading.Event(), theirs(view)

    def waits(to: BaseHTTPRequestHandler) -> None:
        go.wait(30)
        saying(body)(to)

    with elsewhere(waits) as us, asking(view, Api(us.url)) as here, ThreadPoolExecutor(2) as threads:
        first = [threads.submit(here.ask) for _ in range(2)]
        until(lambda: here.count("global_under_way") == 2, "two questions")
        begun = time.monotonic()
        refused = here.ask(partial="true")
        assert (refused.status_code, time.monotonic() - begun < 2) == (503, True)
        assert "2 global queries are already running" in refused.json()["detail"]
        assert here.refusals("questions") == 1
        assert here.ask("/v1/state").status_code == 200, "its own rows are read all the same"
        go.set()
        assert [one.result(30).status_code for one in first] == [200, 200]
        assert here.ask().status_code == 200


@pytest.mark.parametrize("announced", [True, False])
def test_no_more_than_so_many_bytes_are_held(view: View, monkeypatch: pytest.MonkeyPatch, announced: bool) -> None:
    """The question is refused as a whole: it is no fault of the region, so `partial` does not help."""
    body = theirs(view) + b" " * 50_000
    monkeypatch.setattr(admission, "HELD_BYTES_MAX", 50_000)
    with elsewhere(saying(body, announced=announced)) as us, asking(view, Api(us.url)) as here:
        refused = here.ask(partial="true")
        assert (refused.status_code, "no room for" in refused.json()["detail"]) == (503, True)
        assert here.refusals("bytes") == 1
        assert here.count("region_failures_total") == 0
        assert here.count("region_answers_bytes") == 0
        monkeypatch.setattr(admission, "HELD_BYTES_MAX", 500_000)
        assert here.ask().status_code == 200


@pytest.mark.parametrize("announced", [True, False])
def test_what_one_region_may_answer_is_bounded(
    view: View, monkeypatch: pytest.MonkeyPatch, announced: bool
) -> None:
    """One that says too much is missing, and named."""
    monkeypatch.setattr(regions, "ANSWER_BYTES_MAX", 40_000)
    body = theirs(view) + b" " * 50_000
    with elsewhere(saying(body, announced=announced)) as us, asking(view, Api(us.url)) as here:
        answer = here.ask(partial="true").json()
        assert [one["region"] for one in answer["missing"]] == ["us"]
        assert "more than 40,000 bytes" in answer["missing"][0]["reason"]
        assert here.count("region_answers_bytes") == 0


def dribbles(to: BaseHTTPRequestHandler) -> None:
    """A byte now and then, for longer than anybody should wait."""
    to.send_response(200)
    to.end_headers()
    try:
        for _ in range(400):
            to.wfile.write(b" ")
            to.wfile.flush()
            time.sleep(0.05)
    except OSError:
        to.close_connection = True


def test_all_urls_of_a_region_together_have_a_time(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may take as long as one takes, and all together no longer than the question has."""
    monkeypatch.setattr(regions, "PATIENCE_S", 0.5)
    monkeypatch.setattr(regions, "ASK_S", 0.8)
    with elsewhere(dribbles) as one, elsewhere(dribbles) as two, elsewhere(dribbles) as three:
        with asking(view, *(Api(us.url) for us in (one, two, three))) as here:
            answer = here.ask(partial="true")
        assert [len(us.asked) for us in (one, two, three)] == [1, 1, 0]
        assert answer.json()["missing"][0]["reason"].count("no answer (TimeoutError)") == 2


def test_a_merge_has_a_time(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its turn does not come in time the question is refused, and holds nothing any more."""
    monkeypatch.setattr(admission, "ANSWER_S", 0.5)
    monkeypatch.setattr(admission, "MERGERS", 1)
    go = threading.Event()
    parsed = regions._parsed
    monkeypatch.setattr(regions, "_parsed", lambda body: go.wait(20) and parsed(body))
    with elsewhere(saying(theirs(view))) as us, asking(view, Api(us.url)) as here:
        begun = time.monotonic()
        refused = here.ask(partial="true")
        assert (refused.status_code, time.monotonic() - begun < 4) == (503, True)
        assert "not merged within 0.5 s" in refused.json()["detail"]
        assert here.refusals("time") == 1
        assert here.count("global_under_way") == 0
        assert here.count("region_answers_bytes") > 0, "a thread still holds the answer"
        go.set()
        until(lambda: here.count("region_answers_bytes") == 0, "what was held is given back")
        until(lambda: here.ask().status_code == 200, "a free thread")


def test_answers_are_taken_apart_off_the_event_loop(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the few threads of the global view: neither other readers nor their threads wait for it."""
    names: list[str] = []

    def noted(job: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            names.append(threading.current_thread().name)
            return job(*given)

        return run

    monkeypatch.setattr(regions, "_parsed", noted(regions._parsed))
    monkeypatch.setattr(global_rows, "part_of", noted(global_rows.part_of))
    monkeypatch.setattr(global_query, "render", noted(global_query.render))
    with elsewhere(saying(theirs(view))) as us, asking(view, Api(us.url)) as here:
        assert here.ask().status_code == 200
    assert len(names) >= 3
    assert {name.rpartition("_")[0] for name in names} == {"global"}, names


@pytest.mark.slow
def test_events_that_would_count_twice_are_refused(view: View) -> None:
    """Two regions that both name a partition: none of the two is counted, and the error says which."""
    both = theirs(view, sources=[["us", "sales", [0, 1]]]), theirs(view, sources=[["us", "sales", [1]]])
    ours = both[1].replace(US.encode(), b"g1-ap-00000000")
    with elsewhere(saying(both[0])) as us, elsewhere(saying(ours)) as ap, asking(view, Api(us.url)) as here:
        assert here.ask().json()["milestones"][1]["events_of"] == ["us"]
        every = Regions(GENERATION.region, {"us": (Api(us.url),), "ap": (Api(ap.url),)}, "", here.metrics)
        with serving(create_app(view, GENERATION, here.metrics, now_ms, regions=every)) as url:
            refused = httpx.get(f"{url}/v1/global/state", timeout=40, verify=no_authorities())
            assert (
                "ap (its events would count twice, since they are also in us (region us's sales/1))"
                in refused.text
            )
            answer = httpx.get(
                f"{url}/v1/global/state", params={"partial": "true"}, timeout=40, verify=no_authorities()
            ).json()
        assert [one["region"] for one in answer["missing"]] == ["ap", "us"]
        assert {row["sales"] for row in answer["rows"]} == set(range(20)), "this region's own"


@pytest.mark.slow
def test_the_first_rows_of_a_merge_are_not_a_merge_of_first_rows(view: View) -> None:
    """Every row is merged before it is ranked, in both directions; beyond the bound the question is refused."""
    answer = json.loads(theirs(view))
    values = {(key, start): value for key, start, _, value in answer["rows"]}
    moved = [[key, start, end, values[key, _other(start)]] for key, start, end, _ in answer["rows"]]
    sales = {(key, start): (start + _other(start)) // HOUR_MS for key, start in values}
    for order, sign in (("desc", -1), ("asc", 1)):
        with elsewhere(saying(theirs(view, rows=moved))) as us, asking(view, Api(us.url)) as here:
            found = here.ask("/v1/global/top", measure="sales", limit=7, order=order).json()
            places = [(row["key"], iso_ms(row["window_start"])) for row in found["rows"]]
            assert places == sorted(sales, key=lambda at: (sign * sales[at], at))[:7]
            assert [row["sales"] for row in found["rows"]] == [sales[at] for at in places]
            assert [one["region"] for one in found["milestones"]] == [GENERATION.region, "us"]


def _other(start_ms: int) -> int:
    """The window whose value region `us` has in this one's place."""
    return start_ms * 7 % (20 * HOUR_MS)


def test_a_ranking_of_too_many_rows_is_refused(view: View) -> None:
    """422, and where they lie: of a part of the rows no first ones are known."""
    more = "AAAAAAAAAAAAAAAAAAAAAAAA"
    with elsewhere(saying(theirs(view, next=more))) as us, asking(view, Api(us.url)) as here:
        refused = here.ask("/v1/global/top", measure="sales")
        assert (refused.status_code, "more than 100,000 rows match in us" in refused.text) == (422, True)
        assert here.ask("/v1/global/top", measure="nothing").status_code == 422


def test_so_many_large_pages_and_no_more_are_read(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """A region that is asked for rankings by many refuses, and answers everything else."""
    client = TestClient(create_app(view, GENERATION, Metrics(), now_ms))
    assert client.get("/v1/stored", params={"limit": 100_000}).status_code == 200
    monkeypatch.setattr(stored_rows, "LARGE_MAX", 0)
    refused = client.get("/v1/stored", params={"limit": 10_001})
    assert (refused.status_code, "are already being read" in refused.json()["detail"]) == (503, True)
    assert client.get("/v1/stored", params={"limit": 10_000}).status_code == 200


@pytest.mark.slow
def test_a_ranking_of_damaged_rows_is_refused(view: View) -> None:
    """Its rows are decoded one after another, when nothing can be left out any more: the region is named."""
    with (
        elsewhere(saying(theirs(view, rows=[["a", 0, HOUR_MS, "AAAA"]]))) as us,
        asking(view, Api(us.url)) as here,
    ):
        refused = here.ask("/v1/global/top", measure="sales", partial="true")
        assert (refused.status_code, "region us: its rows cannot be read" in refused.text) == (503, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"milestones": [1]},
        {"milestones": []},
        {"milestones": [{"token": 7}]},
        {"complete_above_ms": float("inf")},
        {"watermark_ms": None},
        {"layout_ms": "x"},
        {"sources": [["us"]]},
        {"sources": 1},
        {"rows": [["a"]]},
        {"rows": [["a", "b", "c", "d"]]},
        {"rows": [["a", 0, 3_600_000, "%"]]},
        {"rows": [["a", 0, 3_600_000, "AAAA"]]},
        {"next": 3},
        {"next": "%"},
        {"lineage": None},
    ],
    ids=str,
)
def test_an_answer_that_is_none_is_the_regions_fault(view: View, changes: dict[str, Any]) -> None:
    """It is named and left out, or there is no answer: never an error of ours, never a wrong row."""
    with elsewhere(saying(theirs(view, **changes))) as us, asking(view, Api(us.url)) as here:
        refused = here.ask()
        assert (refused.status_code, "us (" in refused.json()["detail"]) == (503, True), refused.text
        answer = here.ask(partial="true").json()
        assert [one["region"] for one in answer["missing"]] == ["us"]
        assert {row["sales"] for row in answer["rows"]} == set(range(20))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (saying(b"[" * 100_000), "the body is not from a rehydrator"),
        (saying(b"\xff"), "the body is not from a rehydrator"),
        (saying(b"[]"), "the body is not from a rehydrator"),
        (saying(b"", 302, location="http://127.0.0.1:1/"), "status 302"),
        (saying(b'{"detail": "a token"}', 401), "status 401: a token"),
        (saying(b"\x1f\x8b", content_encoding="gzip"), "packed"),
    ],
    ids=["deep", "bytes", "list", "elsewhere", "unknown", "packed"],
)
def test_what_is_no_answer_is_the_regions_fault(view: View, says: Says, reason: str) -> None:
    """The status, or what is wrong with it."""
    with elsewhere(says) as us, asking(view, Api(us.url)) as here:
        (missing,) = here.ask(partial="true").json()["missing"]
        assert reason in missing["reason"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokens", "shown"),
    [
        ("", [OWN, OWN]),
        (f"us={THEIRS}", [THEIRS, THEIRS]),
        (f"us={THEIRS}|{OWN}", [THEIRS, OWN]),
        (f"us={THEIRS}|", [THEIRS, None]),
        ("us=", [None, None]),
    ],
)
def test_a_region_hears_its_own_token(view: View, tokens: str, shown: list[str | None]) -> None:
    """Never this one's where it has one of its own; one that stands for another URL is not shown to this one."""
    away = saying(b"{}", 503)
    with elsewhere(away) as one, elsewhere(away) as two:
        apis = region_apis(f"us={one.url}|{two.url}", tokens, "", OWN)["us"]
        with asking(view, *apis, token=OWN) as here:
            assert here.ask(partial="true").status_code == 200, "its own rows, by its own token"
        heard = [us.asked[0].get("authorization") for us in (one, two)]
        assert heard == [None if token is None else f"Bearer {token}" for token in shown]
        assert not any(token in repr(apis) for token in (OWN, THEIRS))


@pytest.mark.slow
def test_a_region_with_a_private_authority(view: View, tmp_path: Path) -> None:
    """Trusted by the file that is named for it, and by nothing else."""
    authority, other = Authority(tmp_path / "one"), Authority(tmp_path / "other")
    with elsewhere(saying(theirs(view)), authority.issue("us")) as us:
        for file, status in ((str(authority.ca_file), 200), ("", 503), (str(other.ca_file), 503)):
            with asking(view, Api(us.url, THEIRS, file)) as here:
                answer = here.ask()
                assert answer.status_code == status, answer.text
        assert [one.get("authorization") for one in us.asked] == [f"Bearer {THEIRS}"], "nobody else heard it"


def test_certificates_that_cannot_be_read(tmp_path: Path) -> None:
    """An error at the start, with the setting and the file."""
    (tmp_path / "empty.pem").write_text("nothing")
    for name in ("missing.pem", "empty.pem"):
        with pytest.raises(UsageError, match=f"CUTWATER_REGION_CA_FILES: .*{name} cannot be read"):
            Regions("eu", {"us": (Api("https://a", "", str(tmp_path / name)),)}, "", Metrics())


@pytest.mark.parametrize(
    ("regions_", "tokens", "files", "says"),
    [
        ("us=http://a:1", "ap=" + THEIRS, "", "REGION_TOKENS names a region without a URL in CUTWATER_REGIONS"),
        ("us=http://a:1", THEIRS, "", "REGION_TOKENS: a region name is invalid"),
        ("us=http://a:1", f"us={THEIRS},us={OWN}", "", "or repeated"),
        ("us=http://a:1", "us=short", "", "REGION_TOKENS: region us: at least 16"),
        ("us=http://a:1", f"us={THEIRS}|{OWN}", "", "has 1 URLs in CUTWATER_REGIONS, but 2 values here"),
        ("us=http://a:1", "", "us=/ca.pem", "no URL of region us in CUTWATER_REGIONS begins with https"),
        ("us=https://a:1", "", "/ca.pem", "REGION_CA_FILES: a region name is invalid"),
    ],
)
def test_settings_that_cannot_be(regions_: str, tokens: str, files: str, says: str) -> None:
    """An error that names the setting and shows no token, whole or in part."""
    with pytest.raises(UsageError) as raised:
        region_apis(regions_, tokens, files, OWN)
    assert says in str(raised.value)
    assert not any(one in str(raised.value) for one in (THEIRS, OWN, "short"))


def test_each_url_has_a_token_and_a_file() -> None:
    """One for all of a region's URLs, or one each; a region that has none is shown this one's token."""
    found = region_apis(
        "us=https://a:1|https://b:2/,eu=http://c:3", f"us={THEIRS}", "us=/a.pem|/b.pem", own_token=OWN
    )
    assert found == {
        "us": (Api("https://a:1", THEIRS, "/a.pem"), Api("https://b:2", THEIRS, "/b.pem")),
        "eu": (Api("http://c:3", OWN, ""),),
    }
