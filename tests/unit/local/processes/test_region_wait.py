"""A stack whose driver waits for another region is ready as long as it waits, and no longer."""

from __future__ import annotations

from cutwater.core.errors import FencedError
from cutwater.core.failover.rejoin import Found
from cutwater.local.processes.region_wait import Elsewhere


def test_a_wait_is_asked_for_each_time() -> None:
    """A driver that fails behind the wait must not count as started."""
    told = iter([Found(True, "eu is away"), Found(False)])
    waits = Elsewhere(lambda: next(told))
    assert [waits.still(), waits.still()] == [True, False]
    assert not Elsewhere().still()


def test_who_is_refused_does_not_wait() -> None:
    def refused() -> Found:
        raise FencedError("eu has gone on")

    assert not Elsewhere(refused).still()
