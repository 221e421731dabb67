"""Records of the release before, by the schemas in its wheel: this version reads each of them."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from zipfile import ZipFile

import pytest
from hypothesis import given

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec, protocol_codec
from cutwater.adapters.avro.protocol_records import Record
from support.protocol_samples import RECORDS
from support.releases import releases


def codecs_of_release() -> dict[str, Codec]:
    """By the names of the schemas."""
    with ZipFile(releases()[-1].wheel) as wheel:
        paths = [PurePosixPath(one) for one in wheel.namelist() if "/_schemas/" in one and one.endswith(".avsc")]
        return {one.stem: Codec(json.loads(wheel.read(str(one)))) for one in paths}


BEFORE = codecs_of_release()


@given(RECORDS)
def test_a_record_of_the_release_before_is_read(record: Record) -> None:
    """Written with the release's schema it gives the same values, as far as it has them."""
    name = type(record).__name__.lower()
    if name not in BEFORE:
        return  # a record that only this version writes
    now, before = protocol_codec(name), BEFORE[name]
    fields = {one["name"] for one in before.schema["fields"]}
    plain = now.decode(protocol_records.encode(record))
    written = before.encode({field: value for field, value in plain.items() if field in fields})
    kept, read = before.decode(written), now.decode(protocol_records.encode(protocol_records.decode(written)))
    assert {field: read[field] for field in kept} == kept


@pytest.mark.parametrize("name", ["dead_letter", "late", "audit", "recovery"])
def test_the_lists_of_the_release_before_are_read(name: str) -> None:
    """Their schemas are the same; a change needs the older file beside the new one."""
    assert BEFORE[name].header == protocol_codec(name).header
