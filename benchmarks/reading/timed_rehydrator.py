"""The rehydrator's process with a clock at each layer of a read; it writes the sums down when it ends.

The clocks sit where layers meet (the application, the hop into a thread, the view, its rows, the rendering), so
that they need no change of the code that they measure. They cost some microseconds of a request.

python -m benchmarks.reading.timed_rehydrator RESULT JOBFILE
"""

from __future__ import annotations

import functools
import json
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio.to_thread
from fastapi import FastAPI
from starlette.responses import JSONResponse

from cutwater.rehydrator import service
from cutwater.views.query.presenter import Presenter
from cutwater.views.store.pinned_rows import PinnedRows

LAYERS = {
    "application": "route, parse, middleware",
    "hop": "into a thread and back",
    "seek": "seek and read",
    "present": "decode and present",
    "render": "render as JSON",
    "shape": "the view's and the answer's own work",
}
"""The layers of a request within the application, in order."""

_spent: defaultdict[str, float] = defaultdict(float)
_lock = threading.Lock()


def add(name: str, seconds: float) -> None:
    with _lock:
        _spent[name] += seconds
        _spent[f"{name}-times"] += 1


def timed(kind: Any, name: str, layer: str) -> None:
    """A method that counts how long it takes."""
    known = getattr(kind, name)

    @functools.wraps(known)
    def call(*arguments: Any, **options: Any) -> Any:
        began = perf_counter()
        try:
            return known(*arguments, **options)
        finally:
            add(layer, perf_counter() - began)

    setattr(kind, name, call)


def time_application() -> None:
    known = FastAPI.__call__

    async def call(self: Any, scope: Any, receive: Any, send: Any) -> None:
        began = perf_counter()
        await known(self, scope, receive, send)
        if scope.get("path", "").startswith("/v1/state/"):
            add("whole", perf_counter() - began)

    FastAPI.__call__ = call  # type: ignore[method-assign]


def time_hop() -> None:
    known = anyio.to_thread.run_sync

    async def run(work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        took = 0.0

        def inside(*arguments: Any) -> Any:
            nonlocal took
            began = perf_counter()
            try:
                return work(*arguments)
            finally:
                took = perf_counter() - began

        began = perf_counter()
        try:
            return await known(inside, *arguments, **options)
        finally:
            add("thread", took)
            add("hop", perf_counter() - began - took)

    anyio.to_thread.run_sync = run  # type: ignore[assignment]


def layers() -> dict[str, float]:
    """Mean microseconds of a request in each layer."""
    requests = max(1, _spent["whole-times"])
    one = {name: 1e6 * _spent[name] / requests for name in ("whole", "hop", "thread", "seek", "present", "render")}
    return {
        "application": one["whole"] - one["thread"] - one["hop"],
        "hop": one["hop"],
        "seek": one["seek"],
        "present": one["present"],
        "render": one["render"],
        "shape": one["thread"] - one["seek"] - one["present"] - one["render"],
    }


def main() -> int:
    result = Path(sys.argv.pop(1))
    time_application()
    time_hop()
    timed(PinnedRows, "piece", "seek")
    timed(PinnedRows, "first", "seek")
    timed(Presenter, "row", "present")
    timed(JSONResponse, "render", "render")
    try:
        return service.main()
    finally:
        told = {"requests": _spent["whole-times"], "layers": layers()}
        result.write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
