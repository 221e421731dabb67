"""Many Avro records of one schema at once, by columns: a bulk read takes a fifth of the time of `Codec`.

Only what the state of a job is made of is read here: numbers, texts, bytes, records, and a null beside each.
All else, and whatever is wrong, is left to `Codec`, which looks at each record and can say which one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from fastavro.read import LOGICAL_READERS

_DIGIT = 0x7F
"""Of a byte of a number: the first bit says that more follow."""
_VARINT_BITS = 63
"""The shift of the last byte that a number of 64 bits may take."""
_FIXED = {"float": "<f4", "double": "<f8"}

Read = Callable[["_Bodies", Any], list[Any]]
"""Of the rows with these numbers the next value each."""


def columns(
    schema: dict[str, Any], without: Collection[str], bodies: Sequence[bytes]
) -> dict[str, list[Any]] | None:
    """By field the values of all records, as `Codec` decodes them; None where that must be asked.

    `without`: fields of records inside the record that are left out.
    """
    import numpy as np  # only whoever reads in bulk

    try:
        read = {one["name"]: _reader(one["type"], without) for one in schema["fields"]}
        of = _Bodies(np, bodies)
        found = {name: each(of, of.all) for name, each in read.items()}
    except (LookupError, ValueError, ArithmeticError, TypeError):
        return None
    return found if of.ended else None


def by_row(found: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """One column or more as the records that they are of."""
    if len(found) == 1:  # as most are: a third of the time
        ((name, values),) = found.items()
        return ({name: one} for one in values)
    return (dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True))


class _Bodies:
    """The records one behind the other, and where each is read next."""

    def __init__(self, np: Any, bodies: Sequence[bytes]) -> None:
        self.np = np
        self.text = b"".join(bodies)
        self.data = np.frombuffer(self.text, np.uint8)
        lengths = np.fromiter(map(len, bodies), np.int64, len(bodies))
        self._ends = np.cumsum(lengths)
        self._at = self._ends - lengths
        self.all = np.arange(len(bodies))

    @property
    def ended(self) -> bool:
        """Has each been read to its end, and no further?"""
        return bool((self._at == self._ends).all())

    def take(self, rows: Any, size: Any) -> Any:
        """Where their next bytes begin, `size` of each, which are passed over. Raises ValueError below 0."""
        begins = self._at[rows]
        if self.np.any(size < 0):
            raise ValueError("no such length")
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
    """Raises LookupError or TypeError for what is not read here."""
    if isinstance(schema, list):
        null, other = schema
        if null != "null":
            raise LookupError("another union than that of null and something")
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
    """Equal ones are converted once."""

    def convert_all(of: _Bodies, rows: Any) -> list[Any]:
        plain = read(of, rows)
        known = {one: convert(one) for one in set(plain)}
        return [known[one] for one in plain]

    return convert_all


def _nullable(read: Read) -> Read:
    def read_some(of: _Bodies, rows: Any) -> list[Any]:
        branches = of.longs(rows)
        if of.np.any((branches != 0) & (branches != 1)):
            raise ValueError("no such branch of a union")
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
        raise LookupError("a record of which nothing is wanted")

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
