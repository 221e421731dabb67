"""Messages of `messages` as serializers rarely write them, and values that are no event."""

from __future__ import annotations

from cutwater.core.events.formats import NO_SUCH_SCHEMA, confluent_header
from cutwater.core.events.protobuf.fields import NO_LIST, NO_MESSAGE, NO_SYMBOL, NO_TIME, OTHER_MESSAGE, OTHER_TYPE
from cutwater.core.events.protobuf.message_index import message_index
from cutwater.core.events.protobuf.wire import FIXED64, LENGTH, VARINT, entry, varint
from cutwater.core.events.rejection import ELEMENTS_MAX, TEXT_RULE, UNDECODABLE, UNKNOWN_SCHEMA, Flaw

HEAD = confluent_header(3) + message_index(1)
LIST = NO_LIST.format(ELEMENTS_MAX)

_AT, _NUMBER = entry(2, LENGTH, b""), confluent_header(3)
_ITEM = entry(1, LENGTH, b"\xff")
FLAWS = {
    confluent_header(4) + b"\0": Flaw(UNKNOWN_SCHEMA, NO_SUCH_SCHEMA),
    _NUMBER: Flaw(UNDECODABLE, OTHER_MESSAGE),
    _NUMBER + b"\0" + _AT: Flaw(UNDECODABLE, OTHER_MESSAGE),
    _NUMBER + message_index(2) + _AT: Flaw(UNDECODABLE, OTHER_MESSAGE),
    HEAD + b"\x0b": Flaw(UNDECODABLE, NO_MESSAGE),
    HEAD + b"\0\0": Flaw(UNDECODABLE, NO_MESSAGE),
    HEAD + _AT * 20_001: Flaw(UNDECODABLE, NO_MESSAGE),
    HEAD + entry(1, VARINT, b"\1"): Flaw(UNDECODABLE, OTHER_TYPE.format("string"), "key"),
    HEAD + entry(1, LENGTH, b"\xff"): Flaw(UNDECODABLE, TEXT_RULE, "key"),
    HEAD + entry(2, LENGTH, entry(2, VARINT, varint(10**9))): Flaw(UNDECODABLE, NO_TIME, "at"),
    HEAD + entry(2, LENGTH, entry(1, VARINT, varint(-1 << 60))): Flaw(UNDECODABLE, NO_TIME, "at"),
    HEAD + entry(2, LENGTH, entry(1, FIXED64, bytes(8))): Flaw(
        UNDECODABLE, OTHER_TYPE.format("int64"), "at.seconds"
    ),
    HEAD + entry(25, VARINT, varint(77)): Flaw(UNDECODABLE, NO_SYMBOL, "color"),
    HEAD + entry(225, LENGTH, b"\0\7"): Flaw(UNDECODABLE, NO_SYMBOL, "color_list[1]"),
    HEAD + entry(210, LENGTH, b"\x80"): Flaw(UNDECODABLE, LIST, "int32_list"),
    HEAD + entry(216, LENGTH, bytes(7)): Flaw(UNDECODABLE, LIST, "fixed32_list"),
    HEAD + entry(210, LENGTH, bytes(10_001)): Flaw(UNDECODABLE, LIST, "int32_list"),
    HEAD + entry(51, LENGTH, b"") + entry(51, LENGTH, _ITEM): Flaw(UNDECODABLE, TEXT_RULE, "items[1].sku"),
    HEAD + entry(60, LENGTH, _ITEM): Flaw(UNDECODABLE, TEXT_RULE, "counts.key"),
    HEAD + entry(60, LENGTH, b"") * 10_001: Flaw(UNDECODABLE, LIST, "counts"),
    HEAD + entry(60, LENGTH, b"\1"): Flaw(UNDECODABLE, NO_MESSAGE, "counts"),
    HEAD + entry(61, LENGTH, entry(1, VARINT, b"\1") + entry(2, LENGTH, _ITEM)): Flaw(
        UNDECODABLE, TEXT_RULE, "named['-1'].sku"
    ),
}
"""The flaw of each value, with the schema of HEAD."""

_TWICE = entry(10, VARINT, b"\1") + entry(10, VARINT, b"\2") + entry(999, LENGTH, b"from a later version")
_JOINED = entry(50, LENGTH, entry(1, LENGTH, b"a")) + entry(50, LENGTH, entry(2, VARINT, b"\5"))
_CHOICE = entry(40, VARINT, b"\1") + entry(41, LENGTH, b"x")
_MIXED = entry(210, VARINT, b"\1") + entry(210, LENGTH, b"\2\3")
PAIRS = entry(60, LENGTH, entry(1, LENGTH, b"k") + entry(2, VARINT, b"\1")) + entry(
    60, LENGTH, entry(2, VARINT, b"\2") + entry(1, LENGTH, b"k")
)
_LONG_TAG = b"\xd0\x80\x00\x81\x80\x00"  # 10, a varint, both in more bytes than they need
RARE = (_TWICE, _JOINED, _CHOICE, _MIXED, PAIRS, _LONG_TAG, b"", entry(61, LENGTH, b""))
