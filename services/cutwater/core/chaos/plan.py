"""A plan of faults: what happens to which process of a stack, when, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutwater.core.load.load_draw import Flaws
from cutwater.core.load.rate_profile import RateProfile
from cutwater.core.sizing.skew import KeySkew

KILL, STOP, SLOW, FULL_DISK = "kill", "stop", "slow", "full_disk"
CUT, DELAY, RESTART = "cut", "delay", "restart"
SLOW_DISK, CLOCK = "slow_disk", "clock"
KINDS = (KILL, STOP, SLOW, FULL_DISK, SLOW_DISK, CLOCK, CUT, DELAY, RESTART)
LASTING = (STOP, SLOW, FULL_DISK, SLOW_DISK, CLOCK, CUT, DELAY)
"""Kinds that last for a time. A killed process stays so until its supervisor starts it again."""
MEASURED = (SLOW_DISK, CLOCK)
"""Kinds that have a size, `by`."""
OF_STACKS = (KILL, STOP, SLOW, FULL_DISK, SLOW_DISK, CLOCK)
OF_LINKS = (CUT, DELAY)
OF_COMPOSE = (KILL, STOP, CUT, RESTART)
"""Kinds that are made on processes of this machine, on the link to another region, and on containers."""
BROKER, LINK = "broker", "link"
PROCESSES = ("driver", "commit-signal", "rehydrator", "publisher", "watch", BROKER)
DELAY_S = 0.5
"""Of each byte, in each direction."""
ON_TIME_S = 0.1
"""Of each second, that a process runs which is slow."""
DISK_DELAY_S = 0.05
"""Of each call about a file, by default: as late as a hard drive that is busy answers."""
DISK_DELAY_MAX_S = 10.0


@dataclass(frozen=True)
class Fault:
    kind: str
    process: str
    """Or the link to another region."""
    at_s: float
    """From the plan's start."""
    for_s: float = 0.0
    """0 for a kill."""
    by_s: float = 0.0
    """Of a slow disk: the delay of each call. Of a clock: how far it is moved, negative for back."""
    gradual: bool = False
    """True if a clock gets there evenly over `for_s`, in place of at once."""

    @property
    def end_s(self) -> float:
        return self.at_s + self.for_s

    def __str__(self) -> str:
        size = f" by {self.by_s:g} s" if self.by_s else ""
        lasts = f" for {self.for_s:g} s" if self.for_s else ""
        slowly = ", gradually" if self.gradual else ""
        return f"{self.kind.replace('_', ' ')} {self.process}{size}{lasts}{slowly}"


@dataclass(frozen=True)
class LoadWish:
    """The load that runs beside the faults."""

    profile: RateProfile
    skew: KeySkew
    flaws: Flaws
    move_hot_keys_s: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class ChaosPlan:
    seconds: float
    lag_bound_s: float
    """Behind a fault the job has recovered once its lag is at most this again."""
    recovery_s: float
    """The longest time from a fault's end to the recovery."""
    faults: Sequence[Fault]
    """In the order of their times."""
    load: LoadWish | None = None


def unmade(faults: Sequence[Fault], kinds: Sequence[str]) -> Fault | None:
    """Return the first fault that is about no process, or is of another kind than these; None without one."""
    return next((one for one in faults if one.process == LINK or one.kind not in kinds), None)


def overlaps(faults: Sequence[Fault]) -> list[str]:
    """Return why faults cannot be made: two at one time that are about one process."""
    found = []
    for one in faults:
        for other in faults:
            begins_inside = one.at_s <= other.at_s < one.end_s and one is not other
            if begins_inside and one.process == other.process:
                found.append(f"'{other}' at {other.at_s:g} s begins within '{one}' at {one.at_s:g} s")
    return found
