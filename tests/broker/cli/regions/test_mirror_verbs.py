"""`cutwater regions` and `cutwater mirror` as users call them, and what the mirror does about it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.kafka.admin import delete_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream, mirror_topics
from cutwater.core.job.job import Job
from cutwater.core.protocol import mirror_records, topics
from support.cli.jsonshapes import parsed
from support.regions.mirroring import ORIGIN, Events, arrivals, environment_of, mirroring, positions, wait_arrived
from support.views.changelogs import Sold, Writing, make_job


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
        found = parsed(["regions"], call(own, origin, "regions", str(path), "--json").stdout)
        (replica,) = found["replicas"]
        assert (found["region"], replica["origin"], replica["token"]) == ("there", "local", "g1-local-00000000:1")
        assert (replica["milestones"], replica["records"], replica["paused"]) == (0, 0, False)
        misspelt = call(own, origin, "mirror", "pause", str(path), "--origin", "locl")
        assert (misspelt.returncode, "no mirror of region locl has run" in misspelt.stderr) == (2, True)
        assert call(own, origin, "mirror", "pause", str(path)).returncode == 0
        mirror.until(lambda: mirror.mirror.arriving.paused, "the pause")
        time.sleep(0.5)  # a round that was under way: nothing tells that it has ended without a record
        before = positions(own, job)
        events.produce(60)
        writing.epoch([Sold("a", 1, 2)], source_cut=events.cut())
        time.sleep(1)  # only time can show that nothing is copied
        assert positions(own, job) == before
        (replica,) = parsed(["regions"], call(own, origin, "regions", str(path), "--json").stdout)["replicas"]
        assert (replica["records"] >= 62, replica["paused"]) == (True, True)
        said = parsed(["mirror", "status"], call(own, origin, "mirror", "status", str(path), "--json").stdout)
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


@pytest.mark.slow
def test_the_origin_away_is_not_known(broker: Any, writing: Writing, tmp_path: Path) -> None:
    """Its part is null, and what is here is told."""
    own, origin, job, path = broker.cluster, writing.cluster, writing.job, tmp_path / f"{writing.job.name}.yaml"
    events = Events(writing)
    writing.epoch([Sold("a", 1, 1)], source_cut=events.cut())
    with mirroring(own, origin, job) as mirror:
        wait_arrived(mirror, own, job, 1)
    away = call(own, Cluster("127.0.0.1:1"), "regions", str(path), "--json")
    (replica,) = parsed(["regions"], away.stdout)["replicas"]
    assert (replica["records"], replica["milestones"], replica["token"]) == (None, 0, "g1-local-00000000:1")


@pytest.mark.slow
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
    assert commit_stream.release(origin, topics.milestones(job.name)) is None, "it works on where it is"
    back = call(own, origin, *words, "--withdraw", "--json")
    assert parsed(["mirror", "resync"], back.stdout) == {"topic": writing.topic, "withdrawn": True}, back.stderr
    assert len(arrivals(own, job)) == 1
    # Behind the note and the removal of positions.
    crash = {"CUTWATER_CRASH_POINT": "transaction-open@3", "CUTWATER_CRASH_MARK": str(tmp_path / "mark")}
    assert call(own, origin, *words, "--yes", **crash).returncode == -9
    show = ("mirror", "status", str(path))
    assert parsed([*show], call(own, origin, *show, "--json").stdout)["begun_anew"] == [writing.topic]
    assert f"a resync of {writing.topic} (since " in call(own, origin, *show).stderr
    refused = call(own, origin, *words, "--withdraw")
    assert (refused.returncode, "are removed" in refused.stderr) == (2, True)
    told = parsed([*words], call(own, origin, *words, "--dry-run", "--json").stdout)
    assert (told["positions"], told["begun_anew"]) == (0, True)
    done = call(own, origin, *words, "--yes")
    assert done.returncode == 0, done.stderr
    assert parsed([*show], call(own, origin, *show, "--json").stdout)["begun_anew"] == []
    with mirroring(own, origin, job) as mirror:
        wait_arrived(mirror, own, job, 1)


@pytest.mark.slow
def test_resync_asks_whether_the_origin_lives(broker: Any, writing: Writing, tmp_path: Path) -> None:
    """Else what is deleted may be the only copy; what goes, and that no failover is possible then, is named."""
    own, origin, job, path = broker.cluster, writing.cluster, writing.job, tmp_path / f"{writing.job.name}.yaml"
    dead, events = Cluster("127.0.0.1:1"), Events(writing)
    writing.epoch([Sold("a", 1, 1)], source_cut=events.cut())
    with mirroring(own, origin, job) as mirror:
        token = str(wait_arrived(mirror, own, job, 1).token)
    words = ("mirror", "resync", str(path), "--topic", events.topic)
    for more in (["--yes"], ["--dry-run"]):
        refused = call(own, dead, *words, *more)
        assert refused.returncode == 4, refused.stderr
        assert f"{ORIGIN} does not answer" in refused.stderr
        assert "Nothing was deleted" in refused.stderr
        assert "--delete-only-copy" in refused.stderr
    require_untouched(own, job)
    same = call(own, own, *words, "--yes")
    assert (same.returncode, "are the same cluster" in same.stderr) == (2, True), same.stderr
    asked = call(own, origin, *words)
    assert f"the newest {token} of " in asked.stderr
    assert "until milestones arrive again, no failover from local is possible" in asked.stderr
    assert "is not queried" not in asked.stderr
    told = parsed([*words], call(own, origin, *words, "--dry-run", "--json").stdout)
    assert told["origin_asked"] is True
    assert (told["arrivals"]["topic"], told["arrivals"]["newest"]) == (
        mirror_records.arrivals(job.name, ORIGIN),
        token,
    )
    delete_topics(origin, [events.topic])
    gone = call(own, origin, *words, "--yes")
    assert (gone.returncode, f"has no topic {events.topic}" in gone.stderr) == (2, True), gone.stderr
    require_untouched(own, job)
    shown = call(own, dead, *words, "--dry-run", "--delete-only-copy")
    assert "may be the only copy" in shown.stdout
    assert token in shown.stdout
    done = call(own, dead, *words, "--yes", "--delete-only-copy")
    assert done.returncode == 0, done.stderr
    assert arrivals(own, job) == []


def require_untouched(own: Cluster, job: Job) -> None:
    assert len(arrivals(own, job)) == 1
    assert (job.topic, 0) in positions(own, job)
    assert mirror_topics.positions(own, job.name).renewed(ORIGIN) == {}


@pytest.mark.slow
def test_resync_says_where_it_could_not_ask_the_origin(broker: Any, writing: Writing, tmp_path: Path) -> None:
    """Of a region that no setting names nobody knows the brokers; from a snapshot nothing is begun without it."""
    own, job, path = broker.cluster, writing.job, tmp_path / f"{writing.job.name}.yaml"
    with mirroring(own, writing.cluster, job) as mirror:
        wait_arrived(mirror, own, job, writing.epoch([Sold("a", 1, 1)], source_cut=Events(writing).cut()).sequence)
    words = ("mirror", "resync", str(path), "--topic", writing.topic, "--origin", ORIGIN)
    unnamed = {"CUTWATER_ORIGIN_REGION": ""}
    assert "local is not queried" in call(own, writing.cluster, *words, **unnamed).stderr
    shown = call(own, writing.cluster, *words, "--dry-run", **unnamed)
    assert "CUTWATER_ORIGIN_BOOTSTRAP_SERVERS do not name it" in " ".join(shown.stdout.split())
    told = parsed([*words], call(own, writing.cluster, *words, "--dry-run", "--json", **unnamed).stdout)
    assert told["origin_asked"] is False
    done = call(own, writing.cluster, *words, "--yes", **unnamed)
    assert (done.returncode, "local is not queried" in done.stderr) == (0, True), done.stderr
    both = call(own, writing.cluster, *words, "--from-snapshot", "--delete-only-copy")
    assert (both.returncode, "--from-snapshot needs the origin" in both.stderr) == (2, True), both.stderr
