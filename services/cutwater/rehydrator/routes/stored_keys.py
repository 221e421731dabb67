"""The route of several keys' stored rows, for the rehydrator that merges regions."""

from __future__ import annotations

from fastapi import Request, Response

from cutwater.rehydrator.http_api.context import RouteContext
from cutwater.rehydrator.http_api.keys_body import Keys
from cutwater.rehydrator.http_api.parameters import WAIT_MS_DEFAULT, AtLeast, WaitMs
from cutwater.rehydrator.routes.fan_out import Answer, Span, joined, of_each_owner
from cutwater.rehydrator.routes.stored_rows import about, of_owners, packed


class StoredKeys:
    """The region's part of a global answer for several keys: each owner's at one milestone."""

    def __init__(self, answering: RouteContext) -> None:
        self._answering = answering

    async def keys(
        self, request: Request, asked: Keys, at_least: AtLeast = None, wait_ms: WaitMs = WAIT_MS_DEFAULT
    ) -> Response:
        """The windows of several keys as they are stored, for the global view of another rehydrator."""
        answers = of_each_owner(
            self._answering, request, "/v1/stored-keys", asked, at_least, wait_ms, self._several
        )

        def join(parts: list[Answer]) -> Answer:
            return {**of_owners(parts), "keys": [one for part in parts for one in part["keys"]]}

        return await joined(answers, join)

    def _several(self, asked: Keys, span: Span) -> Answer:
        page = self._answering.view.read_stored_several(asked.keys, *span, asked.limit, asked.rows)
        keys = [{"key": one.key, "rows": packed(one.rows), "next_from_ms": one.next_from_ms} for one in page.pages]
        return {**about(self._answering, page.milestone), "keys": keys}
