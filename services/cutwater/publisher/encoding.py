"""Encodes output records from changelog records."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import HEADER_BYTES, protocol_codec
from cutwater.adapters.events.value_headers import OutputHeaders, output_headers
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import CONFLUENT_HEADER_BYTES, JSON, is_confluent
from cutwater.core.events.key_columns import no_value, values_plain
from cutwater.core.job.job import KINDS, TOMBSTONE, WINDOW_KEY_SCHEMA, Job
from cutwater.core.output.position import End
from cutwater.core.util.varints import zigzag
from cutwater.views.changelog.record_reader import KeyReader
from cutwater.views.changelog.row_batch import Piece
from cutwater.views.query.output_json import end_fields, end_of, row_fields
from cutwater.views.query.presenter import Presenter, plain


class AvroEncoder:
    """Records of the job's output schema, as Avro single objects or in Confluent framing.

    The schema has key and measures in the order of the changelog's key and value, so their bytes are copied into
    the output. Only measures that are not plain are decoded and presented.
    """

    def __init__(self, job: Job, headers: OutputHeaders | None = None) -> None:
        """`headers`: those from a registry; None makes single objects."""
        self._headers = headers or output_headers(job, None)
        self._plain = all(measure.plain for measure in job.measures)
        self._presenter = Presenter(job)
        self._job = job
        head = 2 + len(job.key_columns or ())
        columns = {"type": "record", "name": "Columns", "fields": job.output_schema["fields"][2:head]}
        self._column_schema = fastavro.parse_schema(columns)
        fields = job.output_schema["fields"][head + len(WINDOW_KEY_SCHEMA["fields"]) :]
        self._presented = fastavro.parse_schema({"type": "record", "name": "Presented", "fields": fields})
        self._nothing = _NULL * len(job.measures)
        self._prefix = b""

    def begin(self, sequence: int, kind: str) -> None:
        """Set the milestone and kind of the following records."""
        self._prefix = self._headers.row + zigzag(sequence) + zigzag(KINDS.index(kind))

    def value(self, key: bytes, value: bytes) -> bytes:
        head = self._prefix + self._key_columns(key)
        if self._plain:
            at = CONFLUENT_HEADER_BYTES if is_confluent(value) else HEADER_BYTES
            return head + key[HEADER_BYTES:] + value[at:]
        return head + key[HEADER_BYTES:] + self._present(value)

    def records(self, keys: list[bytes], values: list[bytes]) -> list[dict[str, bytes]]:
        """Return the output records of changelog records, as `TransactionalWriter` takes them."""
        if not self._plain or self._job.key_columns:
            return _records(self, keys, values)
        prefix, short, body, framed = self._prefix, _SHORT, _BODY, _FRAMED_BODY
        try:
            # `group_key` and `value` inlined: the calls would cost more than everything else here.
            return [
                {
                    "key": key[short[key[HEADER_BYTES]]],
                    "value": prefix + key[body] + (value[body] if value[0] else value[framed]),
                }
                for key, value in zip(keys, values, strict=True)
            ]
        except IndexError:  # a key has 64 bytes or more
            return _records(self, keys, values)

    def tombstones(self, keys: list[bytes], of: Job | None = None) -> list[dict[str, bytes]]:
        """Return tombstones for changelog keys: rows in which no measure has a value. `of`: the job whose keys
        they are, if its key is another one."""
        head, nothing, columns = self._prefix, self._nothing, self._key_columns
        return [
            {"key": group_key(key), "value": head + columns(key, of) + key[HEADER_BYTES:] + nothing}
            for key in keys
        ]

    def _key_columns(self, key: bytes, of: Job | None = None) -> bytes:
        if not self._job.key_columns:
            return b""
        body = io.BytesIO()
        text = group_key(key).decode()
        values = self._known(self._job.key_values_in(text, of)) if of else self._job.key_values(text)
        fastavro.schemaless_writer(body, self._column_schema, values)
        return body.getvalue()

    def _known(self, values: Mapping[str, Any]) -> dict[str, Any]:
        columns = {one.name: one for one in self._job.key_columns or ()}
        return {name: no_value(columns[name]) if value is None else value for name, value in values.items()}

    def _present(self, value: bytes) -> bytes:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, self._presented, self._presenter.values(value))
        return body.getvalue()

    def end(self, encoded: bytes, _end: End) -> bytes:
        """Return the value of an end marker: the protocol record, framed as the rows are."""
        return self._headers.end + encoded[HEADER_BYTES:]

    def decode_end(self, value: bytes) -> End:
        """Decode an end marker. Raise UsageError for one that this encoder has not made."""
        if not value.startswith(self._headers.end):
            raise UsageError(f"{value[:HEADER_BYTES].hex()} starts no end marker of this output")
        marker = protocol_records.decode(protocol_codec("end").header + value[len(self._headers.end) :])
        if not isinstance(marker, End):
            raise UsageError(f"the output contains a {type(marker).__name__} in the place of an end marker")
        return marker


class JsonEncoder:
    """JSON objects: times in ISO 8601; numbers that JSON cannot represent as strings."""

    def __init__(self, job: Job) -> None:
        self._job, self._keys, self._presenter = job, KeyReader(), Presenter(job)
        self._nothing = dict.fromkeys(measure.name for measure in job.measures)
        self._head: dict[str, Any] = {}

    def begin(self, sequence: int, kind: str) -> None:
        self._head = {"sequence": sequence, "kind": kind}

    def value(self, key: bytes, value: bytes) -> bytes:
        measures = {name: plain(found) for name, found in self._presenter.values(value).items()}
        return self._row(key, measures)

    def records(self, keys: list[bytes], values: list[bytes]) -> list[dict[str, bytes]]:
        return _records(self, keys, values)

    def tombstones(self, keys: list[bytes], of: Job | None = None) -> list[dict[str, bytes]]:
        """See `AvroEncoder.tombstones`."""
        return [{"key": group_key(key), "value": self._row(key, self._nothing, of)} for key in keys]

    def _row(self, key: bytes, measures: Mapping[str, Any], of: Job | None = None) -> bytes:
        window, job = self._keys.window(key), self._job
        columns = job.key_values_in(window.key, of) if of else job.key_values(window.key)
        return _json(row_fields({**self._head, **values_plain(columns)}, window, measures))

    def end(self, _encoded: bytes, end: End) -> bytes:
        return _json(end_fields(end))

    def decode_end(self, value: bytes) -> End:
        try:
            return end_of(self._job.name, json.loads(value))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"{value[:200]!r} is not an end marker of this output ({error!r})") from None


Encoder = AvroEncoder | JsonEncoder


def records(encoder: Encoder, sequence: int, kind: str, piece: Piece) -> list[dict[str, bytes]]:
    """Return the output records of a piece of this milestone. `kind`: used if the piece has none."""
    encoder.begin(sequence, piece.kind or kind)
    if piece.kind == TOMBSTONE:
        return encoder.tombstones(piece.keys, piece.keyed_by)
    return encoder.records(piece.keys, piece.values)


def encoder_for(job: Job, headers: OutputHeaders | None) -> Encoder:
    return JsonEncoder(job) if job.output.format == JSON else AvroEncoder(job, headers)


_NULL = b"\0"
"""The Avro null: each measure is a union whose first branch is null."""
_LONG = 0x80
"""From this value on, a length's first byte is followed by another one."""
_BODY = slice(HEADER_BYTES, None)
_FRAMED_BODY = slice(CONFLUENT_HEADER_BYTES, None)
_SHORT = [slice(HEADER_BYTES + 1, HEADER_BYTES + 1 + (first >> 1)) for first in range(_LONG)]
"""The position of the group's key in a changelog record's key, by the first byte of its length."""


def _records(encoder: Encoder, keys: list[bytes], values: list[bytes]) -> list[dict[str, bytes]]:
    encode = encoder.value
    return [{"key": group_key(key), "value": encode(key, value)} for key, value in zip(keys, values, strict=True)]


def group_key(key: bytes) -> bytes:
    """Return the group's key (UTF-8) from a changelog record's key. An Avro string is its length, then bytes."""
    if key[HEADER_BYTES] < _LONG:  # nearly always: below 64 bytes
        return key[HEADER_BYTES + 1 : HEADER_BYTES + 1 + (key[HEADER_BYTES] >> 1)]
    at, shift, length = HEADER_BYTES, 0, 0
    while key[at] & 0x80:
        length |= (key[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    length = (length | key[at] << shift) >> 1
    return key[at + 1 : at + 1 + length]


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
