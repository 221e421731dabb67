"""Fast conversion of the short, plain keys of a changelog, nearly all keys, to storage keys by slicing bytes.
There are millions of rows, so window-dependent work is done once per window, and the rest by columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter

from cutwater.adapters.avro.codec import HEADER_BYTES
from cutwater.core.errors import DivergenceError, UsageError
from cutwater.views.changelog.record_reader import KeyReader
from cutwater.views.store.key_layout import SEGMENT_BYTES, Window, storage_key

_length = itemgetter(HEADER_BYTES)  # C loops when mapped over a column
_TEXT_AT = HEADER_BYTES + 1
_SHORT = 0x80
"""Below it, Avro encodes twice a text's length in one byte."""
_WINDOWS_MAX = 100_000


def all_plain(keys: Collection[bytes]) -> bool:
    """Return whether all keys are short and plain. Raises IndexError for bytes that are no key."""
    # A zero byte is escaped in a storage key. Windows of 1970 also contain one, and take the slow path.
    return max(map(_length, keys), default=0) < _SHORT and b"\0" not in b"".join(keys) and _are_texts(keys)


def is_plain(key: bytes) -> bool:
    return key[HEADER_BYTES] < _SHORT and b"\0" not in key and _are_texts([key])


def _are_texts(keys: Iterable[bytes]) -> bool:
    """Return whether each text is UTF-8. Avro's reader refuses others."""
    try:
        b"\0".join([key[_TEXT_AT : _TEXT_AT + (key[HEADER_BYTES] >> 1)] for key in keys]).decode()
    except UnicodeDecodeError:
        return False
    return True


class Windows(dict[bytes, tuple[bytes, bytes] | None]):
    """By key ending (the window): the bytes around the text in the storage key; None if not kept."""

    def __init__(self, key_header: bytes, topic: str, segment_ms: int, floor_ms: int) -> None:
        """`floor_ms`: windows that end at or below it are not kept."""
        self._key_header = key_header
        self._topic = topic
        self._segment_ms = segment_ms
        self._floor_ms = floor_ms
        self._reader = KeyReader()

    def __missing__(self, window: bytes) -> tuple[bytes, bytes] | None:
        """Raise DivergenceError if the bytes are no window."""
        found, parts = self.of(self._key_header + b"\0" + window), None
        if found.end_ms > self._floor_ms:
            empty = storage_key(found, self._segment_ms)
            parts = empty[:SEGMENT_BYTES], empty[SEGMENT_BYTES:]
        if len(self) < _WINDOWS_MAX:
            self[window] = parts
        return parts

    def of(self, key: bytes) -> Window:
        """Decode a key. Raises DivergenceError if the bytes are no key."""
        try:
            return self._reader.window(key)
        except UsageError as error:
            raise DivergenceError(f"{self._topic}: {key.hex()} is no key of the changelog: {error}") from None

    def text(self, key: bytes) -> bytes:
        """Return the group key."""
        if is_plain(key):
            return key[_TEXT_AT : _TEXT_AT + (key[HEADER_BYTES] >> 1)]
        return self.of(key).key.encode()

    def storage_rows(self, rows: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Return rows with plain keys as storage keys and values, without windows that are not kept."""
        return {
            parts[0] + key[_TEXT_AT:end] + parts[1]: value
            for key, value in rows.items()
            if (parts := self[key[(end := _TEXT_AT + (key[HEADER_BYTES] >> 1)) :]]) is not None
        }

    def storage_rows_slow(self, rows: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Do as `kept` for any keys, one by one."""
        windows = ((self.of(key), value) for key, value in rows.items())
        return {
            storage_key(window, self._segment_ms): value
            for window, value in windows
            if window.end_ms > self._floor_ms
        }
