"""The guards of two regions whose logs lose their tails."""

from __future__ import annotations

from typing import Any

from cutwater.core.failover import rejoin
from cutwater.core.failover.rejoin import LocalPosition
from cutwater.core.mirror.arrivals import ArrivalTracker
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Claim
from cutwater.mirror.arrivals import announcer
from cutwater.mirror.topics import preflight
from cutwater.operations.regions import forks
from cutwater_spark.epoch import row_proof
from cutwater_spark.epoch.row_proof import ProvedRows
from simulation import regional
from simulation.checker import ABORTED_READ, DIVERGENCE, FORKED, LOST_WRITE, PARTIAL, UNNOTICED, WRONG_LOSS
from simulation.holes import both, off
from simulation.region_guards import FAILS_BACK, RegionGuard
from simulation.region_histories import Season


def nothing_lost(*_args: Any) -> list[str]:
    return []


_LOSES = {"leap": 0.0, "link:cut": 0.0, "link:slow": 0.0, "prune": 0.0, "anew": 0.0, "retention": 0.0}
_WRONG = frozenset({PARTIAL, LOST_WRITE, ABORTED_READ, DIVERGENCE})


def nothing_so_far(*_args: Any) -> Any:
    return (), Cut()


def later_than_held(claim: Claim, here: LocalPosition, _parent_of: Any) -> bool:
    """A generation that begins asks for nothing."""
    return here.begins is None and claim.generation.number > here.held


TAIL_GUARDS = (
    RegionGuard(
        "positions say who took the copy",
        "the arrival of a copy that has lost its tail, and has grown again",
        "I5",
        lambda: both(*(off(one, "copied_so_far", nothing_so_far) for one in (announcer, preflight))),
        Season(
            {"claims": 0},
            {**_LOSES, "lose-tail:changelog": 1.5, "lose-tail:copies": 1.5, "kill:mirror": 3.0},
        ),
        _WRONG,
    ),
    RegionGuard(
        "copy and milestone are of one log",
        "the arrival of a copy that holds what the origin has lost, and not what it has counted",
        "I5",
        off(ArrivalTracker, "_require_led"),
        Season({"claims": 0}, {**_LOSES, "lose-tail:source": 2.0}),
        _WRONG,
    ),
    RegionGuard(
        "drivers of both regions prove what they stand on",
        "a region that goes on while its logs have lost what is below its cuts",
        "I1",
        lambda: both(
            off(ProvedRows, "_require_kept"),
            off(ProvedRows, "check_idle"),
            off(row_proof, "lost_records", nothing_lost),
        ),
        Season({"claims": 1}, {**_LOSES, "lose-tail:source": 1.0, "lose-tail:changelog": 1.0}),
        frozenset({*_WRONG, UNNOTICED}),
    ),
    RegionGuard(
        "a claim proves its parent",
        "a generation that begins with the rows of a copy that has lost some",
        "I2",
        off(regional, "changelog_problem", lambda *_args: ""),
        Season({"claims": 1}, {**_LOSES, "lose-tail:changelog": 1.0, "failover": 6.0}),
        _WRONG,
    ),
    RegionGuard(
        "a loss from a log that was rewritten is not exact",
        "fewer lost than there are: other events have the offsets that were copied",
        "I6",
        off(forks._Loss, "_rewritten_from"),
        Season({"claims": 1}, {**_LOSES, "lose-tail:source": 1.0, "failover": 6.0, "events": 14.0}),
        frozenset({WRONG_LOSS}),
    ),
    RegionGuard(
        "a loss beside a copy that has lost its end is not exact",
        "fewer told as read than were: a lost marker hides them",
        "I6",
        off(forks._Loss, "_lost_here", lambda *_args: []),
        Season({"claims": 1}, {**_LOSES, "lose-tail:copies": 1.0, "failover": 6.0, "events": 14.0}),
        frozenset({WRONG_LOSS}),
    ),
    RegionGuard(
        "who has lost its milestones asks, too",
        "a region that goes on beside the one that took over from the milestones that its log has lost",
        "I6",
        off(rejoin, "_continues", later_than_held),
        Season({"claims": 4}, {**FAILS_BACK, "old": 5.0, "age": 0.7, "lose-much:stream": 0.8}, 700, tails=True),
        frozenset({FORKED}),
    ),
)
