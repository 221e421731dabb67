"""Roles, and the tokens that have them. A token is known by its SHA-256: a list of tokens holds no secret."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from cutwater.core.errors import UsageError

SETTING = "CUTWATER_TOKENS"
TOKENS_MAX = 64
_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FORM = "alice:owner:SHA256, where SHA256 is the 64 digits of 'printf %s \"$TOKEN\" | sha256sum'"


class Role(IntEnum):
    """Each role may do what the ones before it may."""

    VIEWER = 1
    """Reads."""
    OPERATOR = 2
    """Also pauses, takes snapshots, and does what can be undone."""
    OWNER = 3
    """Also decides which line of the job counts, and deletes."""

    def __str__(self) -> str:
        return self.name.lower()


_ROLES = {str(one): one for one in Role}


class AccessError(UsageError):
    """The caller's role does not allow the action."""


@dataclass(frozen=True)
class Caller:
    """Whom a token belongs to. `role`: None for the token without a role."""

    name: str
    role: Role | None

    def may(self, needed: Role) -> bool:
        return self.role is not None and self.role >= needed


@dataclass(frozen=True)
class _Named:
    caller: Caller
    digest: bytes


class Tokens:
    """The tokens that a port accepts: those with a name and a role, and the one without."""

    def __init__(self, named: str = "", plain: str = "") -> None:
        """`named`: entries NAME:ROLE:SHA256 with commas. `plain`: the token without a role; empty for none.

        Raises UsageError for an invalid entry, without showing its digest.
        """
        self._named = tuple(_parsed(named))
        self._plain = digest_of(plain.encode()) if plain else b""

    @property
    def has_roles(self) -> bool:
        """Return whether any token has a role."""
        return bool(self._named)

    def __bool__(self) -> bool:
        """Return whether a token is required."""
        return bool(self._named or self._plain)

    def caller(self, token: bytes) -> Caller | None:
        """Return whose token it is; None for an unknown one.

        A token that is in the list has the role of the list. The time does not tell how much of a guess is right,
        nor which entry is: all are compared.
        """
        given = digest_of(token)
        found = Caller("", None) if hmac.compare_digest(given, self._plain) else None
        for one in self._named:
            if hmac.compare_digest(given, one.digest):
                found = one.caller
        return found


def digest_of(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _parsed(text: str) -> Iterator[_Named]:
    entries = [one.strip() for one in text.split(",") if one.strip()]
    if len(entries) > TOKENS_MAX:
        raise UsageError(f"{SETTING}: {len(entries)} tokens are given, at most {TOKENS_MAX} are allowed")
    names: set[str] = set()
    for number, entry in enumerate(entries, 1):
        name, _, rest = entry.partition(":")
        role, _, digest = rest.partition(":")
        # The entry itself is not shown: whoever mistakes the form may have written a token.
        if not _NAME.fullmatch(name) or not _DIGEST.fullmatch(digest.lower()):
            raise UsageError(f"{SETTING}: entry {number} is not of the form {_FORM}")
        if name in names:
            raise UsageError(f"{SETTING}: two entries are named {name}; each token has a name of its own")
        if role not in _ROLES:
            raise UsageError(f"{SETTING}: entry {number} has none of the roles {', '.join(_ROLES)}")
        names.add(name)
        yield _Named(Caller(name, _ROLES[role]), bytes.fromhex(digest))
