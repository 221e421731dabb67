"""Whether an API of a stack's processes answers."""

from __future__ import annotations

import httpx

from cutwater.adapters.http.client_options import direct_options


def api_answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=2.0, **direct_options(url)).status_code < 500
    except httpx.HTTPError:
        return False
