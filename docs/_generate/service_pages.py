"""docs/HTTP.md and docs/METRICS.md, from the services' routes, answers and metric registries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import httpx
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from cutwater.adapters.http.access import OPEN_PATHS
from cutwater.adapters.http.metrics_server import DriverMetrics
from cutwater.adapters.http.server import HttpMetrics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.sketches import HllSketches, ThetaSketches
from cutwater.adapters.topics.recovery_log import Trail
from cutwater.commit_signal.metrics import Metrics as SignalMetrics
from cutwater.core.events.rejection import MAX_KEY_BYTES
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import THETA, FieldType
from cutwater.core.job.shards import ShardMap
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.lineage import Lineage
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.size_census import Tally
from cutwater.mirror.metrics import Metrics as MirrorMetrics
from cutwater.publisher.metrics import Metrics as PublisherMetrics
from cutwater.rehydrator.app import create_app
from cutwater.rehydrator.http_api.models import WHY, WHY_UNGUARDED
from cutwater.rehydrator.metrics.metrics import Metrics as ViewMetrics
from cutwater.rehydrator.metrics.rocksdb import StoreMetrics
from cutwater.rehydrator.metrics.state_size import SizeMetrics, sizes_plain
from cutwater.views.follow.size_census import CensusResult
from cutwater.views.query.change_feed import Changes
from cutwater.views.query.pages import KeyPage, KeysPage, KeySpan, Order, Part, ScanPage, Stored, Top
from cutwater.views.query.presenter import Row
from cutwater.views.query.view import State, Status, View
from cutwater.views.store.key_layout import Window
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
    no_value=0,
    late=0,
    skew_ms=0,
    schema_fingerprint="",
    definition="",
    epoch_started_ms=_NOW_MS,
    written_ms=_NOW_MS,
    committed_ms=_NOW_MS,
)
_MEASURES = {"movements": 35, "delayed": 33, "worst_delay": 86}
_PLANES = {
    "EWR": bytes.fromhex("0104033f011acc93030b4ca5befac325013d99ab2a33e2ae802ef934901bd89d38"),
    "JFK": bytes.fromhex("0104033f011acc9303aa197b5414b47c40177c9a480dec4e9c3a46838b4d835218"),
}
"""Sketches of three planes of each airport, of which two are of both."""
_EXAMPLES = {
    "/v1/state/{key}": "/v1/state/EWR?from=2013-01-02T11:00:00Z&limit=1&at_least=g1-local-00000000:42",
    "/v1/state": "/v1/state?shards=0-127&from=2013-01-02T00:00:00Z&limit=1",
    "/v1/keys": "/v1/keys",
    "/v1/distinct": "/v1/distinct",
    "/v1/top": "/v1/top?measure=delayed&from=2013-01-02T11:00:00Z&to=2013-01-02T12:00:00Z&limit=1",
    "/v1/milestone": "/v1/milestone",
    "/v1/sizes": "/v1/sizes",
    "/v1/reads": "/v1/reads",
    "/healthz": "/healthz",
}
_KEYS_OF_ANY_KIND = f"""## Keys of any kind

Every written key can be read. A key has at most {MAX_KEY_BYTES:,} bytes of UTF-8
([FORMAT.md](FORMAT.md#dead-letters-and-late-events)). In a path, escape each byte except letters, digits, `-`, `_`
and `~` as `%2E`. Escape dots too, since clients and proxies resolve `..`; some proxies also change slashes. A
query, `GET /v1/state?key=`, has neither problem; `key64=` takes the key in base64.
If the escapes of an address are not UTF-8, the answer is 400. A URL has at most 65,000 bytes (400 if it is
longer); many proxies accept only 8,192. Longer keys, which only versions without a limit have written, can be read
with `POST /v1/keys`.
"""
_PORT = {
    403: "the token's role does not allow it ([SECURITY.md](SECURITY.md#roles)); or no token is set, and the "
    "request is from a page in a browser or for a host name that is not this port's "
    "([SECURITY.md](SECURITY.md#pages-in-a-browser))",
    408: "head or body of the request did not arrive in time ([SECURITY.md](SECURITY.md#clients-that-stall))",
    431: "the request's head is too large",
}
"""Status codes of the port itself, before the application."""
_BODIES = {
    "/v1/keys": '{"keys": ["EWR", "JFK"], "from": "2013-01-02T11:00:00Z", "limit": 1, "rows": 1}',
    "/v1/distinct": '{"measure": "planes", "of": [{"key": "JFK"}], "not": [{"key": "EWR", "from": "2013-01-02"}]}',
}
"""Bodies of the examples that are posted; the others use GET."""


class _View:
    """A view of one row at one milestone, or an empty one, so that the pages need no brokers and disks."""

    def __init__(self, milestone: Milestone | None) -> None:
        self.milestone = milestone
        self.ready = milestone is not None
        self.status = Status(State.FOLLOWING)
        self.shards = ShardMap()
        self.lineage = Lineage.of(_GENERATION)
        counts = (build(name, "count", None, None, HllSketches()) for name in _MEASURES)
        planes = build("planes", "distinct", "plane", FieldType("string"), ThetaSketches(), sketch=THETA)
        self.measures = measures = (*counts, planes)
        self.job = SimpleNamespace(measures=measures, key_columns=None, stored_key=str)

    def age_ms(self, _milestone: Milestone, _now_ms: int) -> int:
        return 350

    def horizon_ms(self, milestone: Milestone) -> int:
        return milestone.horizon_ms

    def lower_ms(self, _milestone: Milestone) -> None:
        return None

    def evicted(self, _milestone: Milestone, _from_ms: int | None) -> None:
        return None

    def read(self, key: str, from_ms: int | None, _to_ms: int | None, _limit: int) -> KeyPage:
        start = from_ms or 0
        return KeyPage(_MILESTONE, key, [_stored(key, start)], start + _HOUR_MS)

    def read_several(
        self, keys: list[str], from_ms: int | None, _to_ms: int | None, _limit: int, _rows: int
    ) -> KeysPage:
        return KeysPage(_MILESTONE, [self.read(keys[0], from_ms, None, 1)], keys[1:])

    def read_spans(self, spans: list[KeySpan], _limit: int, _rows: int) -> KeysPage:
        return KeysPage(_MILESTONE, [self.read(key, from_ms, None, 1) for key, from_ms, _ in spans], [])

    def partials(self, rows: list[Stored]) -> list[dict[str, bytes]]:
        return [{"planes": _PLANES[one.key]} for one, _ in rows]

    def top(self, _order: Order, part: Part) -> Top:
        return Top(_MILESTONE, [_stored("EWR", part.from_ms or 0)])

    def joined(self, stored: Iterable[Stored], _order: Order) -> list[Row]:
        return self.present(stored)

    def scan(self, _after: bytes | None, _limit: int, _part: Part) -> ScanPage:
        return ScanPage(_MILESTONE, [_stored("EWR", 1_357_124_400_000)], b"\x00EWR")

    def present(self, stored: Iterable[Stored]) -> list[Row]:
        return [
            {"key": one.key, "window_start": one.start_ms, "window_end": one.end_ms, **_MEASURES}
            for one, _ in stored
        ]


def _stored(key: str, start_ms: int) -> Stored:
    return Window(key, start_ms, start_ms + _HOUR_MS), b""


def http_page(generated: str) -> str:
    app = _app()
    parts = [
        "# HTTP API\n\nThe rehydrator answers at the address that `cutwater up` prints, by default "
        f"`http://127.0.0.1:8321`; `/docs` has the OpenAPI description. {generated}\n"
        "Each answer about the state is at one milestone, and names it. Its `standby` is true if a standby "
        "answered for its owner ([OPERATING.md](OPERATING.md#standbys)).\n"
        "With `CUTWATER_API_TOKEN` set, a request needs the header `Authorization: Bearer <token>`; only "
        f"{' and '.join(f'`{one}`' for one in sorted(OPEN_PATHS))} answer without it.\n"
    ]
    parts.append(_KEYS_OF_ANY_KIND)
    for path, methods in app.openapi()["paths"].items():
        for method, told in methods.items():
            parts += _route(method, path, told, app)
    return "\n".join([*parts, _status()])


def routes() -> dict[str, Any]:
    found: dict[str, Any] = _app().openapi()["paths"]
    return found


def _app() -> FastAPI:
    view = cast(View, _View(_MILESTONE))
    metrics = ViewMetrics(lambda: _NOW_MS)
    for key in ("EWR", "EWR", "JFK"):
        metrics.accesses.count(key, [_NOW_MS - _NOW_MS % _HOUR_MS])
    return create_app(view, _GENERATION, metrics, lambda: _NOW_MS, sizes=_sizes)


def _sizes() -> dict[str, Any]:
    tally = Tally()
    tally.add(2_243, 709, "EWR", 5_000, 390_000)
    return sizes_plain(CensusResult(tally.sizes(), _NOW_MS, 0.041, 0), 168 * _HOUR_MS, None)


def _route(method: str, path: str, told: dict[str, Any], app: FastAPI) -> Iterator[str]:
    yield f"## {method.upper()} {path}\n\n{told['description']}\n"
    rows = [_parameter(one) for one in told.get("parameters", ())]
    if rows:
        yield "| parameter | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    if "requestBody" in told:
        rows = [_field(name, one) for name, one in _body(told, app).items()]
        yield "| field of the body | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    if asked := _EXAMPLES.get(path):
        body = _BODIES.get(path)
        answer = json.dumps(_answer(app, asked, body), indent=2, ensure_ascii=False)
        posted = f" \\\n  -H 'content-type: application/json' -d '{body}'" if body else ""
        yield f"```sh\ncurl 'http://127.0.0.1:8321{asked}'{posted}\n```\n\n```json\n{answer}\n```\n"


def _body(told: dict[str, Any], app: FastAPI) -> dict[str, Any]:
    reference: str = told["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    fields: dict[str, Any] = app.openapi()["components"]["schemas"][reference.rpartition("/")[2]]["properties"]
    return fields


def _answer(app: FastAPI, path: str, body: str | None) -> Any:
    """Return the answer of the application itself, so that the example cannot be wrong."""

    async def ask() -> Any:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://view") as client:
            headers = {"content-type": "application/json"} if body else {}
            answer = await client.request("POST" if body else "GET", path, content=body, headers=headers)
        return answer.raise_for_status().json()

    return asyncio.run(ask())


def _field(name: str, schema: dict[str, Any]) -> str:
    default = f"`{schema['default']}`" if "default" in schema else "" if "anyOf" in schema else "required"
    bounds = f" {schema['minimum']:,.0f} to {schema['maximum']:,.0f}." if "maximum" in schema else ""
    bounds += f" At most {schema['maxItems']:,}." if "maxItems" in schema else ""
    return f"| `{name}` | {default} | {schema['description']}{bounds} |"


def _parameter(one: dict[str, Any]) -> str:
    schema = one["schema"]
    default = "required" if one["required"] else f"`{schema['default']}`" if "default" in schema else ""
    bounds = f" {schema['minimum']:,} to {schema['maximum']:,}." if "maximum" in schema else ""
    return f"| `{one['name']}` | {default} | {one.get('description', '')}{bounds} |"


def _status() -> str:
    told = {
        200: "the answer",
        202: "a snapshot was taken, and is being uploaded",
        401: WHY_UNGUARDED,
        **WHY,
        **_PORT,
    }
    rows = "\n".join(f"| {code} | {told[code]} |" for code in sorted(told))
    shape = 'Each but 410 and 412 has `{"detail": text}`.'
    return f"## Status codes\n\n{shape}\n\n| code | means |\n|---|---|\n{rows}\n"


def registries() -> dict[str, CollectorRegistry]:
    """Return the registry of each service that has one, by the name of its folder."""
    view = ViewMetrics()
    view.watch(lambda: cast(View, _View(None)), lambda: _NOW_MS)
    view.registry.register(StoreMetrics(lambda: None))
    view.registry.register(SizeMetrics(lambda: None))
    view.watch_changes(lambda: Changes(lambda: None))
    found = {
        "driver": DriverMetrics().registry,
        "commit_signal": SignalMetrics().registry,
        "rehydrator": view.registry,
        "publisher": PublisherMetrics().registry,
        "watch": WatchMetrics().registry,
        "mirror": MirrorMetrics().registry,
    }
    for name in ("rehydrator", "publisher"):  # the metrics of the recovery trail
        Trail(Cluster(""), None, found[name])
    for registry in found.values():
        HttpMetrics(registry)  # the metrics of its port
    return found


_WHERE = {
    "driver": "`/metrics` at `CUTWATER_DRIVER_PORT` ([SETTINGS.md](SETTINGS.md)), off by default",
    "commit_signal": "`/metrics` at `CUTWATER_SIGNAL_PORT` ([SETTINGS.md](SETTINGS.md)), off by default",
    "rehydrator": "`/metrics` of the HTTP API ([HTTP.md](HTTP.md))",
    "publisher": "`/metrics` at `CUTWATER_PUBLISHER_PORT` ([SETTINGS.md](SETTINGS.md)), off by default",
    "watch": "`/metrics` at `CUTWATER_WATCH_PORT` ([SETTINGS.md](SETTINGS.md)), off by default",
    "mirror": "`/metrics` at `CUTWATER_MIRROR_PORT` ([SETTINGS.md](SETTINGS.md)), off by default",
}


def metrics_page(generated: str) -> str:
    head = (
        "# Metrics\n\nMetrics are in Prometheus' text format. Durations are in seconds, times in Unix time. "
        f"A counter has the suffix `_total`, a histogram `_bucket`, `_sum` and `_count`. {generated}"
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
