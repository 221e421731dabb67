"""Signatures of snapshot manifests: write access to a store is not enough to define the state.

A manifest names each file with its SHA-256, so its signature covers the whole snapshot. The signature also covers
the location: a manifest moved to another job, generation or share is as invalid as a changed one.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass, field

_KEY = re.compile(r"[!-+\--~]{32,}")  # printable ASCII without the comma


@dataclass(frozen=True)
class Keys:
    """Signing keys: the first signs, any of them verifies. Without keys nothing is signed or verified."""

    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, text: str) -> Keys:
        """Parse comma-separated keys. Raises ValueError, whose text does not contain them."""
        secrets = tuple(one.strip() for one in text.split(",")) if text else ()
        if not all(map(_KEY.fullmatch, secrets)):
            raise ValueError("each key needs at least 32 printable ASCII characters; separate keys by commas")
        return cls(secrets)

    def __bool__(self) -> bool:
        return bool(self.secrets)

    def sign(self, folder: str, content: bytes) -> str:
        """Sign one line with the first key; there must be one. `folder`: the share's, in the store."""
        return _signature(self.secrets[0], folder, content)

    def problem(self, folder: str, content: bytes, given: object) -> str:
        """Return what is wrong with a manifest's signature `given` (of any type); empty if nothing is."""
        if not self.secrets:
            return ""
        if given is None:
            return "the manifest is not signed, and CUTWATER_SNAPSHOT_KEY requires a signature"
        told = str(given).encode(errors="replace")
        rights = [_signature(one, folder, content).encode() for one in self.secrets]
        if any([hmac.compare_digest(one, told) for one in rights]):
            return ""
        return (
            "the manifest's signature is by none of the keys in CUTWATER_SNAPSHOT_KEY: another key signed it, or "
            "it was changed or moved since"
        )


def _signature(secret: str, folder: str, content: bytes) -> str:
    return hmac.digest(secret.encode(), folder.encode() + b"\n" + content, "sha256").hex()
