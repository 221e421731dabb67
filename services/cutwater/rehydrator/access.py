"""The role that a request to the HTTP API needs."""

from __future__ import annotations

from cutwater.core.access.actions import SNAPSHOT
from cutwater.core.access.roles import Role

SNAPSHOTS_PATH = "/v1/snapshots"
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_ASKED_BY_POST = frozenset(
    {
        *("/v1/keys", "/v1/distinct", "/v1/global/keys", "/v1/global/distinct"),
        *("/v1/stored-keys", "/v1/stored-sets"),
    }
)
"""Routes whose question is a body, and that change nothing."""


def needed_role(method: str, path: str) -> Role:
    """Return the role for a request. A route that is not listed here, and may change something, is an owner's."""
    if method in _READING or path in _ASKED_BY_POST:
        return Role.VIEWER
    return SNAPSHOT.role if path == SNAPSHOTS_PATH else Role.OWNER
