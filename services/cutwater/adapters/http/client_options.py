"""Options of HTTP clients of the API: direct connections, so that no proxy of the environment sees the token."""

from __future__ import annotations

import ssl
from typing import Any


def direct_options(url: str) -> dict[str, Any]:
    """Return httpx options, with proxies if CUTWATER_API_BY_PROXY. Raises UsageError for invalid settings."""
    from cutwater.adapters.config.settings import load_settings  # the import takes half a second

    if load_settings().api_by_proxy:
        return {}
    return {"trust_env": False, "verify": _trusted() if url.startswith("https:") else no_authorities()}


def trust_of(url: str, authorities: ssl.SSLContext | bool = True) -> ssl.SSLContext | bool:
    """Return the authorities, by default httpx's own, for a URL with TLS, and none for another."""
    return authorities if url.startswith("https:") else no_authorities()


def no_authorities() -> ssl.SSLContext:
    """Return the trust of a client whose connections have no TLS: reading the authorities would take 50 ms of CPU.
    A connection with TLS would fail."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _trusted() -> Any:
    # SSL_CERT_FILE and SSL_CERT_DIR stay in force: with trust_env=False httpx ignores them.
    import httpx

    return httpx.create_ssl_context()
