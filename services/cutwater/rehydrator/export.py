"""All rows of one milestone as one long answer, line by line, with a bound on how many and how long."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from cutwater.views.layout import Window

EXPORTS_MAX = 2
"""At a time: each keeps the files of its milestone."""
EXPORT_S_MAX = 900.0
"""A client that reads slower than this is cut off: its answer has no last line."""
_PIECE_ROWS = 500


class Export(StreamingResponse):
    """`counting` is told +1 when the answer begins and -1 when it ends, however it does."""

    def __init__(self, head: Any, rows: Iterator[tuple[Window, bytes]], counting: Callable[[int], None]) -> None:
        super().__init__(_lines(head, rows), media_type="application/x-ndjson")
        self._counting = counting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._counting(1)
        try:
            async with asyncio.timeout(EXPORT_S_MAX):
                await super().__call__(scope, receive, send)
        finally:
            self._counting(-1)


def _lines(head: Any, rows: Iterator[tuple[Window, bytes]]) -> Iterator[str]:
    yield json.dumps(head) + "\n"
    count = 0
    while piece := list(islice(rows, _PIECE_ROWS)):
        count += len(piece)
        yield "".join(map(_line, piece))
    yield json.dumps({"rows": count}) + "\n"


def _line(row: tuple[Window, bytes]) -> str:
    window, value = row
    plain = {"key": window.key, "window_start_ms": window.start_ms, "window_end_ms": window.end_ms}
    return json.dumps({**plain, "value": base64.b64encode(value).decode()}) + "\n"
