"""The way out of a changelog with a row that no reader can decode, as a version of before could write one."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from test_guards_of_the_seed import outcome

from cutwater.adapters.object_store import Objects
from cutwater.client import committed
from cutwater.core.protocol.records import Milestone
from support.views.changelogs import Following, Sold, Writing, encoded, make_job, now_ms
from support.views.publishing import pieces
from support.views.reader_guards import RIGHT
from support.views.reader_scenes import SECOND, Played, whole

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def poison(writing: Writing) -> tuple[int, Milestone]:
    """An epoch with a row whose key is no UTF-8, and that row's offset in partition 0."""
    written = writing.rows(SECOND, epoch=1)
    offset = writing.ends()[0]
    key, value = encoded(writing.job, Sold("xxxx", 2, 1))
    writing.record(0, key.replace(b"xxxx", b"\xff\xfexx"), value, ("writer", f"{writing.generation}/1/1".encode()))
    return offset, writing.milestone(SECOND, written)


def test_a_generation_from_in_front_of_it_is_right(
    spark: SparkSession, broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers stop there; a seed at the milestone before does not meet it; behind the rollback all go on."""
    writing = Writing(broker.cluster, make_job(tmp_path)[0])
    first = whole(writing)
    poisoned, last = poison(writing)

    view = Following(broker.cluster, writing.job, tmp_path / "view", now_ms)
    said = view.wait_stopped()
    assert f"{writing.topic}/0@{poisoned}" in said, said
    assert view.view.milestone is None or view.view.milestone.sequence == first.sequence
    assert view.seen.divergences
    view.end()

    at_last = Played(writing, Objects(str(tmp_path)), first, last)
    assert outcome(spark, at_last, tmp_path / "last", nullcontext) != RIGHT
    at_first = Played(writing, Objects(str(tmp_path)), first, first)
    assert outcome(spark, at_first, tmp_path / "first", nullcontext) == RIGHT

    again = writing.promote(3, SECOND, rewinds_to=first.sequence)
    monkeypatch.setenv("CUTWATER_GENERATION", str(writing.generation))
    told: dict[tuple[str, int], int] = {}
    for milestone in committed(writing.job, broker.cluster, source="changelog", idle_s=2.0):
        told |= pieces(milestone)
    assert told == writing.by_sequence[again.sequence]
    writing.close()
