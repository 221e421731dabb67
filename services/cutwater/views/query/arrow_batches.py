"""Rows by column as record batches: the values of measures, computed by column from stored partials."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.columnar.arrow import Batch, Schema, batch_of, pyarrow
from cutwater.adapters.columnar.record_arrays import RecordReader
from cutwater.core.job.derived_values import columns_of
from cutwater.core.job.job import Job
from cutwater.core.job.measures import BY, INDEX, ORDER_FIELDS, Measure
from cutwater.views.query.presenter import Presenter
from cutwater.views.query.row_blocks import RowColumns

_EXACT = 1 << 53
"""Whole numbers below this are exact as floats, so their quotient is rounded once."""
_LEAST = -(1 << 63)
"""Its absolute value is no 64-bit number."""
_SCALE_MAX = 15

Arrays = Mapping[str, Any]
"""An array by partial column."""


def batches(job: Job, schema: Schema, pieces: Iterable[RowColumns]) -> Generator[Batch]:
    """Yield each piece with the values of its measures. Raises UsageError if stored bytes are damaged."""
    reader = RecordReader(job.state_schema, Codec(job.state_schema).header, (*ORDER_FIELDS, INDEX, BY))
    presenter = Presenter(job)
    for piece in pieces:
        arrays = reader.read(piece.values)
        if arrays is None:
            rows = list(map(presenter.values, piece.values.cut()))
            measures = [[row[one.name] for row in rows] for one in job.measures]
        else:
            measures = [_present(one, arrays) for one in job.measures]
        yield batch_of(
            schema, [piece.keys.array(), *_key_columns(job, piece), piece.starts, piece.ends, *measures]
        )


def _key_columns(job: Job, piece: RowColumns) -> list[list[Any]]:
    """Return the columns of keys that are lists; equal keys are read once."""
    if not job.key_columns:
        return []
    keys = piece.keys.cut()
    known = {key: job.key_values(key.decode()) for key in set(keys)}
    return [[known[key][column.name] for key in keys] for column in job.key_columns]


def _present(measure: Measure, arrays: Arrays) -> Any:
    by_column = _BY_KIND.get(measure.kind)
    return by_column(measure, arrays) if by_column else _row_by_row(measure, arrays)


def _plain(measure: Measure, arrays: Arrays) -> Any:
    return arrays[measure.name]


def _count(measure: Measure, arrays: Arrays) -> Any:
    return arrays[measure.name].fill_null(0)


def _positioned(measure: Measure, arrays: Arrays) -> Any:
    return pyarrow("pyarrow.compute").struct_field(arrays[measure.name], "value")


def _distinct(measure: Measure, arrays: Arrays) -> list[Any]:
    """Equal sketches are estimated once."""
    sketches = arrays[measure.name].to_pylist()
    known = {one: measure.present({measure.name: one}) for one in set(sketches)}
    return [known[one] for one in sketches]


def _histogram(measure: Measure, arrays: Arrays) -> Any:
    import numpy as np

    pa = pyarrow()
    counts = np.stack([arrays[one.column].fill_null(0).to_numpy() for one in measure.partials], axis=1)
    ends = np.arange(len(counts) + 1, dtype=np.int32) * np.int32(measure.length)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(counts.ravel()))


def _average(measure: Measure, arrays: Arrays) -> Any:
    if measure.output != "double":
        return _row_by_row(measure, arrays)
    import numpy as np

    pa = pyarrow()
    of_total, of_count = (one.column for one in measure.partials)
    total, counts = arrays[of_total], arrays[of_count].fill_null(0).to_numpy()
    none = counts == 0
    if pa.types.is_floating(total.type):
        found = total.fill_null(0).to_numpy() / np.where(none, 1, counts)
        return pa.array(found, mask=none)
    numbers, exact, scale = _unscaled(total)
    exact &= counts < _EXACT // 10**scale
    found = numbers / (np.where(none, 1, counts).astype(np.float64) * 10.0**scale)
    for row in np.flatnonzero(~exact & ~none).tolist():
        found[row] = measure.present({of_total: total[row].as_py(), of_count: int(counts[row])})
    return pa.array(found, mask=none)


def _unscaled(total: Any) -> tuple[Any, Any, int]:
    """Return sums without their point, which of them are exact as floats, and the digits behind the point."""
    import numpy as np

    pa = pyarrow()
    if pa.types.is_integer(total.type):
        numbers, scale, small = total.fill_null(0).to_numpy().astype(np.int64), 0, True
    else:
        some = total.fill_null(0)
        halves = np.frombuffer(some.buffers()[1], np.int64).reshape(-1, 2)[some.offset : some.offset + len(some)]
        numbers, scale = halves[:, 0], min(some.type.scale, _SCALE_MAX)
        small = (halves[:, 1] == numbers >> 63) & (some.type.scale <= _SCALE_MAX)
    return numbers.astype(np.float64), small & (np.abs(numbers) < _EXACT) & (numbers != _LEAST), scale


def _row_by_row(measure: Measure, arrays: Arrays) -> list[Any]:
    names = columns_of(measure)
    if not names:  # computed from constants
        return [measure.present({})] * len(next(iter(arrays.values())))
    rows = zip(*(arrays[name].to_pylist() for name in names), strict=True)
    return [measure.present(dict(zip(names, row, strict=True))) for row in rows]


_BY_KIND: dict[str, Callable[[Measure, Arrays], Any]] = {
    **dict.fromkeys(("sum", "min", "max", "every", "any", "value", "stored"), _plain),
    "count": _count,
    "avg": _average,
    **dict.fromkeys(("first", "last", "min_by", "max_by"), _positioned),
    "distinct": _distinct,
    "histogram": _histogram,
}
