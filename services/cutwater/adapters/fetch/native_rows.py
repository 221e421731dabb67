"""The optional module `cutwater_native` (folder native/): what a bulk restore does most of, in compiled code.

It is never needed. Where it is installed it is used, unless a setting says no.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cutwater.adapters.fetch.record_batches import Section

INTERFACE = 2
"""What is called here; a module of another one is not used."""


class Rows(Protocol):
    """The newest rows of a changelog: see native/src/lib.rs."""

    rows: int
    digest: int
    records: int
    size: int
    """Bytes of keys and values."""

    def take(
        self,
        batches: Sequence[Section],
        first: int,
        end: int,
        windows: Mapping[bytes, tuple[bytes, bytes] | None],
    ) -> bool: ...

    def put(self, key: bytes, value: bytes) -> None: ...

    def full(self) -> bool: ...

    def write(self, to: Any) -> int: ...


def usable() -> bool:
    """Is the module there, and the one that is known here?"""
    return _module() is not None


def new_rows(key_header: bytes, value_header: bytes, own: bytes, rows_max: int, bytes_max: int) -> Rows:
    """Only where it is usable."""
    rows: Rows = _module().Rows(key_header, value_header, own, rows_max, bytes_max)
    return rows


def _module() -> Any:
    try:
        module = import_module("cutwater_native")
    except ImportError:
        return None
    return module if getattr(module, "INTERFACE", None) == INTERFACE else None
