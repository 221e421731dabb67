"""One address for the HTTP APIs of a stack's jobs: /v1/jobs, and /v1/jobs/{job}/… for the routes below /v1.

A process of its own, which keeps nothing: it finds the jobs by their files, and forwards each request to the job's
rehydrator, with its token, and the answer as it comes. `adapters.http.server` bounds its connections and requests.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from prometheus_client import CollectorRegistry, generate_latest

from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.http.access import METRICS_PATH, OPEN_PATHS, Receive, Scope, Send, answer, guard, refuse
from cutwater.adapters.http.client_options import no_authorities
from cutwater.adapters.http.server import API_BOUNDS, HttpMetrics, HttpServer, listen
from cutwater.adapters.runtime.log_setup import configure
from cutwater.core.errors import CutwaterError, MachineError
from cutwater.local import running_file
from cutwater.local.running_file import RunningStack
from cutwater.operations.service_main import keep_private

JOBS_PATH = b"/v1/jobs"
BODY_BYTES_MAX = 1 << 20
"""As of a rehydrator."""
TIMES = httpx.Timeout(connect=5.0, read=90.0, write=30.0, pool=5.0)
"""Reading: a rehydrator waits 30 s at most for a milestone, and sends something on a stream more often."""
KNOWN_S = 1.0
"""How long the jobs' files are not read again."""
_OF_A_CONNECTION = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer"),
        *(b"transfer-encoding", b"upgrade"),
    }
)
_NOT_FORWARDED = _OF_A_CONNECTION | {b"host", b"content-length", b"expect", b"origin", b"sec-fetch-site"}
"""The guard of this port has judged the page that a request is of."""


class JobsRouter:
    """The application. `jobs`: returns what runs."""

    def __init__(
        self,
        jobs: Callable[[], list[RunningStack]],
        registry: CollectorRegistry,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs = jobs
        self._registry = registry
        self._clock_s = clock_s
        self._known: list[RunningStack] = []
        self._read_s = float("-inf")
        limits = httpx.Limits(max_connections=API_BOUNDS.working, max_keepalive_connections=64)
        # The jobs' APIs are on this machine: no proxy, and no redirect leads elsewhere.
        self._client = httpx.AsyncClient(
            limits=limits, trust_env=False, verify=no_authorities(), follow_redirects=False
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = bytes(scope.get("raw_path") or b"")
        if scope["type"] != "http":
            return
        if scope["path"] in OPEN_PATHS:
            await answer(send, 200, b"ok\n", "text/plain")
        elif scope["path"] == METRICS_PATH:
            await answer(send, 200, generate_latest(self._registry), "text/plain; version=0.0.4")
        elif path == JOBS_PATH and scope["method"] == "GET":
            body = {"jobs": [_job_json(one) for one in self._running()]}
            await answer(send, 200, json.dumps(body).encode(), "application/json")
        elif path.startswith(JOBS_PATH + b"/"):
            name, _, rest = path.removeprefix(JOBS_PATH + b"/").partition(b"/")
            await self._of_job(name.decode("latin-1"), rest, scope, receive, send)
        else:
            await refuse(send, 404, "no such route: GET /v1/jobs lists the jobs, /v1/jobs/{job}/… is a job's API")

    async def _of_job(self, name: str, rest: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        found = {one.job: one for one in self._running()}
        job = found.get(name)
        if job is None:
            await refuse(send, 404, f"no job of that name runs here; there are: {', '.join(found) or 'none'}")
        elif job.ended:
            await refuse(send, 503, f"job {name} has ended, at {job.ended}")
        elif (body := await _body(receive)) is None:
            await refuse(send, 413, f"the body has more than {BODY_BYTES_MAX:,} bytes")
        else:
            await _while_connected(self._forward(job, rest, body, scope, send), receive)

    async def _forward(self, job: RunningStack, rest: bytes, body: bytes, scope: Scope, send: Send) -> None:
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        url = httpx.URL(job.api_url).copy_with(raw_path=b"/v1/" + rest + query)
        headers = [(name, value) for name, value in scope["headers"] if name not in _NOT_FORWARDED]
        # Not by the client, which would add headers of its own, as for compressed answers.
        told: dict[str, Any] = {"headers": headers, "extensions": {"timeout": TIMES.as_dict()}}
        request = httpx.Request(scope["method"], url, content=body or None, **told)
        try:
            response = await self._client.send(request, stream=True)
        except httpx.TimeoutException:
            await refuse(send, 504, f"the API of job {job.job} did not answer in time")
            return
        except httpx.HTTPError as error:
            await refuse(send, 502, f"the API of job {job.job} does not answer: {error}")
            return
        try:
            answered = [(name.lower(), value) for name, value in response.headers.raw]
            answered = [one for one in answered if one[0] not in _OF_A_CONNECTION]
            await send({"type": "http.response.start", "status": response.status_code, "headers": answered})
            async for part in response.aiter_raw():
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await response.aclose()

    def _running(self) -> list[RunningStack]:
        if self._clock_s() - self._read_s >= KNOWN_S:
            self._known, self._read_s = self._jobs(), self._clock_s()
        return self._known


async def _body(receive: Receive) -> bytes | None:
    """Return the request's body; None if it is too large."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > BODY_BYTES_MAX:
            return None
        more = message.get("more_body", False)
    return b"".join(parts)


async def _while_connected(forward: Any, receive: Receive) -> None:
    """Forward until all is sent or the client is gone: a stream of changes has no end of its own."""

    async def disconnected() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.ensure_future(forward), asyncio.ensure_future(disconnected())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            await tasks[0]
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _job_json(one: RunningStack) -> dict[str, Any]:
    told = {"job": one.job, "ready": one.ready, "ended": one.ended, "path": f"/v1/jobs/{one.job}"}
    return {**told, "key_columns": one.key_columns}


def main() -> int:
    """Serve on CUTWATER_PORT until SIGTERM or Ctrl-C, for the stack on CUTWATER_DATA_DIR. Return the exit code."""
    keep_private()
    settings = load_settings()
    log = configure("api", settings.log_json)
    folder: Path = settings.data_dir
    try:
        listener = listen(settings.host, settings.port)
    except OSError as error:
        raise MachineError(f"cannot listen on {settings.host}:{settings.port} ({error.strerror})") from None
    registry = CollectorRegistry()
    router = JobsRouter(lambda: running_file.stacks(folder), registry)
    # Any token is let in: the API of the job asks for the role.
    app = guard(router, listener.getsockname()[0], settings.access, settings.api_names, "CUTWATER_API_TOKEN")
    server = HttpServer(app, listener, API_BOUNDS, HttpMetrics(registry))
    log.info("serving", port=settings.port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    server.run()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CutwaterError as failure:
        print(f"cutwater api: {failure}", file=sys.stderr)
        sys.exit(failure.exit_code)
