"""The rows of one milestone's own epoch, by columns: what a step finds, at a third of the time of a row at a time.

Records that are all of that epoch, live and plain are taken here. All others, and whatever is wrong, are left to
`RowReader`, which looks at each and can say which one it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from confluent_kafka import Message

from cutwater.adapters.avro.codec import HEADER_BYTES, Codec
from cutwater.core.driver.row_proof import WRITER_HEADER
from cutwater.core.events.formats import is_confluent
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.state.selection import Selection
from cutwater.views.changelog.key_codec import Windows, all_plain
from cutwater.views.changelog.record_reader import Row

_head = itemgetter(slice(HEADER_BYTES))  # run over a column by C's loops alone


class Columns(NamedTuple):
    """Keys and values of rows, in log order."""

    keys: Sequence[bytes]
    values: Sequence[bytes]

    @property
    def size(self) -> int:
        """Bytes of keys and values together."""
        return sum(map(len, self.keys)) + sum(map(len, self.values))

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        return zip(self.keys, self.values, strict=True)


def columns(rows: Iterable[Row]) -> Columns:
    rows = list(rows)
    return Columns([row.key for row in rows], [row.value for row in rows])


class OwnRows:
    """Of one job's changelog."""

    def __init__(self, job: Job, topic: str) -> None:
        self._topic = topic
        self._key_header = Codec(WINDOW_KEY_SCHEMA).header
        self._value_header = Codec(job.state_schema).header

    def of(self, messages: Sequence[Message], writer: bytes | None) -> Columns | None:
        """The records, where each is a row of this writer's; None where only a look at each can tell.

        `writer`: None where who wrote them is found out otherwise.
        """
        wanted = [(WRITER_HEADER, writer)]
        if writer is not None and any(message.headers() != wanted for message in messages):
            return None
        # Comprehensions: a `methodcaller` takes several times as long here.
        own = Columns([message.key() for message in messages], [message.value() for message in messages])
        try:
            keys, values = {*map(_head, own.keys)}, {*map(_head, own.values)}
            short = min(map(len, own.keys), default=0) <= HEADER_BYTES
        except TypeError:  # there is a record without key or value
            return None
        sound = keys == {self._key_header} and not short and all(map(is_confluent, values - {self._value_header}))
        return own if sound else None

    def kept(
        self, rows: Mapping[bytes, bytes], segment_ms: int, floor_ms: int, selection: Selection | None
    ) -> dict[bytes, bytes]:
        """The rows as storage keys and values, without windows that end at or below the floor.

        `selection`: what is kept of them; None for all.
        """
        keeps = None
        if selection is not None:
            floor_ms, keeps = selection.raised(floor_ms), selection.of_bytes()
        windows = Windows(self._key_header, self._topic, segment_ms, floor_ms)
        if keeps is not None:
            rows = {key: value for key, value in rows.items() if keeps(windows.text(key))}
        return windows.kept(rows) if all_plain(rows) else windows.kept_odd(rows)
