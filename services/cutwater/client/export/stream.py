"""A rehydrator's rows at one milestone, read from its export: all of them, or an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from cutwater.adapters.http.client_options import direct_options
from cutwater.client.export.read_ahead import ReadAhead
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.views.query.row_blocks import MEDIA_TYPE, Bytes, RowColumns, blocks_in

API_TIMEOUT_S = 60.0
_MISTAKES = (400, 410, 422)
"""Status codes for a wrong request."""


class Exported(NamedTuple):
    milestone: dict[str, Any]
    partitions: list[int] | None
    """The partitions that the rehydrator holds; None for all."""
    selection: dict[str, Any] | None
    """The rehydrator's selection, as `Selection.of_object` reads it; None for all."""
    replica: bool
    """True for a read-only replica, which is not an owner of a share."""
    pieces: Iterator[RowColumns]
    """The rows, with values as in the changelog. Raises UnavailableError if the answer is cut short."""
    ahead: Callable[[Path, int], None]
    """Read up to this many bytes ahead, into a file in this folder. Raises OSError."""


@contextmanager
def open_export(api_url: str, headers: Mapping[str, str]) -> Iterator[Exported]:
    """Open a rehydrator's export. Its milestone is pinned during the block. Raise UnavailableError if it does not
    answer properly; UsageError if it requires a token."""
    url, asked = f"{api_url}/v1/export", {**headers, "Accept": MEDIA_TYPE}
    with ExitStack() as stack:
        with answering(url):
            answer = stack.enter_context(
                httpx.stream("GET", url, headers=asked, timeout=API_TIMEOUT_S, **direct_options(url))
            )
            require_success(answer)
            ahead = stack.enter_context(closing(ReadAhead(answer.iter_bytes())))
            whole = Bytes(ahead)
            head = json.loads(whole.line())
            held = head["partitions"], head.get("selection"), head.get("replica", False)
            found = Exported(head["milestone"], *held, _pieces(url, whole), ahead.begin)
        yield found


def _pieces(url: str, answer: Bytes) -> Iterator[RowColumns]:
    with answering(url):
        yield from blocks_in(answer)


def require_success(answer: httpx.Response) -> None:
    """Raise UsageError for a wrong request, UnavailableError for one that may be repeated."""
    if answer.status_code == 401:
        raise UsageError(f"{answer.url} requires a token: set CUTWATER_API_TOKEN")
    if not answer.is_success:
        answer.read()
        kind = UsageError if answer.status_code in _MISTAKES else UnavailableError
        raise kind(f"{answer.url} answered {answer.status_code}: {answer.text[:300]}")


@contextmanager
def answering(url: str) -> Iterator[None]:
    """Convert the errors of reading an answer to UnavailableError. Not for code that processes the answer."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError, StopIteration) as error:
        raise UnavailableError(f"the rehydrator at {url} does not answer properly ({error!r})") from None
