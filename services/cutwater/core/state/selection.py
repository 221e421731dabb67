"""A part of the state by what is in it: some keys, keys that begin alike, windows newer than a moment.

The log is read whole all the same, and proved by count and digest: only what is kept is less. Which partitions are
read at all is another matter (`core.state.partition_share`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.util.timestamps import iso, moment_ms

NAMES_MAX = 1_000
"""Keys and prefixes together: each row is compared with them, and every answer of a replica names them."""
NAME_CHARS_MAX = 1_000
_SHOWN_MAX, _SHOWN_CHARS_MAX = 5, 60


@dataclass(frozen=True)
class Selection:
    """What is kept: a row whose key is one of `keys` or begins with one of `prefixes` (any, where both are empty),
    and whose window ends after `since_ms`."""

    keys: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    since_ms: int | None = None

    @staticmethod
    def of(
        keys: Iterable[str] = (), prefixes: Iterable[str] = (), since_ms: int | None = None
    ) -> Selection | None:
        """None where nothing is left out. Raises UsageError for what is none."""
        one = Selection(frozenset(keys), tuple(sorted(set(prefixes))), since_ms)
        names = [*sorted(one.keys), *one.prefixes]
        if len(names) > NAMES_MAX:
            raise UsageError(f"a selection of {len(names)} keys and prefixes: {NAMES_MAX} are allowed")
        try:
            "".join(names).encode()
        except UnicodeEncodeError:
            raise UsageError("a selection with half a surrogate pair in a key: no key holds that") from None
        long = [name for name in names if len(name) > NAME_CHARS_MAX]
        if long:
            raise UsageError(f"a selection with a key of {len(long[0])} characters: {NAME_CHARS_MAX} are allowed")
        if "" in one.prefixes:
            raise UsageError("a selection with an empty prefix: every key begins with it; leave it out")
        return None if one == Selection() else one

    @property
    def any_key(self) -> bool:
        """Is every key kept?"""
        return not (self.keys or self.prefixes)

    def keeps_key(self, key: str) -> bool:
        return self.any_key or key in self.keys or key.startswith(self.prefixes)

    def any_begins(self, prefix: str, held: Callable[[str], bool] = lambda _key: True) -> bool:
        """May a key that begins so be kept? Of the keys that are named, `held` says which are there at all."""
        return (
            self.any_key
            or any(key.startswith(prefix) and held(key) for key in self.keys)
            or any(one.startswith(prefix) or prefix.startswith(one) for one in self.prefixes)
        )

    def keeps(self, key: str, end_ms: int) -> bool:
        """Is the row of this key, in the window that ends then, a part of it?"""
        return (self.since_ms is None or end_ms > self.since_ms) and self.keeps_key(key)

    def raised(self, floor_ms: int) -> int:
        """Windows that end at or below it are not kept, where those up to `floor_ms` are not in any case."""
        return floor_ms if self.since_ms is None else max(floor_ms, self.since_ms)

    def of_bytes(self) -> Callable[[bytes], bool] | None:
        """`keeps_key` of keys in UTF-8, of which there are millions; None where every key is kept."""
        if self.any_key:
            return None
        keys = frozenset(key.encode() for key in self.keys)
        prefixes = tuple(prefix.encode() for prefix in self.prefixes)
        if not prefixes:
            return keys.__contains__
        return lambda key: key in keys or key.startswith(prefixes)

    def as_object(self) -> dict[str, Any]:
        """As answers, exports and stores name it."""
        return {"keys": sorted(self.keys), "prefixes": [*self.prefixes], "since_ms": self.since_ms}

    @staticmethod
    def of_object(told: Any) -> Selection | None:
        """The inverse; None of None. Raises UsageError."""
        try:
            return None if told is None else Selection.of(told["keys"], told["prefixes"], told["since_ms"])
        except (KeyError, TypeError):
            raise UsageError(f"{str(told)[:200]!r} is no selection") from None

    def __str__(self) -> str:
        """In words, with the first few names."""
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
    """Comma separated names, or a JSON list where a name itself holds a comma; of no text none.

    Raises UsageError, for a text without names, too: it would ask for everything.
    """
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
    """The moment that windows must be newer than, in ms; None of nothing. Raises UsageError."""
    try:
        return moment_ms(text) if text else None
    except ValueError:
        raise UsageError(
            f"{text[:60]!r} is no time: write 2026-01-31T00:00:00Z, or milliseconds since 1970"
        ) from None
