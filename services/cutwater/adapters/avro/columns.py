"""Decoding of many Avro records of one schema by columns: a bulk read takes a fifth of the time of `Codec`.

It supports the types of a job's state: numbers, texts, bytes, records, each nullable. For other types, and after
any error, the caller uses `Codec`, which decodes each record separately and reports which one is invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from fastavro.read import LOGICAL_READERS

_DIGIT = 0x7F
"""Value bits of a number's byte; the first bit says that more follow."""
_VARINT_BITS = 63
"""Shift of the last byte of a 64-bit number."""
_FIXED = {"float": "<f4", "double": "<f8"}

Read = Callable[["_Bodies", Any], list[Any]]
"""Reads the next value of each of these rows."""


def columns(
    schema: dict[str, Any], without: Collection[str], bodies: Sequence[bytes]
) -> dict[str, list[Any]] | None:
    """Return all records' values by field, as `Codec` decodes them; None if `Codec` must be used.

    `without`: fields to leave out of records inside the record.
    """
    import numpy as np  # only for bulk reads

    try:
        read = {one["name"]: _reader(one["type"], without) for one in schema["fields"]}
        of = _Bodies(np, bodies)
        found = {name: each(of, of.all) for name, each in read.items()}
    except (LookupError, ValueError, ArithmeticError, TypeError):
        return None
    return found if of.is_at_end else None


def by_row(found: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    if len(found) == 1:  # the usual case: a third of the time
        ((name, values),) = found.items()
        return ({name: one} for one in values)
    return (dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True))


class _Bodies:
    """Concatenated records, with the read position of each."""

    def __init__(self, np: Any, bodies: Sequence[bytes]) -> None:
        self.np = np
        self.text = b"".join(bodies)
        self.data = np.frombuffer(self.text, np.uint8)
        lengths = np.fromiter(map(len, bodies), np.int64, len(bodies))
        self._ends = np.cumsum(lengths)
        self._at = self._ends - lengths
        self.all = np.arange(len(bodies))

    @property
    def is_at_end(self) -> bool:
        """True if each record was read exactly to its end."""
        return bool((self._at == self._ends).all())

    def take(self, rows: Any, size: Any) -> Any:
        """Return the rows' positions and advance each by `size`. Raises ValueError for a negative size."""
        begins = self._at[rows]
        if self.np.any(size < 0):
            raise ValueError("negative length")
        self._at[rows] = begins + size
        return begins

    def longs(self, rows: Any) -> Any:
        np = self.np
        at = self._at[rows]
        found, shift, open_ = np.zeros(len(at), np.uint64), 0, np.arange(len(at))
        while len(open_):
            if shift > _VARINT_BITS:
                raise ValueError("a number of more than 64 bits")
            byte = self.data[at[open_]]
            found[open_] |= (byte & _DIGIT).astype(np.uint64) << np.uint64(shift)
            at[open_] += 1
            open_, shift = open_[byte > _DIGIT], shift + 7
        self._at[rows] = at
        return (found >> np.uint64(1)).astype(np.int64) ^ -(found & np.uint64(1)).astype(np.int64)


def _reader(schema: Any, without: Collection[str]) -> Read:
    """Return the reader of a type. Raises LookupError or TypeError for an unsupported one."""
    if isinstance(schema, list):
        null, other = schema
        if null != "null":
            raise LookupError("a union other than of null and one type")
        return _nullable(_reader(other, without))
    if isinstance(schema, str):
        return _PLAIN[schema]
    if schema["type"] == "record":
        fields = {one["name"]: _reader(one["type"], without) for one in schema["fields"]}
        return _record(fields, without)
    if "logicalType" in schema:
        convert = LOGICAL_READERS[f"{schema['type']}-{schema['logicalType']}"]
        return _converted(_PLAIN[schema["type"]], lambda one: convert(one, schema, None))
    return _PLAIN[schema["type"]]


def _long(of: _Bodies, rows: Any) -> list[Any]:
    found: list[Any] = of.longs(rows).tolist()
    return found


def _boolean(of: _Bodies, rows: Any) -> list[Any]:
    bytes_ = of.data[of.take(rows, of.np.int64(1))].tolist()
    return list(map({0: False, 1: True}.__getitem__, bytes_))


def _fixed(dtype: str) -> Read:
    def read(of: _Bodies, rows: Any) -> list[Any]:
        size = of.np.dtype(dtype).itemsize
        begins = of.take(rows, of.np.int64(size))
        found: list[Any] = of.data[begins[:, None] + of.np.arange(size)].view(dtype).ravel().tolist()
        return found

    return read


def _bytes(of: _Bodies, rows: Any) -> list[Any]:
    sizes = of.longs(rows)
    begins = of.take(rows, sizes)
    text = of.text
    return [text[begin:end] for begin, end in zip(begins.tolist(), (begins + sizes).tolist(), strict=True)]


def _converted(read: Read, convert: Callable[[Any], Any]) -> Read:
    # Equal values are converted once.

    def convert_all(of: _Bodies, rows: Any) -> list[Any]:
        plain = read(of, rows)
        known = {one: convert(one) for one in set(plain)}
        return [known[one] for one in plain]

    return convert_all


def _nullable(read: Read) -> Read:
    def read_some(of: _Bodies, rows: Any) -> list[Any]:
        branches = of.longs(rows)
        if of.np.any((branches != 0) & (branches != 1)):
            raise ValueError("invalid branch of a union")
        some = branches == 1
        values = read(of, rows[some])
        if len(values) == len(rows):
            return values
        rest = iter(values)
        return [next(rest) if one else None for one in some.tolist()]

    return read_some


def _record(fields: dict[str, Read], without: Collection[str]) -> Read:
    names = [name for name in fields if name not in without]
    if not names:
        raise LookupError("a record without requested fields")

    def read(of: _Bodies, rows: Any) -> list[Any]:
        found = {name: each(of, rows) for name, each in fields.items()}
        return list(by_row({name: found[name] for name in names}))

    return read


_PLAIN: dict[str, Read] = {
    "boolean": _boolean,
    "int": _long,
    "long": _long,
    **{name: _fixed(dtype) for name, dtype in _FIXED.items()},
    "bytes": _bytes,
    "string": _converted(_bytes, bytes.decode),
}
