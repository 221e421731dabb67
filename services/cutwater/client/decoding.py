"""Rows and end markers of the output, from the bytes of either format."""

from __future__ import annotations

import json
from typing import Any, Protocol

from cutwater.adapters import wire
from cutwater.adapters.avro import Codec
from cutwater.client.values import Change
from cutwater.core.errors import UsageError
from cutwater.core.job import TAKEN_COLUMNS, Job
from cutwater.core.output import End
from cutwater.views.jsonform import end_of, from_iso


class Decoder(Protocol):
    def end(self, value: bytes) -> End:
        """An end marker; raises UsageError for anything else."""

    def change(self, value: bytes) -> Change:
        """A row; raises UsageError for bytes of another job or format."""


class AvroDecoder:
    def __init__(self, job: Job) -> None:
        self._codec = Codec(job.output_schema)

    def end(self, value: bytes) -> End:
        record = wire.decode(value)
        if not isinstance(record, End):
            raise UsageError(f"a {type(record).__name__} stands on the output, where an end marker belongs")
        return record

    def change(self, value: bytes) -> Change:
        return _change(self._codec.decode(value), wire.millis)


class JsonDecoder:
    def __init__(self, job: Job) -> None:
        self._job = job.name

    def end(self, value: bytes) -> End:
        return end_of(self._job, _object(value))

    def change(self, value: bytes) -> Change:
        return _change(_object(value), from_iso)


DECODERS: dict[str, type[AvroDecoder] | type[JsonDecoder]] = {"avro": AvroDecoder, "json": JsonDecoder}


def _change(fields: dict[str, Any], millis: Any) -> Change:
    values = {name: value for name, value in fields.items() if name not in TAKEN_COLUMNS}
    start, end = millis(fields["window_start"]), millis(fields["window_end"])
    return Change(fields["key"], start, end, fields["kind"], values)


def _object(value: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(value)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise UsageError(f"a record of the output is not JSON: {value[:200]!r}; is the job file the publisher's?")
    return fields
