"""Selection of a part of the state by content: keys, key prefixes, windows newer than a time.

The log is still read completely and proved by count and digest; only less of it is stored. Which partitions are
read is decided separately (`core.state.partition_share`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.util.timestamps import iso, moment_ms

NAMES_MAX = 1_000
"""Limit of keys and prefixes together: each row is compared with them, and each answer of a replica lists them."""
NAME_CHARS_MAX = 1_000
_SHOWN_MAX, _SHOWN_CHARS_MAX = 5, 60


@dataclass(frozen=True)
class Selection:
    """The rows to keep: the key is one of `keys` or starts with one of `prefixes` (any key if both are empty), and
    the window ends after `since_ms`."""

    keys: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    since_ms: int | None = None

    @staticmethod
    def of(
        keys: Iterable[str] = (), prefixes: Iterable[str] = (), since_ms: int | None = None
    ) -> Selection | None:
        """Return the selection; None if it includes everything. Raises UsageError if it is invalid."""
        one = Selection(frozenset(keys), tuple(sorted(set(prefixes))), since_ms)
        names = [*sorted(one.keys), *one.prefixes]
        if len(names) > NAMES_MAX:
            raise UsageError(f"a selection of {len(names)} keys and prefixes: at most {NAMES_MAX} are allowed")
        try:
            "".join(names).encode()
        except UnicodeEncodeError:
            raise UsageError("a selection with half a surrogate pair in a key: no key can contain that") from None
        long = [name for name in names if len(name) > NAME_CHARS_MAX]
        if long:
            raise UsageError(f"a selection has a key of {len(long[0])} characters: {NAME_CHARS_MAX} are allowed")
        if "" in one.prefixes:
            raise UsageError("a selection with an empty prefix: every key starts with it; leave it out")
        return None if one == Selection() else one

    @property
    def any_key(self) -> bool:
        """Whether every key is kept."""
        return not (self.keys or self.prefixes)

    def keeps_key(self, key: str) -> bool:
        return self.any_key or key in self.keys or key.startswith(self.prefixes)

    def any_begins(self, prefix: str, held: Callable[[str], bool] = lambda _key: True) -> bool:
        """Return whether a key with this prefix may be kept. `held`: whether one of `keys` exists at all."""
        return (
            self.any_key
            or any(key.startswith(prefix) and held(key) for key in self.keys)
            or any(one.startswith(prefix) or prefix.startswith(one) for one in self.prefixes)
        )

    def keeps(self, key: str, end_ms: int) -> bool:
        """Return whether the row of this key and window end is included."""
        return (self.since_ms is None or end_ms > self.since_ms) and self.keeps_key(key)

    def raised(self, floor_ms: int, overlap_ms: int) -> int:
        """Return the lower bound of kept rows: the later of `floor_ms` and `since_ms`.

        `overlap_ms`: how long before a window's end its first row ends.
        """
        return floor_ms if self.since_ms is None else max(floor_ms, self.since_ms - overlap_ms)

    def of_bytes(self) -> Callable[[bytes], bool] | None:
        """Return a fast `keeps_key` for keys in UTF-8; None if every key is kept."""
        if self.any_key:
            return None
        keys = frozenset(key.encode() for key in self.keys)
        prefixes = tuple(prefix.encode() for prefix in self.prefixes)
        if not prefixes:
            return keys.__contains__
        return lambda key: key in keys or key.startswith(prefixes)

    def as_object(self) -> dict[str, Any]:
        """Return the JSON object used in answers, exports and stores."""
        return {"keys": sorted(self.keys), "prefixes": [*self.prefixes], "since_ms": self.since_ms}

    @staticmethod
    def of_object(told: Any) -> Selection | None:
        """Parse `as_object`; None stays None. Raises UsageError."""
        try:
            return None if told is None else Selection.of(told["keys"], told["prefixes"], told["since_ms"])
        except (KeyError, TypeError):
            raise UsageError(f"{str(told)[:200]!r} is no selection") from None

    def __str__(self) -> str:
        """Return a description with the first names."""
        parts = [f"the keys {_first(sorted(self.keys))}"] if self.keys else []
        parts += [f"the keys that begin with {_first(self.prefixes)}"] if self.prefixes else []
        text = " and ".join(parts) or "all keys"
        if self.since_ms is not None:
            text += f", in windows that end after {iso(self.since_ms)}"
        return text


def _first(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    return ", ".join(name[:_SHOWN_CHARS_MAX] for name in names[:_SHOWN_MAX]) + more


def names_of(text: str) -> list[str]:
    """Parse comma-separated names or a JSON list; an empty text has none. Raises UsageError, also for ",": a
    selection without names would include everything."""
    if not text:
        return []
    try:
        listed = text.strip().startswith("[")
        found = json.loads(text) if listed else [one.strip() for one in text.split(",") if one.strip()]
    except (ValueError, RecursionError):
        found = None
    if not found or not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise UsageError(f'{text[:200]!r} is no list of names: write a,b or, with commas in names, ["a,b", "c"]')
    return found


def since_of(text: str) -> int | None:
    """Parse the time that windows must be newer than, in ms; None for an empty text. Raises UsageError."""
    try:
        return moment_ms(text) if text else None
    except ValueError:
        raise UsageError(
            f"{text[:60]!r} is no time: write 2026-01-31T00:00:00Z, or milliseconds since 1970"
        ) from None
