"""Whole numbers in as many bytes as they need, lowest seven bits first: Protobuf and Avro write them so."""

from __future__ import annotations

_BITS = 2**64 - 1


def varint(number: int) -> bytes:
    """Encode a number of 64 bits; a negative one as its two's complement."""
    number &= _BITS
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def zigzag(number: int) -> bytes:
    """Encode an Avro long, or a `sint` of Protobuf: small negative numbers are short too."""
    return varint(number << 1 ^ number >> 63)
