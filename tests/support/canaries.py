"""A canary beside a promoted generation, both played, and its comparing process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cutwater.adapters.topics.candidates import candidates
from cutwater.core.generations.candidates import Candidate as Known
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Canary, Comparison, Milestone
from support.views.candidate_player import Candidate
from support.views.changelogs import HOUR_MS, Sold, Writing, until


class Beside:
    """Two generations that read the same events: the live one goes on, and the candidate begins beside it."""

    def __init__(self, live: Writing, milestones: int = 0, differences: int = 0) -> None:
        self.live = live
        self.candidate = Candidate(live)
        gate = Canary(live.job.name, self.candidate.generation, milestones, differences, 0.0, 0, 0)
        self.candidate.tell(gate)
        self.read = {"live": 0, "candidate": 0}

    def begin(self, wrong: Iterable[Sold] = ()) -> Milestone:
        """The candidate's first epoch: the parent's rows, but for the wrong ones."""
        rows = [Sold(shop, start // HOUR_MS, pieces) for (shop, start), pieces in self.candidate.seeds.items()]
        assert self.live.last is not None
        return self.candidate.epoch([*rows, *wrong], source_cut=self.live.last.source_cut)

    def both(self, offset: int, rows: list[Sold], theirs: list[Sold] | None = None, **changes: Any) -> None:
        """One epoch of each, up to the same offset; `theirs`: the candidate's rows, if they are others."""
        self.live.epoch(rows, source_cut=cut(offset))
        self.candidate.epoch(rows if theirs is None else theirs, source_cut=cut(offset), **changes)

    @property
    def known(self) -> Known:
        return candidates(self.live.cluster, self.live.job.name).by_id[self.candidate.generation]

    @property
    def comparison(self) -> Comparison | None:
        return self.known.comparison

    def compared(self, pairs: int) -> Comparison:
        """Wait until so many pairs are recorded."""
        until(lambda: (self.comparison or _NONE).compared >= pairs, f"{pairs} pairs to be compared")
        assert self.comparison is not None
        return self.comparison


class _NONE:
    compared = -1


def cut(offset: int) -> Cut:
    return Cut.of_topic("sales.events", [offset])


class Comparing:
    """`python -m cutwater.canary JOBFILE` in a folder of its own."""

    def __init__(self, beside: Beside, job_file: Path, folder: Path, point: str = "") -> None:
        env = {
            "CUTWATER_BOOTSTRAP_SERVERS": beside.live.cluster.bootstrap,
            "CUTWATER_DATA_DIR": str(folder),
            "CUTWATER_GENERATION": str(beside.candidate.generation),
            "CUTWATER_WAIT_MS": "20000",
        }
        if point:
            mark = folder / f"crashed-{point.replace('@', '-')}"
            env |= {"CUTWATER_CRASH_POINT": point, "CUTWATER_CRASH_MARK": str(mark)}
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "canary.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cutwater.canary", str(job_file)],
                env={**os.environ, **env},
                stdout=log,
                stderr=log,
            )

    def ended(self, patience_s: float = 240.0) -> int:
        return self.process.wait(patience_s)

    def died(self) -> None:
        """It has died at its crash point."""
        assert self.ended() == -signal.SIGKILL, self.log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(20)
