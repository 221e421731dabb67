"""`max_jump`: checks an epoch's event times before it is written. `core.driver.time_jumps` decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutwater.core.driver.ports import Checkpoint, NewQueryError
from cutwater.core.driver.time_jumps import held_from, judged_alike
from cutwater.core.generations.start_state import StartState
from cutwater.core.protocol.cuts import EpochPlan
from cutwater_spark.epoch.rejected_events import RejectedEventLists

Keep = Callable[[int | None], None]
"""Stores beside the checkpoint the event time from which events are held, before an epoch is read so."""


class BoundChangedError(NewQueryError):
    """The next query must read the epoch with another bound."""


class JumpCheck:
    """Checks the epochs of one query. `lists`: reads them with no event held."""

    def __init__(
        self,
        lists: RejectedEventLists,
        checkpoint: Checkpoint,
        origin: StartState,
        max_jump_ms: int,
        lateness_ms: int,
        held_ms: int | None,
        begun: int | None,
        keep: Keep,
        log: Any,
        newest_before: Callable[[int], int | None],
    ) -> None:
        """`held_ms`: the query's bound. `begun`: an epoch that is partly written, which is not checked.
        `newest_before`: returns the newest event time of the epochs before one, as far as barriers tell."""
        self._lists, self._checkpoint, self._origin = lists, checkpoint, origin
        self._newest_before = newest_before
        self._max_jump_ms, self._lateness_ms = max_jump_ms, lateness_ms
        self._held_ms, self._begun = held_ms, begun
        self._keep, self._log = keep, log

    def check_epoch(self, epoch: int) -> None:
        """Raise BoundChangedError if another bound would hold other events of the epoch.

        Retries agree: an epoch that is partly written keeps its bound.
        """
        if epoch == self._begun:
            return
        plan = self._checkpoint.plan(epoch)
        range_ = self._origin.range(plan, self._checkpoint.plan(epoch - 1) if epoch else None)
        if range_.before == range_.cut:
            return
        segments = self._lists.event_times(range_, self._max_jump_ms)
        told = (self._newest_before(epoch), self._newest_by_watermark(plan))
        newest_ms = max((one for one in told if one is not None), default=None)
        wanted = held_from(segments, newest_ms, self._max_jump_ms)
        if judged_alike(segments, wanted, self._held_ms):
            return
        self._keep(wanted)
        self._log.warning(
            "events are held: they jump ahead of all others" if wanted else "no events are held any more",
            epoch=epoch,
            from_ms=wanted,
            newest_ms=newest_ms,
            max_jump_ms=self._max_jump_ms,
        )
        raise BoundChangedError

    def _newest_by_watermark(self, plan: EpochPlan) -> int | None:
        # Spark's watermark is the newest event time of all earlier epochs minus the lateness; 0 if there is none.
        # Of a job that amends, or did lately, it is only the floor.
        watermark_ms = self._origin.watermark_ms(plan)
        return watermark_ms + self._lateness_ms if watermark_ms > 0 else None
