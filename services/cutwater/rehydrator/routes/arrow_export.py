"""The route of bulk reads: every row at one milestone as an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException

from cutwater.adapters.columnar.arrow import MEDIA_TYPE, schema_of, stream_of
from cutwater.core.errors import MachineError
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.context import RouteContext
from cutwater.rehydrator.http_api.parameters import WAIT_MS_DEFAULT, AtLeast, From, Prefix, To, WaitMs
from cutwater.rehydrator.http_api.streaming import Export, Exports
from cutwater.views.query.arrow_batches import batches
from cutwater.views.query.milestone_json import row_metadata
from cutwater.views.query.pages import Part
from cutwater.views.query.row_blocks import RowColumns, columns_of
from cutwater.views.store.key_layout import key_bytes_of
from cutwater.views.store.window_rows import StoredRow


class Arrow:
    """The rows of this rehydrator, in columns."""

    def __init__(self, context: RouteContext, exports: Exports) -> None:
        self._context = context
        self._exports = exports

    async def rows(
        self,
        request: Request,
        prefix: Prefix = "",
        from_: From = None,
        to: To = None,
        at_least: AtLeast = None,
        wait_ms: WaitMs = WAIT_MS_DEFAULT,
    ) -> Response:
        """Every row at one milestone, as an Arrow stream (`application/vnd.apache.arrow.stream`).

        Columns and types are those of `cutwater export` ([EXPORTING.md](EXPORTING.md)). The schema's metadata
        names the milestone and the partitions that this rehydrator holds. `from` and `to` select the windows that
        start in [from, to), `prefix` the keys that start with it. The last batch has no rows; its metadata
        `cutwater.rows` is the number of rows before it. Without it the answer was cut short.
        """
        part = Part(parsing.time_ms("from", from_), parsing.time_ms("to", to))
        asked = {"prefix": prefix or None, "from": from_, "to": to}
        if answer := await self._context.wait_for_token(request, at_least, wait_ms):
            return answer
        with self._exports.admitted():
            stream = await run_in_threadpool(self._stream, part, prefix, asked)
            return Export(stream, MEDIA_TYPE, self._exports)

    def _stream(self, part: Part, prefix: str, asked: dict[str, str | None]) -> Iterator[bytes]:
        """Off the event loop: the library loads at its first use."""
        context, view = self._context, self._context.view
        milestone, pieces = view.pieces(part)
        kept = context.replica.row_selection if context.replica else None
        told = row_metadata(view.job.name, context.milestone(milestone), context.partitions, kept)
        try:
            schema = schema_of(view.job, told | {name: text for name, text in asked.items() if text is not None})
        except MachineError as error:
            raise HTTPException(501, f"this rehydrator has no Arrow: {error}") from None
        return stream_of(schema, batches(view.job, schema, _with_prefix(prefix, pieces)))


def _with_prefix(prefix: str, pieces: Iterator[list[StoredRow]]) -> Iterator[RowColumns]:
    """Yield the rows whose keys start with the prefix, by column."""
    start = prefix.encode("utf-8", "surrogatepass")
    for piece in pieces:
        rows = [row for row in piece if key_bytes_of(row[0]).startswith(start)] if start else piece
        if rows:
            yield columns_of(rows)
