"""Files as a search for secrets must see them: what is packed in any way, unpacked."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress

DEPTH_MAX = 4
_GZIP, _ZIP = b"\x1f\x8b\x08", b"PK\x03\x04"


def texts(data: bytes, depth: int = 0) -> Iterator[str]:
    """The bytes themselves, then what each archive and each compressed piece in them holds, at any depth.

    Spark packs RocksDB's files into zip archives; a batch packed by gzip stands in the middle of a log's segment.
    LZ4 and Snappy are not unpacked: of short texts they leave each first appearance in clear.
    """
    yield data.decode("latin-1")
    if depth < DEPTH_MAX:
        for piece in _pieces(data):
            yield from texts(piece, depth + 1)


def _pieces(data: bytes) -> Iterator[bytes]:
    if data.startswith(_ZIP):
        with suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield from (archive.read(name) for name in archive.namelist())
        return
    for at in _places(data, _GZIP):
        with suppress(zlib.error):
            yield zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(data[at:])


def _places(data: bytes, mark: bytes) -> Iterator[int]:
    at = data.find(mark)
    while at >= 0:
        yield at
        at = data.find(mark, at + 1)
