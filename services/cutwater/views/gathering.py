"""The newest row per key of a part of a changelog, as storage keys and values: what a bulk restore loads.

Rows come by the million, so there is no object per row here: columns of a few thousand at a time, and work that
depends on a window is done once per window.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from cutwater.adapters.avro import HEADER_BYTES
from cutwater.adapters.batches import Record
from cutwater.adapters.hashing import rows_hash
from cutwater.core.bulk import Task
from cutwater.core.digest import fold
from cutwater.core.errors import DivergenceError
from cutwater.core.formats import is_confluent
from cutwater.core.proof import WRITER_HEADER
from cutwater.views.changelog import KeyReader
from cutwater.views.layout import SEGMENT_BYTES, storage_key

_keys, _values, _headers = attrgetter("key"), attrgetter("value"), attrgetter("headers")
_LENGTH_AT = HEADER_BYTES
_SHORT = 0x80
"""Below it, Avro writes a text's length into one byte."""
_WINDOWS_MAX = 100_000


class Gathered:
    """The newest rows so far, and what was counted on the way. Not for rows of two changelogs."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._own = task.own.encode()
        self._writers = task.writers.encode()
        self._key_header = bytes.fromhex(task.key_header)
        self._value_header = bytes.fromhex(task.value_header)
        self._reader = KeyReader()
        self._windows: dict[bytes, tuple[bytes, bytes]] = {}
        """By what a key ends with: what stands before and behind its text in the storage key; of kept windows."""
        self._newest: dict[bytes, bytes] = {}
        self._known = {self._own}
        """Headers that were looked at."""
        self.rows = self.digest = self.records = self.bytes = 0
        self.held_bytes = 0
        """Of keys and values since the last `sorted_rows`; a key that came twice counts twice."""

    def __len__(self) -> int:
        return len(self._newest)

    def take(self, partition: int, records: Sequence[Record]) -> None:
        """Records of one partition, in log order. Raises DivergenceError for what is no row of this generation."""
        self.records += len(records)
        values = list(map(_values, records))
        if None in values:
            self._tombstones(partition, records)
            records = [one for one in records if one.value is not None]
            values = list(map(_values, records))
        keys = list(map(_keys, records))
        if None in keys:
            self._refuse(partition, records[keys.index(None)], "has no key")
        writers = self._writers_of(partition, records)
        self._require_schema(partition, records, values)
        if self._own in writers:
            own = [at for at, writer in enumerate(writers) if writer == self._own]
            self.rows += len(own)
            self.digest = fold((rows_hash([keys[at] for at in own], [values[at] for at in own]),), self.digest)
        self._newest.update(zip(keys, values, strict=True))
        size = sum(map(len, keys)) + sum(map(len, values))
        self.bytes += size
        self.held_bytes += size

    def sorted_rows(self) -> list[tuple[bytes, bytes]]:
        """What is gathered, as storage keys and values in order; then nothing is."""
        newest, self._newest, self.held_bytes = self._newest, {}, 0
        found: list[tuple[bytes, bytes]] = []
        put, windows, header, text_at = found.append, self._windows, self._key_header, _LENGTH_AT + 1
        # Every row comes through here, so nothing is called where a slice does.
        for key, value in newest.items():
            length = key[_LENGTH_AT]
            end = text_at + (length >> 1)
            parts = windows.get(key[end:])
            text = key[text_at:end]
            if parts is None or length >= _SHORT or b"\0" in text or key[:_LENGTH_AT] != header:
                storage = self._storage(key, end)
                if storage is not None:
                    put((storage, value))
            else:
                put((parts[0] + text + parts[1], value))
        found.sort()
        return found

    def _writers_of(self, partition: int, records: Sequence[Record]) -> list[bytes]:
        try:
            writers = [value for ((_, value),) in map(_headers, records)]
        except ValueError:  # somebody writes other headers, or none
            writers = [dict(one.headers).get(WRITER_HEADER) for one in records]
        for writer in {*writers} - self._known:
            if writer is None or not writer.startswith(self._writers):
                by = writer.decode(errors="replace") if writer else "somebody without the header 'writer'"
                self._refuse(partition, records[writers.index(writer)], f"was written by {by}", anew=True)
            self._known.add(writer)
        return writers

    def _require_schema(self, partition: int, records: Sequence[Record], values: Sequence[bytes]) -> None:
        for header in {value[:HEADER_BYTES] for value in values} - {self._value_header}:
            if not is_confluent(header):
                at = next(one for one in records if (one.value or b"")[:HEADER_BYTES] == header)
                self._refuse(
                    partition, at, f"has a value of schema {header.hex()}, not {self._value_header.hex()}"
                )

    def _tombstones(self, partition: int, records: Sequence[Record]) -> None:
        """Garbage collection: it says nothing that the horizon did not."""
        for one in records:
            if one.value is None and self._reader.window(one.key or b"").end_ms > self._task.horizon_ms:
                self._refuse(partition, one, "is a tombstone above the horizon: a live row was deleted", anew=True)

    def _storage(self, key: bytes, end: int) -> bytes | None:
        """None for a window that is not kept; `end`: where the window begins in a key of the usual form."""
        window = self._reader.window(key)
        if window.end_ms <= self._task.floor_ms:
            return None
        if len(self._windows) < _WINDOWS_MAX:
            empty = storage_key(window._replace(key=""), self._task.segment_ms)
            self._windows[key[end:]] = empty[:SEGMENT_BYTES], empty[SEGMENT_BYTES:]
        return storage_key(window, self._task.segment_ms)

    def _refuse(self, partition: int, record: Record, what: str, anew: bool = False) -> None:
        advice = "Start a new generation" if anew else "Use the job file that the driver runs with"
        raise DivergenceError(f"{self._task.topic}/{partition}@{record.offset} {what}. {advice}.")
