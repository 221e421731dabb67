"""`committed(source='changelog')` and generations: it reads the promoted one, and a replaced one to its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.client import CommittedMilestone, committed
from cutwater.core.errors import FencedError
from cutwater.core.protocol.generation import Token
from support.views.changelogs import Writing, make_job
from support.views.generation_player import Next
from support.views.output_rows import as_rows, sold
from support.views.publishing import create, pieces

IDLE_S = 3.0


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    made = Writing(broker.cluster, make_job(tmp_path)[0])
    create(broker.cluster, made.job)
    yield made
    made.close()


def read(writing: Writing, after: Token | None = None) -> Iterator[CommittedMilestone]:
    return committed(writing.job, writing.cluster, source="changelog", after=after, idle_s=IDLE_S)


def test_without_a_token_the_promoted_generation_is_read(writing: Writing) -> None:
    """The first generation's changelog was read, which ends at the promotion."""
    writing.epoch(sold(1, 5))
    after = Next(writing, start=1)
    after.promoted(sold(2, 7))
    (found,) = read(writing)
    assert found.token.generation == after.generation
    assert pieces(found) == as_rows(sold(1, 5) + sold(2, 7))
    after.epoch(sold(3, 1))
    (more,) = read(writing, found.token)
    assert pieces(more) == as_rows(sold(3, 1))


def test_behind_a_token_of_a_replaced_generation_its_last_milestones_come_first(writing: Writing) -> None:
    """They were dropped if the promotion was read with them."""
    for hour in (1, 2, 3):
        writing.epoch(sold(hour, 5))
    after = Next(writing, start=3)
    after.promoted(sold(4, 7))
    milestones = read(writing, Token(writing.generation, 1))
    assert [next(milestones).token.sequence for _ in "ab"] == [2, 3]
    with pytest.raises(FencedError, match="start again without a token"):
        next(milestones)


def test_the_settings_may_name_another_generation(writing: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    writing.epoch(sold(1, 5))
    Next(writing, start=1).promoted(sold(2, 7))
    monkeypatch.setenv("CUTWATER_GENERATION", str(writing.generation))
    with pytest.raises(FencedError, match="promoted at sequence 2"):
        list(read(writing))
