"""What a canary reads after Spark has refused an end of its epochs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater_spark.canary import source_alignment
from cutwater_spark.canary.source_alignment import Reading, SourceAlignment

HERE, THERE = Cut.of_topic("events", [5]), Cut.of_topic("events", [9])


class Log:
    def warning(self, _event: str, **_about: Any) -> None:
        """Nobody reads it."""


@pytest.mark.parametrize(("fails", "asked"), [(1, [THERE, None]), (9, [THERE, None])])
def test_after_an_error_the_query_reads_on_without_ends(
    fails: int, asked: list[Cut | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end that was set last is taken away; otherwise the canary would stand there for ever."""
    ends: list[Cut | None] = []

    def set_end(_spark: Any, _query: Any, _position: Cut, end: Cut | None) -> bool:
        ends.append(end)
        if len(ends) <= fails:
            raise Py4JError("no such field")
        return True

    candidate: Any = SimpleNamespace(claim=SimpleNamespace(generation=Generation(2, "local", "ab12cd34")))
    monkeypatch.setattr(source_alignment, "parent_of", lambda _claim: None)
    monkeypatch.setattr(source_alignment, "set_end", set_end)
    monkeypatch.setattr(SourceAlignment, "_run", lambda _self: None)
    nothing: Any = None
    alignment = SourceAlignment(nothing, nothing, "shop", candidate, Log())
    query: Any = object()
    alignment.begin(lambda: Reading(query, HERE))
    alignment._cuts.add(THERE)
    for _ in range(4):
        alignment.epoch_took()
    assert ends == asked
