"""Protobuf's wire format: the entries of a message, and how they are written.

An entry is a tag and a value; the tag names the field's number and how the value is written. The driver reads the
same in the JVM (`WireEntries.java`).
"""

from __future__ import annotations

from typing import NamedTuple

from cutwater.core.util.varints import varint

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Kinds of values, the lowest three bits of a tag. Groups, 3 and 4, are not read."""
ENTRIES_MAX = 20_000
"""Entries of one message, and numbers of one packed list, that are read."""
TAG_BYTES_MAX, VARINT_BYTES_MAX = 5, 10
_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}
_TAGS = 8, 1 << 32
_BITS = (1 << 64) - 1


class WireError(ValueError):
    """The bytes are no message."""


class WireEntry(NamedTuple):
    number: int
    kind: int
    value: int
    """An unsigned number of 64 bits if the kind is VARINT."""
    part: bytes
    """Of the other kinds."""


def entries_of(message: bytes) -> list[WireEntry]:
    """Return the entries in their order. Raises WireError for what is no message, or has more than ENTRIES_MAX."""
    found: list[WireEntry] = []
    at = 0
    while at < len(message):
        tag, at = read_varint(message, at, TAG_BYTES_MAX)
        if not _TAGS[0] <= tag < _TAGS[1] or len(found) == ENTRIES_MAX:
            raise WireError(message[:20])
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = read_varint(message, at)
            found.append(WireEntry(number, kind, value, b""))
        else:
            part, at = _part(message, at, kind)
            found.append(WireEntry(number, kind, 0, part))
    return found


def _part(message: bytes, at: int, kind: int) -> tuple[bytes, int]:
    size = _FIXED_BYTES.get(kind, -1)
    if kind == LENGTH:
        size, at = read_varint(message, at)
    if not 0 <= size <= len(message) - at:
        raise WireError(message[:20])
    return message[at : at + size], at + size


def read_varint(data: bytes, at: int, most: int = VARINT_BYTES_MAX) -> tuple[int, int]:
    """Return an unsigned number of 64 bits, and where the next begins."""
    number = 0
    for count, byte in enumerate(data[at : at + most]):
        number |= (byte & 127) << 7 * count
        if byte < 128:
            return number & _BITS, at + count + 1
    raise WireError(data[at : at + most])


def varints_of(packed: bytes) -> list[int]:
    """Return the numbers of a packed list. Raises WireError as `entries_of`."""
    found: list[int] = []
    at = 0
    while at < len(packed):
        number, at = read_varint(packed, at)
        if len(found) == ENTRIES_MAX:
            raise WireError(packed[:20])
        found.append(number)
    return found


def entry(number: int, kind: int, value: bytes) -> bytes:
    """Encode an entry. `value`: as it is written, without its length."""
    size = varint(len(value)) if kind == LENGTH else b""
    return varint(number << 3 | kind) + size + value
