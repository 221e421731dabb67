"""What a row keeps fits into a record: of the changelog in Avro, and of the output in JSON at its worst."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.event_schema import field_types
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.events.rejection import MAX_KEY_BYTES, NO_ROOM
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.job.measures import THETA, THETA_BYTES_MAX
from cutwater.core.job.row_room import ROW_BYTES_MAX, require_room, text_bytes_max, too_long
from cutwater.core.job.usable_events import find_flaw
from cutwater.core.protocol.topics import LISTED_BYTES_MAX
from cutwater.publisher.encoding import JsonEncoder
from support.events import wide

AT = 1_700_000_000_000
SKETCH_BYTES = 4_136
"""Of the largest that `distinct` keeps."""


def job(folder: Path, texts: int, sketches: int = 0, max_event_bytes: int = LISTED_BYTES_MAX) -> Job:
    wide.job(folder, wide.SCHEMA)
    kinds = ("last", "first", "min", "max")
    measures = [f"{'t' * 60}{at:03}: {{measure: {kinds[at % 4]}, field: label}}" for at in range(texts)]
    measures += [f"s{at}: {{measure: distinct, field: label}}" for at in range(sketches)]
    (folder / "job.yaml").write_text(wide.job_text("wide", measures=", ".join(measures)), encoding="utf-8")
    return replace(load_job(folder / "job.yaml"), max_event_bytes=max_event_bytes)


@pytest.mark.parametrize(("texts", "sketches"), [(1, 0), (2, 3), (7, 900), (200, 0), (0, 1_900)])
def test_the_largest_row_is_a_record_of_changelog_and_output(tmp_path: Path, texts: int, sketches: int) -> None:
    """Control characters, of which JSON makes six bytes each, in key and texts; sketches at their largest."""
    made = job(tmp_path, texts, sketches)
    longest = "\x01" * text_bytes_max(made.measures)
    key = Codec(WINDOW_KEY_SCHEMA).encode(
        {"key": "\x01" * MAX_KEY_BYTES, "window_start": AT, "window_end": AT + 60_000}
    )
    place = {"event_time": AT * 1_000, "origin": "o" * 60, "partition": 2**31 - 1, "offset": 2**63 - 1}

    def state(sketch: bytes | None) -> bytes:
        row: dict[str, Any] = {}
        for one in made.measures:
            row[one.name] = longest if one.kind in ("min", "max") else {**place, "value": longest}
            if one.kind == "distinct":
                row[one.name] = sketch
        return Codec(made.state_schema).encode(row)

    spare = ROW_BYTES_MAX - 20_000  # for Kafka's own, and headers
    assert len(key) + len(state(b"\x01" * SKETCH_BYTES)) < spare
    encoder = JsonEncoder(made)
    encoder.begin(2**63 - 1, "correction")
    written = len(encoder.value(key, state(None)))
    assert written < spare
    assert texts == 0 or sketches or written > 0.8 * ROW_BYTES_MAX, "the bound is no narrower than it must be"


def test_more_measures_than_a_row_has_room_for_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="2100 measures have no room in a row of 16,777,216 bytes"):
        job(tmp_path, 0, 2_100)


def test_theta_sketches_have_room_of_their_own(tmp_path: Path) -> None:
    """The largest fit into a record beside the longest text; other jobs keep their bound."""
    plain = job(tmp_path, 1, 30)
    thetas = replace(plain, measures=tuple(replace(one, sketch=one.sketch and THETA) for one in plain.measures))
    assert text_bytes_max(plain.measures) == job_room(31)
    longest = text_bytes_max(thetas.measures)
    assert 0 < longest < text_bytes_max(plain.measures)
    assert longest * 6 + 30 * THETA_BYTES_MAX < ROW_BYTES_MAX
    with pytest.raises(UsageError, match="have no room in a row"):
        require_room([one for one in thetas.measures if one.sketch] * 17)


def job_room(measures: int) -> int:
    """The bytes of one text beside so many measures, before there were theta sketches."""
    return (16 * 1024 * 1024 - 64 * 1024 - 8 * 1024 * measures) // 6


def test_a_longer_text_is_no_event(tmp_path: Path) -> None:
    """By its bytes in UTF-8, with the measure's name. Where no event can hold one, nothing is asked."""
    made = job(tmp_path, 2)
    most = text_bytes_max(made.measures)
    types = field_types({**made.event_schema, "fields": made.event_schema["fields"][:2]})
    event = {"key": "k", "at": AT * 1_000, "label": "ü" * (most // 2)}
    assert find_flaw(made, types, event, AT) is None
    assert find_flaw(made, types, {**event, "label": None}, AT) is None
    flaw = find_flaw(made, types, {**event, "label": "ü" * (most // 2 + 1)}, AT)
    assert flaw is not None
    assert (flaw.reason, flaw.field) == (NO_ROOM, "label")
    assert f"has more than {most} bytes, which is what measure 't" in flaw.rule
    assert too_long(job(tmp_path, 2, max_event_bytes=most)) == {}
    assert too_long(load_job(tmp_path / "job.yaml")) == {}, "by default no event is that long"
