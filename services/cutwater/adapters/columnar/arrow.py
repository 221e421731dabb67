"""State as Arrow: the schema of a job's rows, batches of them, and the stream of batches.

An Arrow stream that is truncated between two batches looks complete to its readers, as its end marker is
optional. So the last batch is empty, and its metadata contain the number of rows before it.

Only this module and `parquet.py` import pyarrow, and only when called: it is the extra `arrow`, which most
installations lack.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from cutwater.core.errors import MachineError
from cutwater.core.job.job import Job

PREFIX = "cutwater."
"""Prefix of Cutwater's names in a schema's metadata."""
MEDIA_TYPE = "application/vnd.apache.arrow.stream"
_ROWS = f"{PREFIX}rows"
_PLAIN = {
    "boolean": "bool_",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "string": "string",
    "bytes": "binary",
}
_LOGICAL = {"date": "date32", "uuid": "string"}
TIME_UNITS = {"timestamp-millis": "ms", "timestamp-micros": "us"}

Schema = Any
Batch = Any


def pyarrow(module: str = "pyarrow") -> Any:
    """Import pyarrow or a module of it. Raises MachineError if the extra is missing."""
    if find_spec("pyarrow") is None:
        raise MachineError("pyarrow is not installed: run pip install 'cutwater[arrow]'")
    return import_module(module)


def schema_of(job: Job, about: Mapping[str, str]) -> Schema:
    """Return the columns of the key and the window, and one per measure, with `about` as metadata.

    Raises MachineError if pyarrow is missing.
    """
    pa = pyarrow()
    time = pa.timestamp("ms", "UTC")
    columns = job.key_columns or ()
    fields = [pa.field("key", pa.string(), nullable=False)]
    fields += [pa.field(one.name, _type_of(pa, one.avro), nullable=one.nullable) for one in columns]
    fields += [pa.field(name, time, nullable=False) for name in ("window_start", "window_end")]
    fields += [pa.field(one.name, _type_of(pa, one.output)) for one in job.measures]
    return pa.schema(fields, metadata={PREFIX + name: text for name, text in about.items()})


def _type_of(pa: Any, avro: Any) -> Any:
    if isinstance(avro, str):
        return getattr(pa, _PLAIN[avro])()
    if avro["type"] == "array":
        return pa.list_(_type_of(pa, avro["items"]))
    if avro["type"] == "record":
        return pa.struct([(one["name"], _type_of(pa, one["type"])) for one in avro["fields"]])
    if avro["logicalType"] in _LOGICAL:
        return getattr(pa, _LOGICAL[avro["logicalType"]])()
    if avro["logicalType"] == "decimal":
        return pa.decimal128(avro["precision"], avro["scale"])
    return pa.timestamp(TIME_UNITS[avro["logicalType"]], "UTC")


def batch_of(schema: Schema, columns: Iterable[Any]) -> Batch:
    """Return columns, in the order of the schema, as one batch: arrays, or values; times are ms or datetimes."""
    pa = pyarrow()
    arrays = [
        column.cast(type_) if isinstance(column, pa.Array) else pa.array(column, type_)
        for column, type_ in zip(columns, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def stream_of(schema: Schema, batches: Iterable[Batch]) -> Generator[bytes]:
    """Yield the bytes of a stream, one piece per batch."""
    sink, rows = io.BytesIO(), 0
    with pyarrow("pyarrow.ipc").new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
            yield _drained(sink)
        writer.write_batch(batch_of(schema, [()] * len(schema)), custom_metadata={_ROWS: str(rows)})
    yield _drained(sink)


def _drained(sink: io.BytesIO) -> bytes:
    written = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return written
