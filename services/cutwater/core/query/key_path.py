"""URLs of a key's rows in the HTTP API: a path, or a query for keys that do not fit well in a path."""

from __future__ import annotations

import base64
from urllib.parse import quote

from cutwater.core.events.rejection import MAX_KEY_BYTES

KEY_ROUTE = "/v1/state"
"""The route for `key_query`; without a query it returns all rows."""


def path_of(key: str) -> str:
    """Return the path of a key's rows. Raises UnicodeEncodeError for half a surrogate pair, which no key has. Dots
    are escaped too: an HTTP client resolves `..` as the parent folder and requests another path."""
    return f"{KEY_ROUTE}/{quote(key, safe='').replace('.', '%2E')}"


def key_query(key: str) -> dict[str, str]:
    """Return the query of `KEY_ROUTE` for a key; raises as `path_of`. A key larger than any written today is
    encoded in base64: then three times as much fits into a URL."""
    plain = key.encode()
    return {"key": key} if len(plain) <= MAX_KEY_BYTES else {"key64": encoded(plain)}


def encoded(plain: bytes) -> str:
    """Return URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(plain).decode().rstrip("=")


def decoded(text: str) -> str:
    """Decode such a text, padded or not. Raises ValueError if it is not base64 of UTF-8."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
