"""A mirror that stood still (SIGSTOP) while another took its slots over: it writes nothing more, and leaves."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import FencedError
from support.regions.loaded_origin import loaded, require_copied
from support.regions.mirroring import Events, arrivals, mirroring, process, wait_arrived
from support.views.changelogs import Writing, make_job, until


@pytest.mark.slow
@pytest.mark.parametrize("busy", [False, True], ids=["at rest", "in the middle of copying"])
def test_a_zombie_leaves(broker: Any, origin: Cluster, tmp_path: Path, busy: bool) -> None:
    """The heir's own proof, before each commit, is that every log ends where it has written last."""
    job, path = make_job(tmp_path)
    writing = Writing(origin, job)
    events, log = Events(writing), tmp_path / "log"
    zombie = process(broker.cluster, origin, path, log)
    try:
        events.produce(20)
        writing.epoch([], source_cut=events.cut())
        until(
            lambda: zombie.poll() is not None or _arrived(broker.cluster, job) >= 1, "the zombie's first arrival"
        )
        if busy:
            with loaded(writing, events) as load:
                until(lambda: _arrived(broker.cluster, job) >= 5, "five arrivals of the zombie")
                os.kill(zombie.pid, signal.SIGSTOP)
                load.end()
        else:
            os.kill(zombie.pid, signal.SIGSTOP)
        with mirroring(broker.cluster, origin, job) as heir:
            heir.until(lambda: heir.mirror.copier.ready, "the heir to have taken over")
            with loaded(writing, events) as load:
                at = load.sequence
                wait_arrived(heir, broker.cluster, job, at + 5)
                os.kill(zombie.pid, signal.SIGCONT)
                heir.until(lambda: zombie.poll() is not None, lambda: f"the zombie to leave: {log.read_text()}")
                at = load.sequence
                wait_arrived(heir, broker.cluster, job, at + 5)
                last = load.end()
            wait_arrived(heir, broker.cluster, job, last)
        assert zombie.returncode == FencedError.exit_code, log.read_text()
    finally:
        zombie.kill()
        zombie.wait(20)
    require_copied(writing, broker.cluster)
    writing.close()


def _arrived(own: Cluster, job: Any) -> int:
    try:
        return len(arrivals(own, job))
    except AssertionError:  # the zombie has not made the topic yet
        return 0
