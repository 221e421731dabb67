"""The rehydrator's API over a view of the test's own, on a real port."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from cutwater.core.access.roles import Tokens
from cutwater.core.job.job import Job
from cutwater.core.job.shards import ShardMap
from cutwater.local.machine.ports import free_ports
from cutwater.rehydrator.app import create_app
from cutwater.rehydrator.cluster.peers import Peers
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.views.query.view import View
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, now_ms, until
from unit.views.store.test_store import entry


class Own:
    """A view that the test writes itself."""

    def __init__(self, folder: Path, job: Job, partitions: frozenset[int] | None = None) -> None:
        self.job = job
        self.store = Store(folder, job, GENERATION, partitions=partitions)
        self.view = View(self.store, job)
        self._closed = False

    def show(self, sequence: int, rows: dict[bytes, bytes], horizon_ms: int = 0) -> None:
        shown = entry(self.job, sequence, horizon_ms)
        self.store.commit(shown, rows)
        self.view.show(shown)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.view.close()


@contextmanager
def serving(app: Any, port: int | None = None) -> Iterator[str]:
    """An application over HTTP; yields its address."""
    port = port or free_ports(1)[0]
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started, "the API")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)


def app_of(view: View, token: str = "", peers: Callable[[Metrics], Peers] | None = None, **more: Any) -> Any:
    metrics = Metrics()
    return create_app(
        view, GENERATION, metrics, now_ms, Tokens(plain=token), peers(metrics) if peers else None, **more
    )


def holding(partitions: frozenset[int] | None, owner: str = "") -> Callable[[Metrics], Peers]:
    """Of a rehydrator that says that it holds these, whatever the division is; `owner`: whose standby it is."""

    def make(metrics: Metrics) -> Peers:
        one = Peers(ShardMap(), {}, "", "", metrics)
        one.partitions, one.owner = partitions, owner
        return one

    return make
