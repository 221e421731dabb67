"""How a client reaches the HTTP API: straight. A proxy that the environment names for the web sees no token."""

from __future__ import annotations

from typing import Any


def straight(url: str) -> dict[str, Any]:
    """Options of httpx for this address of the API; CUTWATER_API_BY_PROXY has the environment's proxies heeded.

    Raises UsageError for settings that do not fit.
    """
    from cutwater.adapters.config.settings import load_settings  # half a second, which only askers wait for

    if load_settings().api_by_proxy:
        return {}
    return {"trust_env": False, "verify": _trusted() if url.startswith("https:") else True}


def _trusted() -> Any:
    """SSL_CERT_FILE and SSL_CERT_DIR stay trusted: without the environment httpx does not look at them."""
    import httpx

    return httpx.create_ssl_context()
