"""How events are read, kept as text: nothing of it is lost, and a person is told what changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import ProtocolError
from cutwater.core.events.formats import FORMATS, WriterSchema, confluent_header
from cutwater.core.job.event_decoding import Decoding

JOB = load_job(Path(__file__).parents[4] / "deploy" / "jobs" / "flights.yaml")
ONE = Decoding.of(JOB, known_schemas(JOB, None))

names = st.text(min_size=1, max_size=20)
schemas = st.builds(lambda name: {"type": "record", "name": name, "fields": []}, names)
writers = st.builds(WriterSchema, st.integers(0, 2**32 - 1).map(confluent_header), schemas, names)
decodings = st.builds(
    Decoding,
    st.sampled_from(FORMATS),
    schemas,
    st.lists(writers, max_size=3).map(tuple),
    st.integers(1, 2**50),
    st.integers(1, 2**30),
)


@given(decodings)
def test_what_is_kept_is_what_was_meant(one: Decoding) -> None:
    """From text comes the same decoding, and a job takes all of it."""
    assert Decoding.parse(one.text) == one
    assert Decoding.of(one.applied(JOB), one.known) == one


def test_a_real_job_s_decoding_stays_itself_as_text() -> None:
    """An unchanged job file is no change: otherwise every start would be told of one."""
    assert Decoding.parse(ONE.text) == ONE
    assert ONE.applied(JOB) == JOB
    assert ONE.changes(ONE) == []


def test_each_change_is_named_as_the_job_file_names_it() -> None:
    """Format, limits, schema and the registry's schemas: each difference is said, with what was and what is."""
    later = WriterSchema(
        confluent_header(7), {"type": "record", "name": "E", "fields": []}, "number 7 (version 2)"
    )
    new = replace(
        ONE, kind="json", max_ahead_ms=1, max_event_bytes=2, event_schema=later.schema, known=(later, *ONE.known)
    )
    assert ONE.changes(new) == [
        "source.format was avro and is json",
        "max_ahead was 86400000 ms and is 1 ms",
        "max_event_bytes was 524288 and is 2",
        "source.schema has changed",
        f"the schemas of events were {ONE.known[0].name} and are number 7 (version 2), {ONE.known[0].name}",
    ]


def test_a_job_without_known_schemas_has_none() -> None:
    """JSON events have no schema of their own: said as a word, not as a gap in the sentence."""
    name = ONE.known[0].name
    assert replace(ONE, known=()).changes(ONE) == [f"the schemas of events were none and are {name}"]
    assert ONE.changes(replace(ONE, known=())) == [f"the schemas of events were {name} and are none"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"known": [{"header": "x"}]}', '{"known": []}'])
def test_damaged_text_is_refused(text: str) -> None:
    """Bytes that are no decoding end the driver by name, rather than decode events in some other way."""
    with pytest.raises(ProtocolError, match="not a decoding"):
        Decoding.parse(text)
