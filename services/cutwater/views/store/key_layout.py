"""Layout of a view's rows in RocksDB: byte keys that sort in the order of reads.

    window row   01 · segment (8 bytes) · key (escaped, ended) · window start (8) · window end (8)
    metadata     00 · name

A *segment* is a slice of time by window end. The write batch that moves the position drops whole segments below
the horizon by one range deletion. Within a segment the rows of one key are adjacent, by window start. Numbers are
big endian with the sign bit flipped. A second, seldom written column family would keep every log file.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from cutwater.core.job.job import Job

SEGMENTS = 8
"""The approximate number of segments of a running job's windows."""

_WINDOWS = b"\x01"
_SIGN = 1 << 63
_LONG = struct.Struct(">Q")
_TIMES = struct.Struct(">QQ")
SEGMENT_BYTES = len(_WINDOWS) + _LONG.size
"""Bytes before the key in a storage key."""
END_BYTES = _LONG.size
"""Bytes of the window's end, the last ones of a storage key."""
_MIN, _MAX = -_SIGN, _SIGN - 1
WINDOWS_START = _WINDOWS
WINDOWS_END = b"\x02"
"""Above every window row."""


class Window(NamedTuple):
    """The key of one row: group key and window, times in ms since the epoch."""

    key: str
    start_ms: int
    end_ms: int


def meta(name: str) -> bytes:
    return b"\x00" + name.encode()


def segment_ms(job: Job) -> int:
    """Return the length of a segment: an eighth of the time that live windows span, in whole slides."""
    span = job.retention_ms + job.lateness_ms + job.window.size_ms
    slide = job.window.slide_ms
    return -(-span // (SEGMENTS * slide)) * slide


def segment_of(end_ms: int, length_ms: int) -> int:
    """Return the segment of a window's end: segment n holds the ends in (n·length, (n+1)·length]."""
    return (end_ms - 1) // length_ms


def first_live(horizon_ms: int, length_ms: int) -> int:
    """Return the first segment with a window above the horizon; all before it can be dropped."""
    return segment_of(horizon_ms + 1, length_ms)


def segment_prefix(segment: int) -> bytes:
    """Return the start of a segment, which is also the end of the one before."""
    return _WINDOWS + _LONG.pack(_clamp(segment) + _SIGN)


def key_prefix(segment: int, key: str) -> bytes:
    """Return the start of a key's rows within a segment."""
    return _key_start(segment, key) + b"\x00\x00"


def prefix_range(segment: int, prefix: str) -> tuple[bytes, bytes]:
    """Return the start and the end of the rows of keys with this prefix within a segment."""
    first = _key_start(segment, prefix)
    return first, first + b"\xff"  # what follows is a byte of UTF-8, which is below, or a zero byte


def _key_start(segment: int, text: str) -> bytes:
    # A zero byte in a key is escaped, so that the two bytes that end the key sort below all content.
    return segment_prefix(segment) + text.encode().replace(b"\x00", b"\x00\xff")


def time_suffix(start_ms: int) -> bytes:
    """Return what to append to a key prefix to seek the first window that starts at or after `start_ms`."""
    return _LONG.pack(_clamp(start_ms) + _SIGN)


def storage_key(window: Window, length_ms: int) -> bytes:
    """Return the full storage key. Raises OverflowError for times beyond 64 bits."""
    if not (_MIN <= window.start_ms <= _MAX and _MIN <= window.end_ms <= _MAX):
        raise OverflowError(f"window times {window.start_ms}, {window.end_ms} do not fit 64 bits")
    times = _TIMES.pack(window.start_ms + _SIGN, window.end_ms + _SIGN)
    return key_prefix(segment_of(window.end_ms, length_ms), window.key) + times


def storage_key_in(segment: int, key: bytes, start_ms: int, end_ms: int) -> bytes:
    """Return a storage key. `key`: as `key_of` returns it."""
    return segment_prefix(segment) + key + time_suffix(start_ms) + end_suffix(end_ms)


def parse_segment(storage: bytes) -> int:
    number: int = _LONG.unpack_from(storage, len(_WINDOWS))[0]
    return number - _SIGN


def key_of(storage: bytes) -> bytes:
    """Return the key part of a storage key, still escaped; equal exactly if the keys are."""
    return storage[SEGMENT_BYTES : -_TIMES.size]


def key_bytes_of(storage: bytes) -> bytes:
    """Return the key of a storage key, in UTF-8."""
    return storage[SEGMENT_BYTES : -_TIMES.size - 2].replace(b"\x00\xff", b"\x00")


def time_of(suffix: bytes) -> int:
    """Return the time at the start of what follows a key, in ms."""
    number: int = _LONG.unpack_from(suffix)[0]
    return number - _SIGN


def end_of(storage: bytes) -> int:
    """Return the window's end in a storage key, in ms."""
    number: int = _LONG.unpack_from(storage, len(storage) - _LONG.size)[0]
    return number - _SIGN


def end_suffix(end_ms: int) -> bytes:
    """Return the last bytes of the storage keys of windows with this end; they sort as the ends do."""
    return _LONG.pack(_clamp(end_ms) + _SIGN)


def parse(storage: bytes) -> Window:
    """Invert `storage_key`."""
    start, end = _TIMES.unpack_from(storage, len(storage) - _TIMES.size)
    return Window(key_bytes_of(storage).decode(), start - _SIGN, end - _SIGN)


def _clamp(number: int) -> int:
    return number if _MIN <= number <= _MAX else min(max(number, _MIN), _MAX)
