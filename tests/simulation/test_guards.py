"""Guards are guarded: without each of them a history goes wrong, and with it the same history is right.

`python -m simulation --guards` prints the table of docs/GUARANTEES.md.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from simulation.changing.guards import CHANGE_GUARDS
from simulation.checker import Anomaly
from simulation.guards import GUARDS, Guard
from simulation.handover_guards import HANDOVER_GUARDS
from simulation.histories import Climate
from simulation.hole_search import SEEDS_MAX, first_shown
from simulation.scenes import LUCKS, OtherwiseRun, ended
from simulation.window_guards import WINDOW_GUARDS

EVERY = [*GUARDS, *WINDOW_GUARDS, *HANDOVER_GUARDS, *CHANGE_GUARDS]
each = pytest.mark.parametrize("guard", EVERY, ids=lambda guard: guard.name.replace(" ", "-"))


@each
def test_without_the_guard_a_history_goes_wrong_and_with_it_the_same_is_right(guard: Guard) -> None:
    """The hole shows as an anomaly of the expected kind; the guard alone makes the difference."""
    found = _in_climate(guard) if isinstance(guard.way, Climate) else _in_scene(guard)
    assert found.kind in guard.anomalies, found
    print(f"{guard.name}: {found}")


def _in_climate(guard: Guard) -> Anomaly:
    shown = first_shown(guard)
    assert shown is not None, f"{SEEDS_MAX:,} histories without '{guard.name}', and nothing went wrong"
    assert shown.beside is None, f"seed {shown.seed} fails with the guard, too"
    return shown.without


def _in_scene(guard: Guard) -> Anomaly:
    """What follows a scene depends on luck, too: some row may be written over before anybody looks."""
    assert not isinstance(guard.way, Climate)
    for luck in LUCKS:
        with suppress(OtherwiseRun):
            with guard.beside():
                ended(guard.way, luck)  # raises what goes wrong with the guard
            with guard.beside(), guard.hole():
                try:
                    ended(guard.way, luck)
                except Anomaly as found:
                    return found
    pytest.fail(f"{len(LUCKS)} tries of a scene without '{guard.name}', and nothing went wrong")
