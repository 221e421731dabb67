"""Spark's offset log of a query with any sources, as a source cut."""

from __future__ import annotations

import pytest

from cutwater.core.cuts import Cut, TopicPartition
from cutwater.core.errors import ProtocolError
from cutwater_spark.checkpoint import parse_plan

HEAD = 'v1\n{"batchWatermarkMs":7}\n'


def test_the_cut_is_over_all_kafka_sources() -> None:
    """Other sources are no part of it; of a partition that two sources read, the smaller offset counts."""
    lines = ['{"a":{"0":5,"1":9}}', '{"logOffset":3}', "-", "17", '{"a":{"0":6,"1":4},"b":{"0":2}}']
    plan = parse_plan(HEAD + "\n".join(lines) + "\n", "offsets/1")
    places = {("a", 0): 5, ("a", 1): 4, ("b", 0): 2}
    assert plan.watermark_ms == 7
    assert plan.source_cut == Cut.of({TopicPartition(*place): offset for place, offset in places.items()})


@pytest.mark.parametrize("lines", ["", '{"logOffset":3}', "{", '{"a":{"0":null}}'])
def test_an_offset_log_without_a_kafka_source_is_refused(lines: str) -> None:
    """Nothing, another source alone, half a line or no number: the file is named."""
    with pytest.raises(ProtocolError, match="offsets/1"):
        parse_plan(HEAD + lines, "offsets/1")
