"""The newest row per key of a part of a changelog, as storage keys and values for a bulk load.

There are millions of rows, so it works on columns of a few thousand rows and creates no object per row.
`newest_rows_native` does the same with the optional module, and uses this for rows that are not plain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import NoReturn, Protocol

from cutwater.adapters.avro.codec import HEADER_BYTES
from cutwater.adapters.fetch.record_batches import Chunk, Record, records
from cutwater.adapters.hashing import rows_hash
from cutwater.core.driver.row_proof import breach, overgrown
from cutwater.core.errors import DivergenceError, UsageError
from cutwater.core.events.formats import is_confluent
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, fold
from cutwater.core.state.bulk_load import Task
from cutwater.views.changelog.key_codec import Windows, all_plain, is_plain
from cutwater.views.changelog.record_reader import KeyReader
from cutwater.views.store.key_layout import Window

# C loops when mapped over a column.
_keys, _values, _headers = attrgetter("key"), attrgetter("value"), attrgetter("headers")
_head, _first = itemgetter(slice(HEADER_BYTES)), itemgetter(0)
_KNOWN_MAX = 10_000
"""The most headers remembered as checked."""


class Into(Protocol):
    """A writer of sorted rows."""

    def __setitem__(self, key: bytes, value: bytes, /) -> None: ...


class NewestRowsPort(Protocol):
    """The newest rows so far, with counts, of one changelog."""

    @property
    def rows(self) -> int: ...

    @property
    def digest(self) -> int: ...

    @property
    def records(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    def take(self, partition: int, piece: Chunk, end: int) -> None:
        """Add records of one partition below `end`, in log order. Raises DivergenceError for a record that is
        no row of this generation."""

    def full(self) -> bool:
        """Return whether the held rows should be written."""

    def write(self, to: Into) -> int:
        """Write and release the held rows, as sorted storage keys and values; return their number."""


class NewestRows:
    """Implements `NewestRowsPort` in Python."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._own = (WRITER_HEADER, task.own.encode())
        self._last = task.last
        self._key_header = bytes.fromhex(task.key_header)
        self._value_header = bytes.fromhex(task.value_header)
        self._reader = KeyReader()
        self._windows = Windows(self._key_header, task.topic, task.segment_ms, task.floor_ms)
        self._keeps = task.selection.of_bytes() if task.selection else None
        self._newest: dict[bytes, bytes] = {}
        self._odd: dict[bytes, bytes] = {}
        """Rows with keys that are not short and plain."""
        self._known = {self._own}
        """Headers that were checked."""
        self.rows = self.digest = self.records = self.bytes = 0
        self.held_bytes = 0
        """Since the last file, including replaced and skipped rows: files, even empty ones, report progress."""

    def full(self) -> bool:
        held = len(self._newest) + len(self._odd)
        return held >= self._task.rows_max or self.held_bytes >= self._task.bytes_max

    def write(self, to: Into) -> int:
        count = 0
        for count, (key, value) in enumerate(self.sorted_rows(), 1):  # noqa: B007
            to[key] = value
        return count

    def take(self, partition: int, piece: Chunk, end: int) -> None:
        found = records(piece)
        self._take(partition, found if piece.following <= end else [one for one in found if one.offset < end])

    def _take(self, partition: int, records: Sequence[Record]) -> None:
        self.records += len(records)
        values = list(map(_values, records))
        if None in values:
            self._tombstones(partition, records)
            records = [one for one in records if one.value is not None]
            values = list(map(_values, records))
        if not records:
            return
        keys: list[bytes] = list(map(_keys, records))
        plain = self._require_keys(partition, records, keys)
        self._require_schema(partition, records, values)
        self._require_writers(partition, records, keys, values)
        size = sum(map(len, keys)) + sum(map(len, values))
        if self._keeps is not None:
            keys, values = self._selected(keys, values, self._keeps)
        if plain:
            self._newest.update(zip(keys, values, strict=True))
        else:
            for key, value in zip(keys, values, strict=True):
                (self._newest if is_plain(key) else self._odd)[key] = value
        self.bytes += size
        self.held_bytes += size

    def sorted_rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Release the held rows, and yield them as storage keys and values in order."""
        newest, odd, windows = self._newest, self._odd, self._windows
        self._newest, self._odd, self.held_bytes = {}, {}, 0
        found = windows.storage_rows(newest)
        found |= windows.storage_rows_slow(odd)
        order = sorted(found)  # sorting pairs would take three times as long
        return zip(order, map(found.__getitem__, order), strict=True)

    def _selected(
        self, keys: Sequence[bytes], values: Sequence[bytes], keeps: Callable[[bytes], bool]
    ) -> tuple[list[bytes], list[bytes]]:
        at = [number for number, key in enumerate(keys) if keeps(self._windows.text(key))]
        return [keys[number] for number in at], [values[number] for number in at]

    def _require_keys(self, partition: int, records: Sequence[Record], keys: Sequence[bytes]) -> bool:
        """Return whether all keys are plain. Raises DivergenceError for bytes that are no key of a changelog."""
        try:
            if {*map(_head, keys)} == {self._key_header}:
                return all_plain(keys)
        except (TypeError, IndexError):
            pass
        for record in records:
            self._window(partition, record)
        return False

    def _window(self, partition: int, record: Record) -> Window:
        """Raises DivergenceError for bytes that are no key of a changelog."""
        try:
            return self._reader.window(record.key or b"")
        except UsageError as error:
            self._refuse(partition, record, f"is no row of the changelog: {error}")

    def _require_writers(
        self, partition: int, records: Sequence[Record], keys: Sequence[bytes], values: Sequence[bytes]
    ) -> None:
        headers = list(map(_headers, records))
        if {*map(len, headers)} == {1}:
            writers = list(map(_first, headers))
        else:  # our writers set exactly one header
            writers = [(WRITER_HEADER, dict(one).get(WRITER_HEADER)) for one in headers]
        for writer in {*writers} - self._known:
            name, value = writer
            if why := breach(value if name == WRITER_HEADER else None, self._last):
                self._refuse(partition, records[writers.index(writer)], why, anew=True)
            if len(self._known) >= _KNOWN_MAX:
                self._known = {self._own}
            self._known.add(writer)
        if self._own in writers:
            own = [at for at, writer in enumerate(writers) if writer == self._own]
            self.rows += len(own)
            self.digest = fold((rows_hash([keys[at] for at in own], [values[at] for at in own]),), self.digest)

    def _require_schema(self, partition: int, records: Sequence[Record], values: Sequence[bytes]) -> None:
        for header in {*map(_head, values)} - {self._value_header}:
            if not is_confluent(header):
                at = next(one for one in records if (one.value or b"")[:HEADER_BYTES] == header)
                self._refuse(
                    partition, at, f"has a value of schema {header.hex()}, not {self._value_header.hex()}"
                )

    def _tombstones(self, partition: int, records: Sequence[Record]) -> None:
        for one in records:
            if one.value is not None:
                continue
            if self._window(partition, one).end_ms > self._task.horizon_ms:
                self._refuse(partition, one, "is a tombstone above the horizon: a live row was deleted", anew=True)
            if why := overgrown(dict(one.headers).get(WRITER_HEADER), self._last):
                self._refuse(partition, one, why, anew=True)

    def _refuse(self, partition: int, record: Record, what: str, anew: bool = False) -> NoReturn:
        advice = "Use the job file that the driver runs with"
        if anew:
            advice = "Start a new generation from the newest milestone that can be proved"
        raise DivergenceError(f"{self._task.topic}/{partition}@{record.offset} {what}. {advice}.")
