"""Where the HTTP API serves a key's rows: a path, and a query for keys that paths do not carry well."""

from __future__ import annotations

import base64
from urllib.parse import quote

from cutwater.core.events.rejection import MAX_KEY_BYTES

KEY_ROUTE = "/v1/state"
"""With `key_query`; without one it answers all rows."""


def path_of(key: str) -> str:
    """Return the path of a key's rows; raises UnicodeEncodeError for half a surrogate pair, which no key has.

    Dots are escaped too: an HTTP client takes `..` for the folder above, and asks for another path.
    """
    return f"{KEY_ROUTE}/{quote(key, safe='').replace('.', '%2E')}"


def key_query(key: str) -> dict[str, str]:
    """Return what asks `KEY_ROUTE` for a key's rows; raises UnicodeEncodeError as `path_of`.

    A key that is larger than any that is written today is named in base64: a URL has room for three times as much.
    """
    plain = key.encode()
    return {"key": key} if len(plain) <= MAX_KEY_BYTES else {"key64": encoded(plain)}


def encoded(plain: bytes) -> str:
    """Base64 for URLs, without what fills it up."""
    return base64.urlsafe_b64encode(plain).decode().rstrip("=")


def decoded(text: str) -> str:
    """The key in such a text, filled up or not. Raises ValueError for what is none, or no UTF-8."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
