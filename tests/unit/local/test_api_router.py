"""The common API of several jobs: a request reaches the job that it names unchanged, as does the answer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from cutwater.adapters.http.access import guard
from cutwater.adapters.http.server import API_BOUNDS, HttpMetrics, HttpServer, listen
from cutwater.core.access.roles import Tokens
from cutwater.local import running_file
from cutwater.local.jobs.api_router import BODY_BYTES_MAX, JobsRouter
from cutwater.local.machine.ports import free_ports
from cutwater.local.running_file import RunningStack
from support.harness import wait_until
from unit.local.test_running_file import STACK


class Rehydrator(BaseHTTPRequestHandler):
    """Answers with what it was asked; a path that ends in /changes is a stream without an end."""

    streams = 0

    def log_message(self, *_arguments: Any) -> None:
        """Silent."""

    def do_GET(self) -> None:
        if self.path.endswith("/changes"):
            self._stream()
            return
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        told = {"method": self.command, "path": self.path, "token": self.headers["authorization"]}
        told["coding"] = self.headers["accept-encoding"]
        answer = json.dumps({**told, "body": body.decode(), "job": self.server.server_address[1]}).encode()
        self.send_response(404 if "missing" in self.path else 200)
        self.send_header("content-length", str(len(answer)))
        self.send_header("x-of-the-job", "yes")
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

    def _stream(self) -> None:
        type(self).streams += 1
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b": nothing new\n\n")
                self.wfile.flush()
                time.sleep(0.02)
        except OSError:
            type(self).streams -= 1


@pytest.fixture
def jobs() -> Iterator[list[RunningStack]]:
    """Two that answer, one that has ended, one whose API is away."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Rehydrator) for _ in range(2)]
    for one in servers:
        one.daemon_threads = True
        threading.Thread(target=one.serve_forever, daemon=True).start()
    urls = [f"http://127.0.0.1:{one.server_port}" for one in servers]
    (away,) = free_ports(1)
    yield [
        replace(STACK, job="one", api_url=urls[0]),
        replace(STACK, job="other", api_url=urls[1]),
        replace(STACK, job="over", api_url=urls[1], ready=False, ended="2026-01-01T00:00:00Z: no disk"),
        replace(STACK, job="away", api_url=f"http://127.0.0.1:{away}"),
    ]
    for one in servers:
        one.shutdown()
        one.server_close()


@pytest.fixture
def api(jobs: list[RunningStack]) -> Iterator[str]:
    """The router's address; it requires a token."""
    registry = CollectorRegistry()
    listener = listen("127.0.0.1", 0)
    app = guard(JobsRouter(lambda: jobs, registry), "127.0.0.1", Tokens(plain="secret"), (), "CUTWATER_API_TOKEN")
    server = HttpServer(app, listener, API_BOUNDS, HttpMetrics(registry))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.stop()
    thread.join(10)


TOKEN = {"authorization": "Bearer secret"}


def test_the_jobs_are_listed(api: str) -> None:
    found = httpx.get(f"{api}/v1/jobs", headers=TOKEN).json()["jobs"]
    assert [(one["job"], one["path"], bool(one["ended"])) for one in found] == [
        ("one", "/v1/jobs/one", False),
        ("other", "/v1/jobs/other", False),
        ("over", "/v1/jobs/over", True),
        ("away", "/v1/jobs/away", False),
    ]


def test_a_request_reaches_its_job_unchanged(api: str, jobs: list[RunningStack]) -> None:
    """Path and query byte for byte, as a key may have an escaped slash; token, body, status and headers."""
    path = "/state/a%2Fb%20c?from=2013-01-01T00:00:00Z&carrier=U%26A"
    for job in jobs[:2]:
        done = httpx.get(f"{api}/v1/jobs/{job.job}{path}", headers=TOKEN)
        told = done.json()
        assert (told["path"], told["token"], done.headers["x-of-the-job"]) == (
            f"/v1{path}",
            "Bearer secret",
            "yes",
        )
        assert str(told["job"]) in job.api_url
    posted = httpx.post(f"{api}/v1/jobs/one/keys", headers=TOKEN, content=b'{"keys": ["a"]}').json()
    assert (posted["method"], posted["path"], posted["body"]) == ("POST", "/v1/keys", '{"keys": ["a"]}')
    assert httpx.get(f"{api}/v1/jobs/one/missing", headers=TOKEN).status_code == 404
    plain = httpx.Request("GET", f"{api}/v1/jobs/one/a", headers=TOKEN)
    with httpx.Client() as client:
        assert client.send(plain).json()["coding"] is None


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/v1/jobs/no-such/state/a", 404, "there are: one, other, over, away"),
        ("/v1/jobs/over/state/a", 503, "has ended, at 2026-01-01T00:00:00Z: no disk"),
        ("/v1/jobs/away/state/a", 502, "the API of job away does not answer"),
        ("/v1/state/a", 404, "GET /v1/jobs lists the jobs"),
    ],
)
def test_what_cannot_be_forwarded_says_why(api: str, path: str, status: int, said: str) -> None:
    done = httpx.get(f"{api}{path}", headers=TOKEN)
    assert done.status_code == status
    assert said in done.json()["detail"]


def test_the_token_is_required_here_too(api: str) -> None:
    """Also for the list of the jobs; health checks have none."""
    assert httpx.get(f"{api}/v1/jobs").status_code == 401
    assert httpx.get(f"{api}/v1/jobs/one/state/a", headers={"authorization": "Bearer x"}).status_code == 401
    assert httpx.get(f"{api}/healthz").status_code == 200


def test_a_body_has_a_bound(api: str) -> None:
    done = httpx.post(f"{api}/v1/jobs/one/keys", headers=TOKEN, content=b"x" * (BODY_BYTES_MAX + 1))
    assert done.status_code == 413


def test_a_stream_ends_with_its_reader(api: str) -> None:
    """It comes as it is sent, and when its reader is gone the job's connection ends too."""
    with httpx.stream("GET", f"{api}/v1/jobs/one/changes", headers=TOKEN, timeout=20) as stream:
        assert next(stream.iter_raw()).startswith(b": nothing new")
        assert Rehydrator.streams == 1
    wait_until(lambda: Rehydrator.streams == 0, 20)


def test_the_address_is_kept_beside_the_jobs(tmp_path: Path) -> None:
    assert running_file.api_of_jobs(tmp_path) == ""
    running_file.write_api(tmp_path, "http://127.0.0.1:3")
    assert running_file.api_of_jobs(tmp_path) == "http://127.0.0.1:3"
