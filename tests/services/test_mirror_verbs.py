"""`cutwater regions` and `cutwater mirror` as users call them, and what the mirror does about it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from changelogs import Sold, Writing, make_job
from mirroring import Events, arrivals, environment_of, mirroring, positions, wait_arrived

from cutwater.adapters import streams
from cutwater.adapters.cluster import Cluster
from cutwater.core import topics


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    return make_job(tmp_path)[1]


def call(own: Cluster, origin: Cluster, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cutwater.cli.main", *words],
        env=environment_of(own, origin) | {"NO_COLOR": "1", "COLUMNS": "200"} | env,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_regions_pause_and_resume(broker: Any, writing: Writing, tmp_path: Path) -> None:
    """What is behind is told in each unit; a pause holds the copies, and `resume` goes on where it was."""
    own, origin, job, path = broker.cluster, writing.cluster, writing.job, tmp_path / f"{writing.job.name}.yaml"
    none = call(own, origin, "mirror", "status", str(path))
    assert none.returncode == 2
    assert "no mirror of" in none.stderr
    assert "nothing is copied" in call(own, origin, "regions", str(path)).stdout
    events = Events(writing)
    events.produce(30)
    writing.epoch([Sold("a", 1, 1)], source_cut=events.cut())
    with mirroring(own, origin, job) as mirror:
        wait_arrived(mirror, own, job, 1)
        found = json.loads(call(own, origin, "regions", str(path), "--json").stdout)
        (replica,) = found["replicas"]
        assert (found["region"], replica["origin"], replica["token"]) == ("there", "local", "g1-local-00000000:1")
        assert (replica["milestones"], replica["records"], replica["paused"]) == (0, 0, False)
        assert call(own, origin, "mirror", "pause", str(path)).returncode == 0
        mirror.until(lambda: mirror.mirror.arriving.paused, "the pause")
        time.sleep(0.5)  # a round that was under way
        before = positions(own, job)
        events.produce(60)
        writing.epoch([Sold("a", 1, 2)], source_cut=events.cut())
        time.sleep(1)
        assert positions(own, job) == before
        (replica,) = json.loads(call(own, origin, "regions", str(path), "--json").stdout)["replicas"]
        assert (replica["records"] >= 62, replica["paused"]) == (True, True)
        said = json.loads(call(own, origin, "mirror", "status", str(path), "--json").stdout)
        assert said["paused"]
        assert {one["topic"] for one in said["partitions"]} == {
            job.topic,
            writing.topic,
            topics.milestones(job.name),
        }
        assert call(own, origin, "mirror", "resume", str(path), "--origin", "local").returncode == 0
        wait_arrived(mirror, own, job, 2)
    shown = call(own, origin, "regions", str(path))
    assert "g1-local-00000000:2" in shown.stdout


def test_the_origin_away_is_not_known(broker: Any, writing: Writing, tmp_path: Path) -> None:
    """Its part is null, and what is here is told."""
    own, origin, job, path = broker.cluster, writing.cluster, writing.job, tmp_path / f"{writing.job.name}.yaml"
    events = Events(writing)
    writing.epoch([Sold("a", 1, 1)], source_cut=events.cut())
    with mirroring(own, origin, job) as mirror:
        wait_arrived(mirror, own, job, 1)
    (replica,) = json.loads(call(own, Cluster("127.0.0.1:1"), "regions", str(path), "--json").stdout)["replicas"]
    assert (replica["records"], replica["milestones"], replica["token"]) == (None, 0, "g1-local-00000000:1")


def test_a_throttle_holds_the_rate(broker: Any, writing: Writing) -> None:
    """Bytes a second, over all topics; what is behind arrives later, and nothing is lost."""
    events = Events(writing)
    events.produce(3_000)
    writing.epoch([Sold("a", 1, 1)], source_cut=events.cut())
    began = time.monotonic()
    with mirroring(broker.cluster, writing.cluster, writing.job, bytes_per_s=10_000) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, 1)
    size = sum(one.size for one in positions(broker.cluster, writing.job).values())
    assert time.monotonic() - began >= 0.5 * size / 10_000 - 2, "a piece goes at once, what follows it waits"


def test_resync_asks_first_and_is_told_until_it_has_ended(broker: Any, writing: Writing, tmp_path: Path) -> None:
    own, origin, job, path = broker.cluster, writing.cluster, writing.job, tmp_path / f"{writing.job.name}.yaml"
    events = Events(writing)
    writing.epoch([Sold("a", 1, 1)], source_cut=events.cut())
    with mirroring(own, origin, job) as mirror:
        wait_arrived(mirror, own, job, 1)
    words = ("mirror", "resync", str(path), "--topic", writing.topic)
    refused = call(own, origin, *words)
    assert refused.returncode == 2
    assert "give --yes; nothing was deleted" in refused.stderr.replace("\n", " ")
    assert len(arrivals(own, job)) == 1
    # Behind the note alone.
    crash = {"CUTWATER_CRASH_POINT": "transaction-open@2", "CUTWATER_CRASH_MARK": str(tmp_path / "first")}
    assert call(own, origin, *words, "--yes", **crash).returncode == -9
    over = call(own, origin, "switchover", str(path), "--wait", "5")
    assert over.returncode == 4, over.stderr
    assert "--withdraw" in over.stderr
    assert streams.release(origin, topics.milestones(job.name)) is None, "it works on where it is"
    back = call(own, origin, *words, "--withdraw", "--json")
    assert json.loads(back.stdout) == {"topic": writing.topic, "withdrawn": True}, back.stderr
    assert len(arrivals(own, job)) == 1
    # Behind the note and the removal of positions.
    crash = {"CUTWATER_CRASH_POINT": "transaction-open@3", "CUTWATER_CRASH_MARK": str(tmp_path / "mark")}
    assert call(own, origin, *words, "--yes", **crash).returncode == -9
    show = ("mirror", "status", str(path))
    assert json.loads(call(own, origin, *show, "--json").stdout)["begun_anew"] == [writing.topic]
    assert f"the copy of {writing.topic} (since " in call(own, origin, *show).stderr
    refused = call(own, origin, *words, "--withdraw")
    assert (refused.returncode, "have gone" in refused.stderr) == (2, True)
    told = json.loads(call(own, origin, *words, "--dry-run", "--json").stdout)
    assert (told["positions"], told["begun_anew"]) == (0, True)
    done = call(own, origin, *words, "--yes")
    assert done.returncode == 0, done.stderr
    assert json.loads(call(own, origin, *show, "--json").stdout)["begun_anew"] == []
    with mirroring(own, origin, job) as mirror:
        wait_arrived(mirror, own, job, 1)
