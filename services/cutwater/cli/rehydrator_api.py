"""Questions of verbs to the rehydrator of the running stack."""

from __future__ import annotations

from typing import Any

from cutwater.adapters.http.client_options import direct_options
from cutwater.core.errors import UnavailableError, UsageError

TIMEOUT_S = 40.0


def ask(url: str, query: dict[str, Any], headers: dict[str, str], body: Any = None) -> dict[str, Any]:
    """Return the answer; with `body` the request is posted. Raises UsageError if it is wrong, UnavailableError if
    the rehydrator cannot answer it now."""
    import httpx  # takes 0.1 s, needed only if a stack runs

    method, more = ("GET", {}) if body is None else ("POST", {"json": body})
    asked = {"params": query, "headers": headers, "timeout": TIMEOUT_S, **more}
    try:
        answer = httpx.request(method, url, **asked, **direct_options(url))
    except httpx.InvalidURL:
        raise UsageError("the key is too long for a URL, and for an event: use POST /v1/keys") from None
    except UnicodeEncodeError as error:  # a shell's words may have any bytes
        raise UsageError(f"{error.object[:60]!r} is not UTF-8: no key, time or token is such a text") from None
    except httpx.HTTPError as error:
        raise UnavailableError(f"the rehydrator at {url} does not answer ({error}); see its log") from None
    if answer.is_success:
        found: dict[str, Any] = answer.json()
        return found
    if answer.status_code == 401:
        raise UsageError(f"{url} requires its token: set CUTWATER_API_TOKEN as for 'cutwater up'")
    kind = UsageError if answer.status_code in (400, 404, 410, 421, 422) else UnavailableError
    raise kind(f"{url} answered {answer.status_code}: {answer.text[:500]}")
