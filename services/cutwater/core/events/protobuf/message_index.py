"""The framing of Protobuf events: behind the number of a schema the index of a message within it.

A registry's schema is a .proto file, which may have several messages. The index says which one an event is. It is
a list, for messages inside of others, of numbers in zigzag; [0], the first message of the file, is one zero byte.
"""

from __future__ import annotations

import base64
import re

from cutwater.core.events.formats import CONFLUENT_HEADER_BYTES, WriterSchema
from cutwater.core.events.protobuf.descriptors import file_messages
from cutwater.core.events.protobuf.wire import WireError
from cutwater.core.util.varints import zigzag

FIRST, FIRST_IN_FULL = b"\0", b"\x02\0"
"""The index of the first message, as it is written, and as it may also be."""
_INDEX = re.compile(rb"\x02[\x80-\xff]{0,4}[\x00-\x7f]")
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*+=*+\s*+")
_TOKEN = re.compile(
    r"//[^\n]*|/\*(?:[^*]|\*(?!/))*+\*/|\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'|(?P<word>[\w.]+)|(?P<mark>[{};])"
)


def is_descriptor(text: str) -> bool:
    """Return whether a registry's schema is a file descriptor in base64, as some serializers register it."""
    return _BASE64.fullmatch(text) is not None


def schema_messages(text: str) -> tuple[str, ...]:
    """Return the full names of the messages of a registry's schema, without those inside of others.

    A registry gives the text of a .proto, or a descriptor. Raises WireError for one that is damaged.
    """
    if is_descriptor(text):
        try:
            return file_messages(base64.b64decode(text))
        except ValueError:  # binascii.Error is one, and letters beyond ASCII raise another
            raise WireError(text[:20]) from None
    package, depth, found = "", 0, []
    statement: list[str] = []
    for token in _TOKEN.finditer(text):
        mark, word = token["mark"], token["word"]
        if depth == 0 and word:
            statement.append(word)
        if not mark:
            continue
        if depth == 0 and mark == ";" and statement[:1] == ["package"]:
            package = "".join(statement[1:])
        if depth == 0 and mark == "{" and statement[:1] == ["message"]:
            found.append(statement[-1])
        depth = max(0, depth + {"{": 1, "}": -1, ";": 0}[mark])
        if depth == 0:
            statement = []
    return tuple(f"{package}.{one}" if package else one for one in found)


def message_index(index: int) -> bytes:
    """Encode the index of a message that is not inside of another."""
    return zigzag(1) + zigzag(index) if index else FIRST


def index_at_start(value: bytes) -> bytes:
    """Return the index of a record's message, which is not inside of another; empty if there is none."""
    body = value[CONFLUENT_HEADER_BYTES:]
    if body.startswith((FIRST, FIRST_IN_FULL)):
        return FIRST
    found = _INDEX.match(body)
    return found[0] if found else b""


def headers_of(known: WriterSchema) -> list[bytes]:
    """Return what the values of a schema's events may begin with."""
    number, index = known.header[:CONFLUENT_HEADER_BYTES], known.header[CONFLUENT_HEADER_BYTES:]
    return [known.header, *([number + FIRST_IN_FULL] if index == FIRST else [])]
