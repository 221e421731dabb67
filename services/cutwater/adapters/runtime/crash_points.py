"""Named crash points: where tests end a process by kill -9. Nothing happens unless the environment names one.

    CUTWATER_CRASH_POINT=barrier-written@3    the third time that the process comes to this point
    CUTWATER_CRASH_MARK=FILE                  written before the end; where it is there already, nothing happens
    CUTWATER_CRASH_VICTIM=process|jvm|both    a driver's Python, its JVM, or both; a process alone by default

They are no settings: no user needs them, so no page names them.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from itertools import count
from pathlib import Path

import psutil

POINTS = {
    "start-unwritten": "the driver has fenced older ones, and has not said that it starts",
    "start-written": "the driver has said that it starts, and no query runs",
    "seed-brought": "the rows of a snapshot lie beside the checkpoint, and Spark has not read them",
    "seed-written": "the parent's state is written as files, and nothing says that they are whole",
    "seed-kept": "the checkpoint names the seed, and no query runs",
    "cleared": "the driver has written tombstones, and no row of the epoch",
    "rows-written": "the rows of an epoch are acknowledged, and not proved",
    "rows-proved": "the rows are proved and the lists written, and there is no barrier",
    "barrier-written": "the barrier is written, and Spark has not committed the epoch",
    "commit-seen": "Spark has committed the epoch, and nobody was told",
    "hint-written": "the hint is written",
    "transaction-open": "records of a transaction were handed over, and it is not committed",
    "signal-read": "commit-signal has read what makes a milestone, and has not written it",
    "milestone-written": "commit-signal has written a milestone, and has not gone on",
    "stream-taken": "a candidate's commit-signal has fenced the old one, and has not promoted the candidate",
    "promoted": "the candidate is promoted, and the driver of the generation before is not ended",
    "rows-read": "the view has read and proved a milestone, and has not stored it",
    "milestone-stored": "the view has stored a milestone, and does not show it yet",
    "generation-ended": "the view is at the last milestone of its generation, and the next one's is not begun",
    "generation-built": "the view of another generation is there, and the one before it is shown",
    "generation-shown": "the view of another generation is shown, and the one before it is on the disk",
    "generation-set-aside": "the view of an earlier generation is renamed, and not deleted",
    "checkpoint-made": "the view has made a checkpoint, and nobody has hashed its files",
    "checkpoint-listed": "the checkpoint is a snapshot on this disk, and nothing of it is uploaded",
    "file-uploaded": "a file of a snapshot is in the object store, and the others are not",
    "files-uploaded": "all files of a snapshot are in the object store, and its manifest is not",
    "manifest-written": "the snapshot is whole, and what is not kept any more was not looked for",
    "manifest-retired": "a manifest is retired, and it still stands among those that are kept",
    "file-fetched": "a file of a snapshot is on this disk, and the others are not",
    "view-dropped": "the empty view is deleted, and the snapshot's files have not taken its place",
    "part-read": "the publisher has read rows, and has not begun their transaction",
    "part-written": "the publisher has committed a transaction, and has not gone on",
    "states-read": "the publisher has both states of a hand-over, and nothing of their difference is written",
    "copy-read": "the mirror has read records, and has not begun their transaction",
    "copy-written": "the mirror has committed a transaction of copies and positions, and has not gone on",
    "arrival-due": "a milestone has arrived, and the mirror has not said so",
    "arrival-written": "the mirror has said that a milestone has arrived, and has not gone on",
    "mirror-fenced": "a failover has fenced the mirror, and has not looked again at what has arrived",
    "topics-made": "the job's topics are made in the region that goes on, and nothing is claimed",
    "changelog-made": "the changelog of a generation is made, and the generation is not claimed",
    "claim-written": "a generation is claimed, and who has claimed it has not gone on",
    "promotion-asked": "the promotion is asked for, and who has asked has not gone on",
    "writers-fenced": "the writers of a job that is to be released are fenced, and no release is written",
    "release-written": "the job is released, and a driver that was started meanwhile is not fenced",
}
"""Every point, and what is done and not done there."""

_point, _, _times = os.environ.get("CUTWATER_CRASH_POINT", "").partition("@")
_last = int(_times or 1)
_reached = count(1)


def reach(point: str) -> None:
    """The process has come to a point; it may be its last."""
    if point == _point and next(_reached) == _last:
        _die(point)


def _die(point: str) -> None:
    mark = Path(os.environ["CUTWATER_CRASH_MARK"])
    if mark.exists():
        return
    mark.write_text(point, encoding="utf-8")
    victim = os.environ.get("CUTWATER_CRASH_VICTIM", "process")
    if victim in {"jvm", "both"}:
        _kill_jvms()
    if victim != "jvm":
        os.kill(os.getpid(), signal.SIGKILL)


def _kill_jvms() -> None:
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # the JVM itself has children that come and go
            if child.name() == "java":
                child.kill()
