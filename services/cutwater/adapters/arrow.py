"""State as Arrow: the schema of a job's rows, and batches of them.

With `parquet.py` the one place that imports pyarrow, and only when something here is called: it is the extra
`arrow`, which most installations do without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from cutwater.core.errors import MachineError
from cutwater.core.job import Job

PREFIX = "cutwater."
"""Of the names in a schema's metadata that are ours."""
_PLAIN = {
    "boolean": "bool_",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "string": "string",
    "bytes": "binary",
}
_UNITS = {"timestamp-millis": "ms", "timestamp-micros": "us"}

Schema = Any
Batch = Any


class Named(NamedTuple):
    """A row: its window, and its measures by name, as they are presented."""

    key: str
    start_ms: int
    end_ms: int
    values: Mapping[str, Any]


def pyarrow(module: str = "pyarrow") -> Any:
    """pyarrow, or a module of it. Raises MachineError where the extra is missing."""
    if find_spec("pyarrow") is None:
        raise MachineError("pyarrow cannot be imported here: pip install 'cutwater[arrow]'")
    return import_module(module)


def schema_of(job: Job, about: Mapping[str, str]) -> Schema:
    """One column per measure, in the type of its presented value; `about` becomes the metadata.

    Raises MachineError where pyarrow is missing.
    """
    pa = pyarrow()
    time = pa.timestamp("ms", "UTC")
    window = {"key": pa.string(), "window_start": time, "window_end": time}
    fields = [pa.field(name, type_, nullable=False) for name, type_ in window.items()]
    fields += [pa.field(one.name, _type_of(pa, one.output)) for one in job.measures]
    return pa.schema(fields, metadata={PREFIX + name: text for name, text in about.items()})


def _type_of(pa: Any, avro: Any) -> Any:
    """Of an Avro type that a measure may present."""
    if isinstance(avro, str):
        return getattr(pa, _PLAIN[avro])()
    if avro["logicalType"] == "decimal":
        return pa.decimal128(avro["precision"], avro["scale"])
    return pa.timestamp(_UNITS[avro["logicalType"]], "UTC")


def about_of(schema: Schema) -> dict[str, str]:
    """What `schema_of` was told."""
    found = {name.decode(): text.decode() for name, text in (schema.metadata or {}).items()}
    return {name.removeprefix(PREFIX): text for name, text in found.items() if name.startswith(PREFIX)}


def batch_of(schema: Schema, rows: Sequence[Named]) -> Batch:
    """Rows as one batch, in the columns of `schema_of`."""
    pa = pyarrow()
    windows = zip(*(row[:3] for row in rows), strict=True) if rows else ((), (), ())
    measures = ([row.values[name] for row in rows] for name in schema.names[3:])
    columns: Iterable[Any] = (*windows, *measures)
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
