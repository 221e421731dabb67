"""The controller beside every fixed setting of a grid, on simulated traces and on one that a real driver left."""

from __future__ import annotations

import pytest

from support.cadence.comparison import WITHIN, beside, ratios
from support.cadence.trace_file import CHANGING, EVENTS_REACHED, recorded
from support.cadence.traces import TRACES, Trace, controlled, grid

RECORDED = recorded(CHANGING)
CHOSEN_BY, PLAYED = range(1, 9), range(101, 149)
"""Seeds. What is missed on the recorded trace differs by half from seed to seed."""


@pytest.mark.variations
@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.name)
def test_the_controller_is_about_as_good_as_the_best_fixed_setting(trace: Trace) -> None:
    """In recovery, in the time in which readers miss their objective, in their p99, and in what epochs cost."""
    found = beside(trace, grid())
    assert max(ratios([found]).values()) <= WITHIN, found


def test_on_a_recorded_trace_it_is_too() -> None:
    """Its epochs of a second take up to three times as long now and then, which nobody can foresee. The setting is
    chosen by other seeds than those that are compared: of 26 the best of few plays is one of luck."""
    found = beside(RECORDED, grid(EVENTS_REACHED), CHOSEN_BY, PLAYED)
    assert max(ratios([found]).values()) <= WITHIN, found


@pytest.mark.parametrize("trace", [*TRACES, RECORDED], ids=lambda trace: trace.name)
def test_decisions_are_few_and_have_reasons(trace: Trace) -> None:
    """Two for each change of a trace, and some for the way back: nothing flaps."""
    decisions = controlled(trace).decisions
    assert 2 <= len(decisions) <= 12
    assert all(one.reason for one in decisions)
    assert all(dict(one.before) != dict(one.sets) for one in decisions)
    assert [one.before for one in decisions[1:]] == [one.sets for one in decisions[:-1]]
