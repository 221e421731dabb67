"""The route of bulk reads: every row at one milestone as an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import Query, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException

from cutwater.adapters.arrow import MEDIA_TYPE, schema_of, stream_of
from cutwater.core.errors import MachineError
from cutwater.rehydrator import questions
from cutwater.rehydrator.answering import Answering
from cutwater.rehydrator.export import Export, Exports
from cutwater.rehydrator.parameters import WAIT_MS_DEFAULT, AtLeast, From, To, WaitMs
from cutwater.views.described import about
from cutwater.views.layout import Window
from cutwater.views.tabular import batches

Prefix = Annotated[str, Query(description="Only keys that begin with this.")]
_FIRST, _END = -(1 << 63), 1 << 63


class Arrow:
    """What this rehydrator holds, in columns."""

    def __init__(self, answering: Answering, exports: Exports) -> None:
        self._answering = answering
        self._exports = exports

    async def rows(
        self,
        prefix: Prefix = "",
        from_: From = None,
        to: To = None,
        at_least: AtLeast = None,
        wait_ms: WaitMs = WAIT_MS_DEFAULT,
    ) -> Response:
        """Every row at one milestone, as an Arrow stream (`application/vnd.apache.arrow.stream`).

        Columns and types are those of `cutwater export` ([EXPORTING.md](EXPORTING.md)); the schema's metadata name
        the milestone and the partitions that this rehydrator holds. Only the windows that start in [from, to) and
        whose keys begin with `prefix`, where these are given. The last batch has no rows, and metadata
        `cutwater.rows`, how many came before it; without it the answer was cut short.
        """
        first, end = questions.time_ms("from", from_), questions.time_ms("to", to)
        view = self._answering.view
        await self._answering.reach(at_least, wait_ms)
        with self._exports.admitted():
            milestone, stored = await run_in_threadpool(view.stored)
            kept = self._answering.replica.kept if self._answering.replica else None
            told = about(view.job.name, self._answering.milestone(milestone), self._answering.partitions, kept)
            asked = {"prefix": prefix or None, "from": from_, "to": to}
            try:
                schema = schema_of(
                    view.job, told | {name: text for name, text in asked.items() if text is not None}
                )
            except MachineError as error:
                raise HTTPException(501, f"this rehydrator has no Arrow: {error}") from None
            rows = _within(stored, prefix, _FIRST if first is None else first, _END if end is None else end)
            return Export(stream_of(schema, batches(view.job, schema, rows)), MEDIA_TYPE, self._exports)


def _within(
    rows: Iterator[tuple[Window, bytes]], prefix: str, first_ms: int, end_ms: int
) -> Iterator[tuple[Window, bytes]]:
    for row in rows:
        if first_ms <= row[0].start_ms < end_ms and row[0].key.startswith(prefix):
            yield row
