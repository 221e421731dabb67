"""Avro records of one schema as Arrow arrays, without a Python object for each value.

It supports the types of a job's state: numbers, texts, bytes, times, decimals, and records of these, each may be
null. For other types, and for damaged bytes, the caller uses `Codec`, which decodes each record separately and
reports which one is invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from cutwater.adapters.columnar.arrow import TIME_UNITS, pyarrow
from cutwater.core.events.formats import CONFLUENT_HEADER_BYTES, CONFLUENT_MARKER

_DIGIT = 0x7F
"""Value bits of a number's byte; the first bit says that more follow."""
_VARINT_BITS = 63
"""Shift of the last byte of a 64-bit number."""
_NULL, _SOME = 0, 2
"""The branches of a nullable type, as their bytes."""
_INT_END = 1 << 31
_SHORT_BYTES = 40
"""Up to this mean size, gathering byte by byte is faster than cutting each text."""
_DECIMAL_BYTES = 16
_NEGATIVE = 0x80

Read = Callable[["_Records", Any], Any]
"""Reads the next value of each of these records, as one array."""


class Texts(NamedTuple):
    """Byte strings, one after the other. `lengths`: an array of 64-bit numbers, together the text's length."""

    text: bytes
    lengths: Any

    def cut(self) -> list[bytes]:
        """Return each string."""
        ends = self.lengths.cumsum()
        begins = (ends - self.lengths).tolist()
        return [self.text[begin:end] for begin, end in zip(begins, ends.tolist(), strict=True)]

    def array(self) -> Any:
        """Return them as an array of strings. Raises ValueError if they are not UTF-8."""
        return _binary(self.text, self.lengths).cast(pyarrow().string())


class RecordReader:
    """Reads the values of one state schema."""

    def __init__(self, schema: dict[str, Any], header: bytes, without: Collection[str] = ()) -> None:
        """`header`: of a value in Cutwater's framing. `without`: fields to leave out of records in the record."""
        self._header = header
        self._fields: dict[str, Read] | None
        try:
            self._fields = {one["name"]: _reader(one["type"], without) for one in schema["fields"]}
        except (LookupError, TypeError):
            self._fields = None

    def read(self, values: Texts) -> dict[str, Any] | None:
        """Return an array by field; None if `Codec` must be used."""
        if self._fields is None:
            return None
        try:
            of = _Records(values)
            of.skip_header(self._header)
            found = {name: each(of, of.all) for name, each in self._fields.items()}
        except (LookupError, ValueError, ArithmeticError, TypeError):
            return None
        return found if of.is_at_end else None


class _Records:
    """The records of a text, with the read position of each."""

    def __init__(self, values: Texts) -> None:
        import numpy as np  # only for exports

        self.np, self.pa = np, pyarrow()
        self._text, self.data = values.text, np.frombuffer(values.text, np.uint8)
        self._ends = np.cumsum(values.lengths)
        self._at = self._ends - values.lengths
        self.all = np.arange(len(values.lengths))

    @property
    def is_at_end(self) -> bool:
        """True if each record was read exactly to its end."""
        return bool((self._at == self._ends).all())

    def skip_header(self, header: bytes) -> None:
        """Raises ValueError for a header that no reader accepts."""
        np, size = self.np, len(header)
        own = self._ends - self._at >= size
        begins = self._at[own]
        same = self.data[begins[:, None] + np.arange(size)] == np.frombuffer(header, np.uint8)
        own[own] = same.all(axis=1)
        if not own.all():
            others = self.data[self._at[~own]]
            if (others != CONFLUENT_MARKER[0]).any():
                raise ValueError("an unknown header")
        self._at += np.where(own, size, CONFLUENT_HEADER_BYTES)

    def take(self, rows: Any, size: Any) -> Any:
        """Return the records' positions and advance each by `size`. Raises ValueError for a size below zero, or
        beyond the end of all."""
        begins = self._at[rows]
        ends = begins + size
        if self.np.any(ends < begins) or self.np.any(ends > len(self.data)):
            raise ValueError("a length that is not there")
        self._at[rows] = ends
        return begins

    def branches(self, rows: Any) -> Any:
        """Return which values of a nullable type are there."""
        byte = self.data[self.take(rows, self.np.int64(1))]
        some = byte == _SOME
        if (byte[~some] != _NULL).any():
            raise ValueError("invalid branch of a union")
        return some

    def longs(self, rows: Any) -> Any:
        np = self.np
        at = self._at[rows]
        byte = self.data[at]
        at += 1
        found, shift, open_ = (byte & _DIGIT).astype(np.uint64), 7, np.flatnonzero(byte > _DIGIT)
        while len(open_):
            if shift > _VARINT_BITS:
                raise ValueError("a number of more than 64 bits")
            byte = self.data[at[open_]]
            found[open_] |= (byte & _DIGIT).astype(np.uint64) << np.uint64(shift)
            at[open_] += 1
            open_, shift = open_[byte > _DIGIT], shift + 7
        self._at[rows] = at
        return (found >> np.uint64(1)).astype(np.int64) ^ -(found & np.uint64(1)).astype(np.int64)

    def binary(self, rows: Any) -> Any:
        np = self.np
        sizes = self.longs(rows)
        begins = self.take(rows, sizes)
        total = int(sizes.sum())
        if total > _SHORT_BYTES * len(sizes):
            ends = (begins + sizes).tolist()
            pieces = (self._text[one:end] for one, end in zip(begins.tolist(), ends, strict=True))
            return _binary(b"".join(pieces), sizes)
        starts = np.cumsum(sizes) - sizes
        return _binary(self.data[np.repeat(begins - starts, sizes) + np.arange(total)].tobytes(), sizes)

    def unscaled(self, rows: Any) -> Any:
        """Return big-endian numbers of up to 16 bytes as little-endian ones of 16 bytes each."""
        np = self.np
        sizes = self.longs(rows)
        begins = self.take(rows, sizes)
        if len(sizes) and (int(sizes.max()) > _DECIMAL_BYTES or int(sizes.min()) < 1):
            raise ValueError("a decimal of no byte, or of too many")
        negative = self.data[begins] >= _NEGATIVE
        found = np.where(negative, np.uint8(255), np.uint8(0))[:, None].repeat(_DECIMAL_BYTES, axis=1)
        for byte in range(int(sizes.max()) if len(sizes) else 0):
            there = sizes > byte
            found[there, byte] = self.data[(begins + sizes - 1 - byte)[there]]
        return found


def _binary(text: bytes, lengths: Any) -> Any:
    import numpy as np

    pa = pyarrow()
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    )


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
    if schema.get("logicalType") == "decimal":
        return _decimal(schema["precision"], schema["scale"])
    if "logicalType" in schema:
        return _time(TIME_UNITS[schema["logicalType"]])
    return _PLAIN[schema["type"]]


def _long(of: _Records, rows: Any) -> Any:
    return of.pa.array(of.longs(rows))


def _int(of: _Records, rows: Any) -> Any:
    found = of.longs(rows)
    if ((found < -_INT_END) | (found >= _INT_END)).any():
        raise ValueError("a number of more than 32 bits")
    return of.pa.array(found.astype(of.np.int32))


def _boolean(of: _Records, rows: Any) -> Any:
    found = of.data[of.take(rows, of.np.int64(1))]
    if (found > 1).any():
        raise ValueError("neither true nor false")
    return of.pa.array(found.astype(bool))


def _fixed(dtype: str) -> Read:
    def read(of: _Records, rows: Any) -> Any:
        size = of.np.dtype(dtype).itemsize
        begins = of.take(rows, of.np.int64(size))
        return of.pa.array(of.data[begins[:, None] + of.np.arange(size)].view(dtype).ravel())

    return read


def _decimal(precision: int, scale: int) -> Read:
    def read(of: _Records, rows: Any) -> Any:
        found, pa = of.unscaled(rows), of.pa
        type_ = pa.decimal128(precision, scale)
        made = pa.Decimal128Array.from_buffers(type_, len(found), [None, pa.py_buffer(found.tobytes())])
        made.validate(full=True)  # of no more digits than its type
        return made

    return read


def _time(unit: str) -> Read:
    scale = _PER_SECOND[unit]

    def read(of: _Records, rows: Any) -> Any:
        found = of.longs(rows)
        if ((found < _FIRST_S * scale) | (found >= _END_S * scale)).any():
            raise ValueError("a time that is no datetime")
        return of.pa.array(found).view(of.pa.timestamp(unit, "UTC"))

    return read


def _nullable(read: Read) -> Read:
    def read_some(of: _Records, rows: Any) -> Any:
        some = of.branches(rows)
        if some.all():
            return read(of, rows)
        index = of.pa.array(of.np.cumsum(some) - 1, mask=~some)
        return read(of, rows[some]).take(index)

    return read_some


def _record(fields: dict[str, Read], without: Collection[str]) -> Read:
    names = [name for name in fields if name not in without]
    if not names:
        raise LookupError("a record without requested fields")

    def read(of: _Records, rows: Any) -> Any:
        found = {name: each(of, rows) for name, each in fields.items()}
        return of.pa.StructArray.from_arrays([found[name] for name in names], names)

    return read


_PER_SECOND = {"ms": 1_000, "us": 1_000_000}
_FIRST_S, _END_S = -62_135_596_800, 253_402_300_800
"""The years 1 to 9999."""
_PLAIN: dict[str, Read] = {
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _fixed("<f4"),
    "double": _fixed("<f8"),
    "bytes": lambda of, rows: of.binary(rows),
    "string": lambda of, rows: of.binary(rows).cast(of.pa.string()),
}
