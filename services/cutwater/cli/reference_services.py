"""docs/HTTP.md and docs/METRICS.md, from the services themselves: routes, answers, registries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, cast

import httpx
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from cutwater.adapters.metering import DriverMetrics
from cutwater.commit_signal.metrics import Metrics as SignalMetrics
from cutwater.core.cuts import Cut
from cutwater.core.generations import Generation
from cutwater.core.records import Milestone
from cutwater.publisher.metrics import Metrics as PublisherMetrics
from cutwater.rehydrator.access import OPEN_PATHS
from cutwater.rehydrator.api import create_app
from cutwater.rehydrator.metrics import Metrics as ViewMetrics
from cutwater.views.changes import Changes
from cutwater.views.rows import Row
from cutwater.views.view import Page, ScanPage, State, Status, View
from cutwater.watch.metrics import Metrics as WatchMetrics

_GENERATION = Generation(1, "local")
_HOUR_MS = 3_600_000
_NOW_MS = 1_700_000_000_000
_MILESTONE = Milestone(
    job="flights",
    generation=_GENERATION,
    attempt=1,
    epoch=41,
    sequence=42,
    parent_hash=b"",
    barriers_position=0,
    source_cut=Cut(),
    changelog_cut=Cut(),
    watermark_ms=1_357_120_800_000,
    horizon_ms=0,
    rows=1,
    digest=0,
    events=1,
    rejected=0,
    late=0,
    skew_ms=0,
    schema_fingerprint="",
    epoch_started_ms=_NOW_MS,
    written_ms=_NOW_MS,
    committed_ms=_NOW_MS,
)
_EXAMPLES = {
    "/v1/state/{key}": "/v1/state/EWR?from=2013-01-02T11:00:00Z&limit=1&at_least=g1-local-00000000:42",
    "/v1/state": "/v1/state?limit=1",
    "/v1/milestone": "/v1/milestone",
    "/healthz": "/healthz",
}


class _View:
    """A view of one row at one milestone, or of nothing: the pages are made without brokers and disks."""

    def __init__(self, milestone: Milestone | None) -> None:
        self.milestone = milestone
        self.ready = milestone is not None
        self.status = Status(State.FOLLOWING)

    def age_ms(self, _milestone: Milestone, _now_ms: int) -> int:
        return 350

    def read(self, key: str, from_ms: int | None, _to_ms: int | None, _limit: int) -> Page:
        return Page(_MILESTONE, [_row(key, from_ms or 0)], (from_ms or 0) + _HOUR_MS)

    def scan(self, _after: bytes | None, _limit: int) -> ScanPage:
        return ScanPage(_MILESTONE, [_row("EWR", 1_357_124_400_000)], b"\x00EWR")


def _row(key: str, start_ms: int) -> Row:
    measures = {"movements": 35, "delayed": 33, "worst_delay": 86}
    return {"key": key, "window_start": start_ms, "window_end": start_ms + _HOUR_MS, **measures}


def http_page(generated: str) -> str:
    """docs/HTTP.md."""
    app = _app()
    parts = [
        "# HTTP API\n\nThe rehydrator answers at the address that `cutwater up` prints, by default "
        f"`http://127.0.0.1:8321`; `/docs` has the OpenAPI description. {generated}\n"
        "Each answer about the state is of one milestone, and names it. With `CUTWATER_API_TOKEN` set, a request "
        "needs the header `Authorization: Bearer <token>`; only "
        f"{' and '.join(f'`{one}`' for one in sorted(OPEN_PATHS))} answer without.\n"
    ]
    for path, methods in app.openapi()["paths"].items():
        for method, told in methods.items():
            parts += _route(method, path, told, app)
    return "\n".join([*parts, _STATUS])


def routes() -> dict[str, Any]:
    """The routes of the API as OpenAPI tells them, by path."""
    found: dict[str, Any] = _app().openapi()["paths"]
    return found


def _app() -> FastAPI:
    return create_app(cast(View, _View(_MILESTONE)), _GENERATION, ViewMetrics(), lambda: _NOW_MS)


def _route(method: str, path: str, told: dict[str, Any], app: FastAPI) -> Iterator[str]:
    yield f"## {method.upper()} {path}\n\n{told['description']}\n"
    rows = [_parameter(one) for one in told.get("parameters", ())]
    if rows:
        yield "| parameter | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    if asked := _EXAMPLES.get(path):
        answer = json.dumps(_answer(app, asked), indent=2, ensure_ascii=False)
        yield f"```sh\ncurl 'http://127.0.0.1:8321{asked}'\n```\n\n```json\n{answer}\n```\n"


def _answer(app: FastAPI, path: str) -> Any:
    """What the application itself says: an example that cannot be wrong."""

    async def ask() -> Any:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://view") as client:
            answer = await client.get(path)
        return answer.raise_for_status().json()

    return asyncio.run(ask())


def _parameter(one: dict[str, Any]) -> str:
    schema = one["schema"]
    default = "required" if one["required"] else f"`{schema['default']}`" if "default" in schema else ""
    bounds = f" {schema['minimum']:,} to {schema['maximum']:,}." if "maximum" in schema else ""
    return f"| `{one['name']}` | {default} | {one.get('description', '')}{bounds} |"


_STATUS = """## Status codes

| code | means |
|---|---|
| 200 | the answer |
| 202 | a snapshot was taken, and is being uploaded |
| 400 | `at_least` or `Last-Event-ID` is no token, or `after` no cursor (of `/v1/changes`: no token) |
| 401 | the API token is missing or wrong |
| 409 | this rehydrator takes no snapshots |
| 410 | the token in `at_least` is of another generation: it was lost |
| 412 | the view did not reach `at_least` within `wait_ms`; the body names the milestone that it shows |
| 421 | the peers' `CUTWATER_PEERS` differ; or another peer, which is named, has the changes of this key |
| 422 | a parameter is out of its bounds, or no time |
| 500 | an error of Cutwater's own; `detail` says which |
| 501 | this rehydrator has no pyarrow; `detail` says what to install |
| 503 | no milestone to show, the peer with the key is away, or too many exports or readers: see `detail` |
"""


def registries() -> dict[str, CollectorRegistry]:
    """The registry of each service that has one, by the name of its folder."""
    view = ViewMetrics()
    view.watch(cast(View, _View(None)), lambda: _NOW_MS)
    view.watch_changes(Changes(lambda: None))
    return {
        "driver": DriverMetrics().registry,
        "commit_signal": SignalMetrics().registry,
        "rehydrator": view.registry,
        "publisher": PublisherMetrics().registry,
        "watch": WatchMetrics().registry,
    }


_WHERE = {
    "driver": "`/metrics` at `CUTWATER_DRIVER_PORT` ([SETTINGS.md](SETTINGS.md)), off by default",
    "commit_signal": "`/metrics` at `CUTWATER_SIGNAL_PORT` ([SETTINGS.md](SETTINGS.md)), off by default",
    "rehydrator": "`/metrics` of the HTTP API ([HTTP.md](HTTP.md))",
    "publisher": "`/metrics` at `CUTWATER_PUBLISHER_PORT` ([SETTINGS.md](SETTINGS.md)), off by default",
    "watch": "`/metrics` at `CUTWATER_WATCH_PORT` ([SETTINGS.md](SETTINGS.md)), off by default",
}


def metrics_page(generated: str) -> str:
    """docs/METRICS.md."""
    head = (
        "# Metrics\n\nIn Prometheus' text format. Durations are in seconds, moments in Unix time. A counter shows "
        f"with the suffix `_total`, a histogram with `_bucket`, `_sum` and `_count`. {generated}"
    )
    parts = [head]
    for name, registry in registries().items():
        rows = [
            f"| `{one.name}{'_total' * (one.type == 'counter')}` | {one.type} | {one.documentation} |"
            for one in registry.collect()
        ]
        table = "| metric | kind | meaning |\n|---|---|---|\n" + "\n".join(rows)
        parts.append(f"## {name.replace('_', '-')}\n\nAt {_WHERE[name]}.\n\n{table}\n")
    return "\n".join(parts)
