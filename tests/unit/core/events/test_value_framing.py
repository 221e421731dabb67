"""How values are framed: which records carry a registry's number, and which one."""

from __future__ import annotations

import pytest

from cutwater.core.events.formats import (
    AVRO,
    CONFLUENT,
    CONFLUENT_HEADER_BYTES,
    CONFLUENT_JSON,
    JSON,
    JSON_SCHEMA,
    EventFormat,
    confluent_header,
    confluent_number,
    confluent_numbers,
    foreign,
    is_confluent,
)

FRAMED = b"\x00\x00\x00\x01\x02body"


@pytest.mark.parametrize(
    ("value", "framed"),
    [
        (FRAMED, True),
        (FRAMED[:CONFLUENT_HEADER_BYTES], True),
        (FRAMED[: CONFLUENT_HEADER_BYTES - 1], False),
        (b"\xc3\x01" + bytes(9), False),
        (b"", False),
    ],
)
def test_a_value_is_framed_by_its_first_byte_and_its_length(value: bytes, framed: bool) -> None:
    assert is_confluent(value) is framed


def test_the_numbers_of_some_records() -> None:
    """Of tombstones, empty values and single objects there is none; the body does not matter."""
    assert confluent_number(FRAMED) == 258
    values = [
        FRAMED,
        FRAMED[:5] + b"other",
        None,
        b"",
        b"\x00\x00",
        b"\xc3\x01" + bytes(9),
        b"\x00\x00\x00\x00\x07",
    ]
    assert confluent_numbers(values) == {258, 7}
    assert confluent_numbers([]) == set()
    assert confluent_numbers([b"\x00", b"\x01\x00\x00\x00\x07", b'{"a":1}']) == set(), "framed in no way"


@pytest.mark.parametrize("number", [0, 1, 2**24 - 1, 2**24, 2**32 - 1])
def test_a_number_may_fill_its_four_bytes(number: int) -> None:
    assert confluent_numbers([confluent_header(number) + b"body"]) == {number}


@pytest.mark.parametrize("kind", [AVRO, CONFLUENT, JSON])
def test_json_behind_a_registrys_framing_is_another_format(kind: str) -> None:
    assert foreign(kind, FRAMED[:5] + b'{"a":1}') == JSON_SCHEMA
    assert foreign(CONFLUENT_JSON, FRAMED[:5] + b'{"a":1}') is None


@pytest.mark.parametrize("body", [b"\x02}", b"{\x02", b""])
def test_a_framed_body_with_one_bracket_is_no_json(body: bytes) -> None:
    """The first or the last byte of a body in Avro may be one by chance."""
    assert foreign(CONFLUENT, FRAMED[:5] + body) is None
    assert foreign(JSON, FRAMED[:5] + body) == "is written as 'confluent', and source.format is 'json'"


def test_a_format_is_shown_without_its_earlier_schemas() -> None:
    """They would fill a page."""
    assert "Earlier" not in repr(EventFormat(AVRO, ({"type": "record", "name": "Earlier"},)))
