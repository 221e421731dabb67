"""Signatures of snapshots' manifests: whoever may write a store does not thereby say what the state is.

A manifest names each file with its SHA-256, so its signature stands for all of the snapshot. It is over the place,
too: a manifest that is moved to another job, generation or share is as wrong as one that was changed.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass, field

_KEY = re.compile(r"[!-+\--~]{32,}")  # printable ASCII without the comma


@dataclass(frozen=True)
class Keys:
    """The first one signs, each verifies. Without any nothing is signed, and no signature is looked at."""

    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, text: str) -> Keys:
        """Commas stand between them. Raises ValueError, which does not show them."""
        secrets = tuple(one.strip() for one in text.split(",")) if text else ()
        if not all(map(_KEY.fullmatch, secrets)):
            raise ValueError("each key needs at least 32 printable ASCII characters; commas stand between keys")
        return cls(secrets)

    def __bool__(self) -> bool:
        return bool(self.secrets)

    def sign(self, folder: str, content: bytes) -> str:
        """There must be a key. `folder`: of the share, in the store. `content`: one line."""
        return _signature(self.secrets[0], folder, content)

    def problem(self, folder: str, content: bytes, given: object) -> str:
        """What is wrong with the signature that a manifest has; empty where nothing is. `given`: anything."""
        if not self.secrets:
            return ""
        if given is None:
            return "the manifest is not signed, and CUTWATER_SNAPSHOT_KEY asks for a signature"
        told = str(given).encode(errors="replace")
        rights = [_signature(one, folder, content).encode() for one in self.secrets]
        if any([hmac.compare_digest(one, told) for one in rights]):
            return ""
        return (
            "the manifest's signature is by none of the keys in CUTWATER_SNAPSHOT_KEY: it was signed by another "
            "key, or changed or moved since"
        )


def _signature(secret: str, folder: str, content: bytes) -> str:
    return hmac.digest(secret.encode(), folder.encode() + b"\n" + content, "sha256").hex()
