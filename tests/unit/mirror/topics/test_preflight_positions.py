"""Where a copy is gone on with: behind everything that stands there, markers of transactions included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.mirror.topics import preflight
from cutwater.mirror.topics.context import MirrorContext
from cutwater.mirror.topics.preflight import Preflight

TARGET = "flights.changelog.g1-us-00000000"
BEGUN, MARKER = 10, 20
"""A transaction's first record and its marker."""


class Log:
    """One partition, in which a transaction is open; what happens between two questions is told to it."""

    def __init__(self, happens: Callable[[Log], None]) -> None:
        self.end, self.stable_end = MARKER, BEGUN
        self._happens, self._asked = happens, 0

    def topic_ends(self, _topic: str, _partitions: int) -> dict[int, int]:
        self._between()
        return {0: self.end}

    def committed_ends(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        self._between()
        return dict.fromkeys(places, self.stable_end)

    def _between(self) -> None:
        self._asked += 1
        if self._asked == 2:
            self._happens(self)


def bases(monkeypatch: pytest.MonkeyPatch, log: Log) -> dict[int, int]:
    monkeypatch.setattr(preflight, "LogCheck", lambda _cluster: SimpleNamespace(ends=log))
    nothing: Any = None
    context = MirrorContext(nothing, nothing, "flights", "us", nothing, nothing, lambda: 0)
    one = Preflight(context, (0,), nothing)
    return one._bases(TARGET, 1, (0,))


def ended(log: Log) -> None:
    log.end = log.stable_end = MARKER + 1


def test_a_transaction_that_ends_between_two_questions_is_not_gone_on_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An older mirror's, whose marker comes just then. With a base below it, all that this one writes would end
    one offset too far, and somebody else be suspected."""
    log = Log(ended)
    with pytest.raises(UnavailableError, match=r"a transaction is open in partitions \[0\]"):
        bases(monkeypatch, log)
    assert bases(monkeypatch, log) == {0: MARKER + 1}, "asked again, its end is seen"


def test_a_transaction_that_goes_on_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match="a transaction is open"):
        bases(monkeypatch, Log(lambda _log: None))
