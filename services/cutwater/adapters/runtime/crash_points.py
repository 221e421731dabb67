"""Named crash points, at which tests end a process by kill -9. They are inactive unless the environment names one.

    CUTWATER_CRASH_POINT=barrier-written@3    crash when the process reaches this point for the third time
    CUTWATER_CRASH_MARK=FILE                  written before the crash; if it exists already, nothing happens
    CUTWATER_CRASH_VICTIM=process|jvm|both    a driver's Python, its JVM, or both; default: process

They are not settings: no user needs them, so no page documents them.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from itertools import count
from pathlib import Path

import psutil

POINTS = {
    "start-unwritten": "the driver has fenced older ones, and has not written its start",
    "start-written": "the driver has written its start, and no query runs",
    "seed-brought": "the rows of a snapshot are copied beside the checkpoint, and Spark has not read them",
    "seed-written": "the parent's state is written as files, and they are not marked as complete",
    "seed-kept": "the checkpoint names the seed, and no query runs",
    "cleared": "the driver has written tombstones, and no row of the epoch",
    "rows-written": "the rows of an epoch are acknowledged, and not proved",
    "rows-proved": "the rows are proved and the lists written, and there is no barrier",
    "barrier-written": "the barrier is written, and Spark has not committed the epoch",
    "commit-seen": "Spark has committed the epoch, and the hint is not written",
    "hint-written": "the hint is written",
    "transaction-open": "records of a transaction are produced, and it is not committed",
    "signal-read": "commit-signal has read the input of a milestone, and has not written the milestone",
    "milestone-written": "commit-signal has written a milestone, and has not continued",
    "stream-taken": "a candidate's commit-signal has fenced the old one, and has not promoted the candidate",
    "promoted": "the candidate is promoted, and the driver of the previous generation has not ended",
    "rows-read": "the view has read and proved a milestone, and has not stored it",
    "milestone-stored": "the view has stored a milestone, and does not show it yet",
    "generation-ended": "the view is at the last milestone of its generation, and has not started the next one's",
    "generation-built": "the view of another generation is built, and the previous one is shown",
    "generation-shown": "the view of another generation is shown, and the previous one is on the disk",
    "generation-set-aside": "the view of an earlier generation is renamed, and not deleted",
    "checkpoint-made": "the view has created a checkpoint, and its files are not hashed",
    "checkpoint-listed": "the checkpoint is a snapshot on this disk, and nothing of it is uploaded",
    "file-uploaded": "a file of a snapshot is in the object store, and the others are not",
    "files-uploaded": "all files of a snapshot are in the object store, and its manifest is not",
    "manifest-written": "the snapshot is complete, and retention has not been applied",
    "manifest-retired": "a manifest is copied to the retired ones, and is still among the kept ones",
    "file-fetched": "a file of a snapshot is on this disk, and the others are not",
    "view-dropped": "the empty view is deleted, and not yet replaced by the snapshot's files",
    "part-read": "the publisher has read rows, and has not started their transaction",
    "part-written": "the publisher has committed a transaction, and has not continued",
    "states-read": "the publisher has both states of a hand-over, and nothing of their difference is written",
    "other-job": "the publisher has ended for one job, and has not started for the job that follows",
    "copy-read": "the mirror has read records, and has not started their transaction",
    "copy-written": "the mirror has committed a transaction of copies and positions, and has not continued",
    "arrival-due": "a milestone has arrived, and the mirror has not announced it",
    "arrival-written": "the mirror has announced an arrival, and has not continued",
    "mirror-fenced": "a failover has fenced the mirror, and has not checked again what has arrived",
    "topics-made": "the job's topics are created in the region that takes over, and nothing is claimed",
    "changelog-made": "the changelog of a generation is created, and the generation is not claimed",
    "claim-written": "a generation is claimed, and the claiming process has not continued",
    "promotion-asked": "the promotion is requested, and the requesting process has not continued",
    "writers-fenced": "the writers of a job are fenced before its release, and no release is written",
    "release-written": "the job is released, and a driver that started meanwhile is not fenced",
}
"""Every point, with what is done and not yet done at it."""

_point, _, _times = os.environ.get("CUTWATER_CRASH_POINT", "").partition("@")
_last = int(_times or 1)
_reached = count(1)


def reach(point: str) -> None:
    """Crash here if the environment names this point."""
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
        with suppress(psutil.NoSuchProcess):  # the JVM's own children are short-lived
            if child.name() == "java":
                child.kill()
