"""kill -9 of a view's process in the middle of a milestone, on a real broker and real RocksDB."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, Sold, Writing, following, make_job

KILLED = """
    import os, signal, sys
    from pathlib import Path
    sys.path[:0] = [{tests!r}]
    from support.views.changelogs import following
    from cutwater.adapters.kafka.client_config import Cluster
    from cutwater.adapters.job_files.loader import load_job
    from cutwater.views.store.store import Store

    calls = 0
    {name} = Store.{name}

    def dying(*args, **options):
        global calls
        calls += 1
        if {before} and calls == {calls}:
            os.kill(os.getpid(), signal.SIGKILL)
        {name}(*args, **options)
        if calls == {calls}:
            os.kill(os.getpid(), signal.SIGKILL)

    Store.{name} = dying
    with following(Cluster({bootstrap!r}), load_job(Path({job!r})), Path({folder!r}), chunk_rows=50) as view:
        view.wait_for({sequence})
"""


def killed(cluster: Cluster, job: Path, folder: Path, sequence: int, name: str, calls: int, before: bool) -> None:
    """Run a view until the given call of a method of its store, and kill it there."""
    script = textwrap.dedent(KILLED).format(
        tests=str(Path(__file__).parents[3]),
        bootstrap=cluster.bootstrap,
        job=str(job),
        folder=str(folder),
        sequence=sequence,
        name=name,
        calls=calls,
        before=before,
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == -signal.SIGKILL, f"the kill did not happen: {done.stderr[-2000:]}"


@pytest.mark.variations
@pytest.mark.parametrize(
    ("name", "calls", "before"), [("put", 3, False), ("commit", 1, True), ("commit", 1, False)]
)
def test_killed_while_it_restores(broker: Any, tmp_path: Path, name: str, calls: int, before: bool) -> None:
    """I4: a first restore that dies half-way is not shown half, and is whole after the next start."""
    job, path = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    writing.epoch(Sold(f"s{number}", number % 9, number) for number in range(500))
    killed(broker.cluster, path, tmp_path / "view", 1, name, calls, before)
    with following(broker.cluster, job, tmp_path / "view", chunk_rows=50) as view:
        assert (view.first_shown is not None) == (name == "commit" and not before)
        view.wait_for(1)
        assert view.rows() == (1, writing.by_sequence[1])
    writing.close()


@pytest.mark.variations
@pytest.mark.parametrize(
    ("name", "calls", "before"), [("put", 4, False), ("commit", 1, True), ("commit", 1, False)]
)
def test_killed_while_it_steps(broker: Any, tmp_path: Path, name: str, calls: int, before: bool) -> None:
    """I4: died inside a large milestone, the view shows nothing until it is whole; died after it, it goes on."""
    job, path = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    writing.epoch(Sold(f"s{number}", number % 9, 1) for number in range(500))
    with following(broker.cluster, job, tmp_path / "view") as view:
        view.wait_for(1)
    writing.epoch(Sold(f"s{number}", number % 9, 2) for number in range(400))
    killed(broker.cluster, path, tmp_path / "view", 2, name, calls, before)
    whole = name == "commit" and not before
    store = Store(tmp_path / "view", job, GENERATION)
    assert (store.applying is None) == whole
    store.close()
    writing.epoch([Sold("later", 1, 3)])
    with following(broker.cluster, job, tmp_path / "view", chunk_rows=50) as view:
        assert (view.first_shown is not None) == whole
        view.wait_for(3)
        assert view.rows() == (3, writing.by_sequence[3])
    writing.close()


@pytest.mark.slow
def test_jump_broken_off_is_not_shown_as_an_earlier_milestone(broker: Any, tmp_path: Path) -> None:
    """I1: after a jump to 4 that died, the store holds rows of 4: 2 and 3 may not be shown with them."""
    job, _ = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    writing.epoch(Sold(f"s{number}", 1, 1) for number in range(300))
    with following(broker.cluster, job, tmp_path / "view") as view:
        view.wait_for(1)
    for pieces in (2, 3, 4):
        writing.epoch(Sold(f"s{number}", 1, pieces) for number in range(300))
    store = Store(tmp_path / "view", job, GENERATION)
    assert store.applied is not None
    milestone = writing.last
    assert milestone is not None
    store.begin(store.applied._replace(milestone=milestone, record=protocol_records.encode(milestone), offset=0))
    store.close()
    with following(broker.cluster, job, tmp_path / "view", chunk_rows=50) as view:
        assert view.first_shown is None
        view.wait_for(4)
        assert [one.sequence for one, _ in view.seen.done] == [4]
        assert view.rows() == (4, writing.by_sequence[4])
    writing.close()
