"""The records of a changelog as rows of a job."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import Message

from cutwater.adapters.avro.codec import HEADER_BYTES, Codec
from cutwater.adapters.kafka.client import headers_of
from cutwater.core.errors import DivergenceError, UsageError
from cutwater.core.events.formats import is_confluent
from cutwater.core.job.job import PLAIN_KEY_SCHEMA, Job
from cutwater.core.protocol.changelog_rows import WRITER_HEADER
from cutwater.views.store.key_layout import Window


class Row(NamedTuple):
    """One record of the changelog. The value of a tombstone (`deleted`) is empty."""

    window: Window
    key: bytes
    value: bytes
    deleted: bool
    writer: bytes | None
    """The header bytes, which are compared undecoded."""


class KeyReader:
    """Decoder of the changelog's keys to windows."""

    def __init__(self) -> None:
        self._codec = Codec(PLAIN_KEY_SCHEMA)

    def window(self, key: bytes) -> Window:
        """Raise UsageError if the bytes are no key of a changelog."""
        fields = self._codec.decode(key)
        return Window(fields["key"], fields["window_start"], fields["window_end"])


class RowReader:
    """Decoder of messages to rows. Raises DivergenceError for a record that is no row of this job."""

    def __init__(self, job: Job) -> None:
        self._keys = KeyReader()
        self._value_header = Codec(job.state_schema).header

    def row(self, message: Message) -> Row:
        key, value = message.key(), message.value()
        try:
            window = self._keys.window(key or b"")
        except UsageError as error:
            raise DivergenceError(
                f"{place_of(message)}: {error}; this record is no row of the changelog"
            ) from None
        if value is not None and value[:HEADER_BYTES] != self._value_header and not is_confluent(value):
            raise DivergenceError(
                f"{place_of(message)}: the value's schema is {value[:HEADER_BYTES].hex()}, but the job file's "
                f"measures have {self._value_header.hex()}; use the job file that the driver runs with"
            )
        return Row(window, key, value or b"", value is None, header_of(message))


def header_of(message: Message) -> bytes | None:
    """Return the writer header of a record; None without one."""
    return headers_of(message).get(WRITER_HEADER)


def place_of(message: Message) -> str:
    """Return topic, partition and offset of a record for messages."""
    return f"{message.topic()}/{message.partition()}@{message.offset()}"
