"""Reading up to a cut and looking above it: what is said of the log's end must be true now, not once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.topics import MIN_COMPACTION_LAG_MS
from cutwater.core.state.backlog import Entry, Jump
from cutwater.views.changelog.proof import Overtaken
from cutwater.views.changelog.range_reader import Ranges
from cutwater.views.follow.applier import Applier
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, Sold, Writing, make_job, now_ms


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    job, _ = make_job(tmp_path / "job", partitions=1)
    one = Writing(broker.cluster, job)
    yield one
    one.close()


@pytest.fixture
def ranges(writing: Writing) -> Iterator[Ranges]:
    one = Ranges(writing.cluster, writing.topic)
    yield one
    one.close()


def test_what_follows_a_cut_is_seen_by_a_reader_that_stood_at_the_end(writing: Writing, ranges: Ranges) -> None:
    """A client tells an end once: a reader that went by it took an old milestone for one that nothing follows."""
    first = writing.epoch([Sold("a", 1, 1)])
    whole = ranges.between(Cut(), first, look_above=True)
    assert len(list(whole)) == 1
    assert whole.first_above_ms == {0: None}
    writing.epoch([Sold("a", 1, 2)])
    above = ranges.between(first.changelog_cut, first, look_above=True)
    assert list(above) == []
    assert above.first_above_ms[0] is not None


def test_compaction_that_overtakes_the_second_look_is_no_divergence(
    writing: Writing, ranges: Ranges, tmp_path: Path
) -> None:
    """Rows that a task wrote twice are counted by a second reading: it asks again whether all can be there."""
    rows = [Sold(f"s{number}", 1, 1) for number in range(20)]
    writing.rows(rows, epoch=0)
    milestone = writing.epoch(rows)
    writing.epoch(rows)
    clock = iter([now_ms(), now_ms()])  # young when the first reading begins and ends; much later from then on
    store = Store(tmp_path / "store", writing.job, GENERATION)
    applier = Applier(
        store,
        writing.job,
        ranges,
        lambda: next(clock, now_ms() + 2 * MIN_COMPACTION_LAG_MS),
        chunk_rows=5,
    )
    with pytest.raises(Overtaken):
        applier.apply(Jump(Entry(milestone, b"", 0)))
    store.close()


def test_a_milestone_that_gets_old_while_it_is_read_is_whole_at_the_second_look(
    writing: Writing, ranges: Ranges, tmp_path: Path
) -> None:
    """A reader that nothing followed stood still until the next milestone, which an idle job never writes."""
    milestone = writing.epoch([Sold("a", 1, 1)])
    clock = iter([now_ms()])  # young when the reading begins, too old when it ends
    store = Store(tmp_path / "store", writing.job, GENERATION)
    applier = Applier(
        store, writing.job, ranges, lambda: next(clock, now_ms() + 2 * MIN_COMPACTION_LAG_MS), chunk_rows=5
    )
    plan = Jump(Entry(milestone, b"", 0))
    with pytest.raises(Overtaken) as overtaken:
        applier.apply(plan)
    assert not overtaken.value.looked
    applier.apply(plan)
    assert store.applied is not None
    assert store.applied.milestone == milestone
    store.close()
