"""The optional compiled module `cutwater_native` (folder native/), used for bulk restores if installed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cutwater.adapters.fetch.record_batches import Section

INTERFACE = 2
"""Version of the interface used here; a module with another version is ignored."""


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
    """Return whether the module is installed with the right interface version."""
    return _module() is not None


def new_rows(key_header: bytes, value_header: bytes, own: bytes, rows_max: int, bytes_max: int) -> Rows:
    """Create an instance; call it only if `usable()`."""
    rows: Rows = _module().Rows(key_header, value_header, own, rows_max, bytes_max)
    return rows


def _module() -> Any:
    try:
        module = import_module("cutwater_native")
    except ImportError:
        return None
    return module if getattr(module, "INTERFACE", None) == INTERFACE else None
