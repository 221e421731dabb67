"""Decodes rows and end markers of the output in each format.

A record's first byte identifies its format, so reading continues after a change of the output's format.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import MARKER, Codec, crc64, protocol_codec
from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.events.registry import registry_at
from cutwater.client.values import Change
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import CONFLUENT_HEADER_BYTES, confluent_number, is_confluent
from cutwater.core.job.job import TAKEN_COLUMNS, Job
from cutwater.core.output.position import End
from cutwater.views.query.output_json import end_of, from_iso


class Decoder(Protocol):
    def end(self, value: bytes) -> End:
        """Decode an end marker; raise UsageError for anything else."""

    def change(self, value: bytes) -> Change:
        """Decode a row; raise UsageError for bytes of another job or format."""


class AvroDecoder:
    def __init__(self, job: Job) -> None:
        self._codec, self._job = Codec(job.output_schema), job

    def end(self, value: bytes) -> End:
        record = protocol_records.decode(value)
        if not isinstance(record, End):
            raise UsageError(f"the output contains a {type(record).__name__} in the place of an end marker")
        return record

    def change(self, value: bytes) -> Change:
        return _change(self._job, self._codec.decode(value), protocol_records.millis)


_BEFORE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""The strings that earlier versions wrote for non-finite floats."""


class JsonDecoder:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._floats = [one.name for one in job.measures if one.output in ("float", "double")]

    def end(self, value: bytes) -> End:
        return end_of(self._job.name, _object(value))

    def change(self, value: bytes) -> Change:
        fields = _object(value)
        for name in self._floats:
            if isinstance(fields.get(name), str):
                fields[name] = _BEFORE.get(fields[name], fields[name])
        return _change(self._job, fields, from_iso)


class ConfluentDecoder:
    """Looks up each schema number once, with `schema_of`. The schema must be that of a row or an end marker."""

    def __init__(self, job: Job, schema_of: Callable[[int], dict[str, Any]]) -> None:
        self._rows, self._ends = Codec(job.output_schema), protocol_codec("end")
        self._avro = AvroDecoder(job)
        self._schema_of = schema_of
        self._known: dict[int, Codec] = {}

    def end(self, value: bytes) -> End:
        return self._avro.end(self._single_object(value, self._ends))

    def change(self, value: bytes) -> Change:
        return self._avro.change(self._single_object(value, self._rows))

    def _single_object(self, value: bytes, wanted: Codec) -> bytes:
        number = confluent_number(value)
        if number not in self._known:
            self._known[number] = self._codec(number)
        if self._known[number] is not wanted:
            raise UsageError(f"the output contains a record of number {number} in the place of {_name(wanted)}")
        return wanted.header + value[CONFLUENT_HEADER_BYTES:]

    def _codec(self, number: int) -> Codec:
        header = MARKER + crc64(self._schema_of(number))
        for codec in (self._rows, self._ends):
            if codec.header == header:
                return codec
        raise UsageError(
            f"number {number} on the output is schema {header[len(MARKER) :].hex()}, neither a row of this job "
            "nor an end marker. Check that the job file and the registry are the publisher's"
        )


class OutputDecoder:
    """Decodes records of every format; the first byte identifies it."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._single, self._json = AvroDecoder(job), JsonDecoder(job)
        self._confluent = ConfluentDecoder(job, self._ask)

    def end(self, value: bytes) -> End:
        """Decode an end marker. Raise UsageError for other bytes, UnavailableError if the registry is away."""
        return self._of(value).end(value)

    def change(self, value: bytes) -> Change:
        """Decode a row; raises as `end` does."""
        return self._of(value).change(value)

    def _of(self, value: bytes) -> Decoder:
        if value[:1] == MARKER[:1]:
            return self._single
        return self._confluent if is_confluent(value) else self._json

    def _ask(self, number: int) -> dict[str, Any]:
        registry = registry_at(self._job, load_settings())
        with registry:
            return registry.schema(number)


def _name(codec: Codec) -> str:
    return str(codec.schema["name"])


def _change(job: Job, fields: dict[str, Any], millis: Any) -> Change:
    columns = job.key_values(fields["key"])
    others = TAKEN_COLUMNS | columns.keys() if columns else TAKEN_COLUMNS
    values = {name: value for name, value in fields.items() if name not in others}
    start, end = millis(fields["window_start"]), millis(fields["window_end"])
    return Change(fields["key"], start, end, fields["kind"], values, columns)


def _object(value: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(value)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise UsageError(
            f"a record of the output is not JSON: {value[:200]!r}. Check that the job file is the publisher's"
        )
    return fields
