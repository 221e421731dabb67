"""All rows of one milestone as one streamed answer, with limits on number and duration."""

from __future__ import annotations

import asyncio
import json
from binascii import b2a_base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from cutwater.core.errors import UnavailableError
from cutwater.views.query.row_blocks import block_of, end_block
from cutwater.views.store.key_layout import parse

LINES = "application/x-ndjson"
EXPORTS_MAX = 2
"""Exports at a time: each keeps the files of its milestone."""
EXPORT_S_MAX = 900.0
"""A slower client is disconnected: its answer lacks the end."""


class Exports:
    """The running exports of every form: they share the limit."""

    def __init__(self) -> None:
        self.running = 0

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Count an export before its milestone is pinned; the `Export` made inside ends the count. Raises
        UnavailableError if the limit is reached.
        """
        if self.running >= EXPORTS_MAX:
            raise UnavailableError(f"{EXPORTS_MAX} exports are already running: try again in a moment")
        self.running += 1
        try:
            yield
        except BaseException:
            self.running -= 1
            raise


class Export(StreamingResponse):
    """A streamed answer that is counted until it ends, however it ends."""

    def __init__(self, pieces: Iterator[str] | Iterator[bytes], media_type: str, exports: Exports) -> None:
        super().__init__(pieces, media_type=media_type)
        self._exports = exports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(EXPORT_S_MAX):
                await super().__call__(scope, receive, send)
        finally:
            self._exports.running -= 1


Pieces = Iterator[list[tuple[bytes, bytes]]]
"""Stored rows: storage keys and values."""


def blocks(head: Any, pieces: Pieces) -> Iterator[bytes]:
    """Yield `head` as a line of JSON, then the rows in blocks."""
    yield json.dumps(head).encode() + b"\n"
    count = 0
    for piece in pieces:
        count += len(piece)
        yield block_of(piece)
    yield end_block(count)


def lines(head: Any, pieces: Pieces) -> Iterator[str]:
    """Yield JSON lines: `head`, the rows, and at the end the number of rows."""
    yield json.dumps(head) + "\n"
    count = 0
    for piece in pieces:
        count += len(piece)
        yield "".join(map(_line, piece))
    yield json.dumps({"rows": count}) + "\n"


def _line(row: tuple[bytes, bytes]) -> str:
    """Only the key can contain characters that JSON escapes."""
    (key, start_ms, end_ms), value = parse(row[0]), row[1]
    window = f'"key": {json.dumps(key)}, "window_start_ms": {start_ms}, "window_end_ms": {end_ms}'
    return f'{{{window}, "value": "{b2a_base64(value, newline=False).decode()}"}}\n'
