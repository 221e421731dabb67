"""Questions of the console to a job's rehydrator, each bounded in time and size."""

from __future__ import annotations

from typing import Any

import httpx

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.http.client_options import direct_options
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.protocol.generation import Token
from cutwater.core.query.key_path import KEY_ROUTE, key_query

POSITION_S = 2.0
ANSWER_S = 15.0
BYTES_MAX = 32 << 20
"""A larger answer is not read to its end."""


class ViewClient:
    """The rehydrator of one job."""

    def __init__(self, api_url: str, settings: Settings, transport: httpx.BaseTransport | None = None) -> None:
        """`transport`: for tests, in the place of the network."""
        own: dict[str, Any] = {"base_url": api_url, "headers": settings.api_headers, "timeout": ANSWER_S}
        self._client = (
            httpx.Client(**own, transport=transport, trust_env=False)
            if transport
            else httpx.Client(**own, **direct_options(api_url))
        )

    def sequence(self) -> int:
        """Return the sequence of the milestone shown; 0 if it does not answer or shows none."""
        try:
            answer = self._client.get("/v1/milestone", timeout=POSITION_S).json()
            return Token.parse(str(answer["token"])).sequence
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError, UsageError):
            return 0

    def census(self) -> dict[str, Any]:
        """Return the last census of the view's size."""
        return self._ask("/v1/sizes", {})

    def top(self, measure: str, limit: int) -> dict[str, Any]:
        """Return the first rows by a measure."""
        return self._ask("/v1/top", {"measure": measure, "limit": limit})

    def windows(self, key: str, start: str | None, end: str | None, limit: int) -> dict[str, Any]:
        """Return the windows of one key."""
        try:
            query: dict[str, Any] = {**key_query(key), "limit": limit}
        except UnicodeEncodeError:
            raise UsageError("the key is not UTF-8: no event has such a key") from None
        bounds = {name: value for name, value in (("from", start), ("to", end)) if value}
        return self._ask(KEY_ROUTE, query | bounds)

    def snapshot(self) -> str:
        """Let the rehydrator take a snapshot; return the token of its milestone."""
        return str(self._ask("/v1/snapshots", {}, "POST")["token"])

    def close(self) -> None:
        self._client.close()

    def _ask(self, path: str, query: dict[str, Any], method: str = "GET") -> dict[str, Any]:
        try:
            with self._client.stream(method, path, params=query) as answer:
                body = _read(answer)
                if answer.is_success:
                    found: dict[str, Any] = httpx.Response(200, content=body).json()
                    return found
        except httpx.InvalidURL:
            raise UsageError("the key is too long for a URL, and for an event") from None
        except (httpx.HTTPError, ValueError) as error:
            raise UnavailableError(f"the rehydrator does not answer ({error}); see its log") from None
        if answer.status_code == 401:
            raise UsageError("the rehydrator requires its token: set CUTWATER_API_TOKEN as for 'cutwater up'")
        wrong = answer.status_code in (400, 403, 404, 409, 410, 421, 422)
        kind = UsageError if wrong else UnavailableError
        raise kind(f"the rehydrator answered {answer.status_code}: {body[:500].decode('utf-8', 'replace')}")


def _read(answer: httpx.Response) -> bytes:
    found = bytearray()
    for piece in answer.iter_bytes():
        found += piece
        if len(found) > BYTES_MAX:
            raise ValueError(f"an answer has more than {BYTES_MAX >> 20} MiB")
    return bytes(found)
