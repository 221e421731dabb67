"""A stack whose driver waits for another region is ready as long as it waits, and no longer."""

from __future__ import annotations

import pytest

from cutwater.core.errors import FencedError
from cutwater.core.failover.rejoin import ResumeDecision
from cutwater.local.processes.exit_policy import RegionWait


def test_a_wait_is_asked_for_each_time() -> None:
    """A driver that fails behind the wait must not count as started."""
    told = iter([ResumeDecision(True, "eu is away"), ResumeDecision(False)])
    waits = RegionWait(lambda: next(told))
    assert [waits.is_waiting(), waits.is_waiting()] == [True, False]
    assert not RegionWait().is_waiting()


@pytest.mark.slow
def test_who_is_refused_does_not_wait() -> None:
    def refused() -> ResumeDecision:
        raise FencedError("eu has gone on")

    assert not RegionWait(refused).is_waiting()
