"""The path under which the HTTP API serves a key's rows."""

from __future__ import annotations

from urllib.parse import quote


def path_of(key: str) -> str:
    """Return the path of a key's rows; raises UnicodeEncodeError for half a surrogate pair, which no key has.

    Dots are escaped too: an HTTP client takes `..` for the folder above, and asks for another path.
    """
    return f"/v1/state/{quote(key, safe='').replace('.', '%2E')}"
