"""The search for secrets itself: it finds one however the file is packed."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable

import pytest
from archives import texts

SECRET = "pass-word-that-must-not-show"


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("000007.sst", data)
    return file.getvalue()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zip": zipped,
    "zip in zip": lambda data: zipped(zipped(data)),
    "batch in a segment": lambda data: b"\0" * 61 + gzip.compress(data) + b"\0" * 61 + gzip.compress(b"other"),
}


@pytest.mark.parametrize("packed", PACKED)
def test_the_search_sees_what_is_packed(packed: str) -> None:
    """A password in an archive of Spark's is one in clear to whoever unpacks it."""
    data = PACKED[packed](b"sasl.jaas.config=" + SECRET.encode() * 3)
    assert any(SECRET in text for text in texts(data))
    assert (SECRET in data.decode("latin-1")) is (packed == "plain")
