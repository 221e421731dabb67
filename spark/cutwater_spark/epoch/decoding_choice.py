"""Which decoding the next query starts with: that of the epoch it must finish, else the job file's."""

from __future__ import annotations

from typing import Any

from cutwater.core.job.pinned_decoding import Decoding
from cutwater_spark.checkpoint import Checkpoint


class Decodings:
    """The decodings of a generation, kept beside its checkpoint; the newest is that of what was begun last."""

    def __init__(
        self, checkpoint: Checkpoint, attempt: int, wanted: Decoding, log: Any, holds: bool = False
    ) -> None:
        """`wanted`: as the job file has it. `holds`: does that have a `max_jump`?"""
        self._holds = holds
        self._own = False
        self._checkpoint = checkpoint
        self._attempt = attempt
        self._wanted = wanted
        self._log = log

    def choose(self, begun: int | None) -> tuple[Decoding, int | None]:
        """The decoding of the query that starts next, and the epoch after which it is to be stopped, if any.

        `begun`: the epoch of which earlier queries have written something, and which they have not finished.
        Which events are held is what was decided last, as long as the job file has any held.
        """
        kept = self._kept()
        if kept is not None and self._holds:
            self._wanted = self._wanted.holding(kept.held_ms)
        if kept is not None and kept != self._wanted and begun is not None:
            self._log.warning(
                f"epoch {begun} is finished first with the decoding that it was begun with",
                changed=kept.changes(self._wanted),
            )
            self._mine(kept)
            return kept, begun
        # Before the query starts: rows never stand on the changelog without the decoding that made them.
        if kept != self._wanted:
            self._keep(self._wanted)
        self._mine(self._wanted)
        return self._wanted, None

    def hold(self, held_ms: int | None) -> None:
        """From the next query on events are held from that time on, or none; before anything is written so."""
        self._keep(self._wanted.holding(held_ms))

    def _kept(self) -> Decoding | None:
        text = self._checkpoint.newest_decoding()
        return Decoding.parse(text) if text else None

    def _keep(self, decoding: Decoding) -> None:
        self._checkpoint.keep_decoding(self._attempt, decoding.text)
        self._own = True

    def _mine(self, decoding: Decoding) -> None:
        """Where bounds come and go, an attempt keeps one of its own.

        Else an older driver, which does not know yet that it is fenced, could keep a newer one, and the next
        attempt would finish by that what this one has begun.
        """
        if self._holds and not self._own:
            self._keep(decoding)
