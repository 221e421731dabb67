"""Defaults of proto2's fields: the text of a .proto as a descriptor has it."""

from __future__ import annotations

import math
import struct

from cutwater.core.events.protobuf.proto_tokens import ProtoTokens, integer_value
from cutwater.core.util.suggestions import value_text

INTEGERS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), (-(1 << 31), (1 << 31) - 1)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), (-(1 << 63), (1 << 63) - 1)),
    **dict.fromkeys(("uint32", "fixed32"), (0, (1 << 32) - 1)),
    **dict.fromkeys(("uint64", "fixed64"), (0, (1 << 64) - 1)),
}
"""Least and greatest value."""


def default_of(kind: str, tokens: ProtoTokens) -> str:
    """Read a default of a type, and return it as a descriptor has it."""
    if kind in INTEGERS:
        return str(tokens.integer("the default", *INTEGERS[kind]))
    if kind in ("float", "double"):
        return _float(kind == "float", tokens)
    if kind == "bytes":
        return "".join(f"\\{one:03o}" for one in tokens.text("the default in quotes"))
    line = tokens.line
    if kind == "string":
        try:
            return tokens.text("the default in quotes").decode()
        except UnicodeDecodeError:
            raise tokens.error("the default is no text of UTF-8", line) from None
    found = tokens.word("a name as the default")
    if kind == "bool" and found not in ("true", "false"):
        raise tokens.error(f"expected true or false, found {value_text(found)}", line)
    return found


def _float(is_float: bool, tokens: ProtoTokens) -> str:
    line, sign = tokens.line, "-" if tokens.take("-") else ""
    for one in ("inf", "nan"):
        if tokens.take(one):
            return sign + one
    text = tokens.number("the default, a number")
    try:
        number = integer_value(text)
        value = float(text if number is None else number)
        if is_float:  # as protoc writes the nearest number of four bytes
            (value,) = struct.unpack("<f", struct.pack("<f", value))
            short = f"{value:.6g}"
            same = struct.pack("<f", float(short)) == struct.pack("<f", value)
            return sign + (short if same else f"{value:.9g}")
    except (OverflowError, ValueError):  # ValueError: a number in hexadecimal with too many digits
        value = math.inf
    if math.isinf(value):
        raise tokens.error(f"the default {value_text(text)} is too great", line)
    return sign + repr(value)
