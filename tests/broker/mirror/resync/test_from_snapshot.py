"""`cutwater mirror resync --from-snapshot`: what a log has lost comes from a snapshot, or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner

from broker.cli.regions.test_mirror_verbs import call
from broker.mirror.topics.test_preflight_gaps import cut_off
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.object_store import Objects
from cutwater.cli.main import app
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.mirror.gaps import LOST
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.state.snapshot_manifest import UNSIGNED
from cutwater.mirror.resync import snapshot_writer
from cutwater.mirror.resync.from_snapshot import SnapshotResync
from cutwater.views.follow.replica_feed import CopiedStream
from cutwater.views.snapshots.repositories import SnapshotRepositories
from support.cli.jsonshapes import parsed
from support.regions.mirroring import (
    ORIGIN,
    Events,
    arrivals,
    environment_of,
    make,
    mirroring,
    positions,
    read_all,
    require_held,
    wait_arrived,
    wait_stopped,
)
from support.views.changelogs import Sold, Writing, following, make_job, now_ms
from support.views.snapshots import keeping

HOURS = 6
MILESTONES = 4
"""Up to the snapshot's."""


class Stage:
    """An origin with a few milestones, of which the fourth has a snapshot, and its job file."""

    def __init__(self, own: Cluster, writing: Writing, folder: Path) -> None:
        self.own, self.writing, self.folder = own, writing, folder
        self.events = Events(writing)
        self.store = folder / "store"

    def epoch(self, number: int, shops: int = 40) -> int:
        self.events.produce(9)
        rows = [Sold(f"shop-{one}", number % HOURS, 1_000 * number + one) for one in range(shops)]
        return self.writing.epoch(rows, source_cut=self.events.cut()).sequence

    def snapshot(self, *partitions: int) -> None:
        """Of a view of these partitions, or of all."""
        objects, name = Objects(str(self.store)), f"view{'-'.join(map(str, partitions))}"
        held = frozenset(partitions) if partitions else None
        with keeping(self.writing, self.folder / name, objects, held, near=False) as (view, kept):
            assert self.writing.last is not None
            view.wait_for(self.writing.last.sequence)
            kept.snapshot()

    def lose(self, below: dict[TopicPartition, int]) -> None:
        """Records of the origin's changelog."""
        for place, at in below.items():
            cut_off(self.writing.cluster, place.topic, place.partition, at)

    def seeding(self) -> SnapshotResync:
        one, shelves = self.writing, SnapshotRepositories(Objects(str(self.store)), 3_600_000, UNSIGNED)
        there = (one.cluster, one.job, ORIGIN, one.topic)
        return SnapshotResync(self.own, *there, shelves, self.folder / "data", now_ms, structlog.get_logger())

    @property
    def verb(self) -> list[str]:
        path = self.folder / f"{self.writing.job.name}.yaml"
        where = ("--store", str(self.store), "--data-dir", str(self.folder / "data"))
        return ["mirror", "resync", str(path), "--topic", self.writing.topic, "--from-snapshot", *where]

    def resync(self, *words: str, **env: str) -> Any:
        cli = CliRunner(env={**environment_of(self.own, self.writing.cluster), **env})
        return cli.invoke(app, [*self.verb, *words])


@pytest.fixture
def stage(broker: Any, origin: Cluster, tmp_path: Path) -> Iterator[Stage]:
    # Of a topic that is compacted only, brokers let nobody delete records: so somebody has changed that first.
    writing = Writing(origin, make_job(tmp_path)[0], **{"cleanup.policy": "compact,delete"})
    yield Stage(broker.cluster, writing, tmp_path)
    writing.close()


@pytest.mark.slow
def test_a_log_that_lost_rows_is_repaired_from_a_snapshot(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed half-way and run again: the milestones behind the snapshot arrive, and are what the origin had."""
    own, writing = stage.own, stage.writing
    with mirroring(own, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, own, writing.job, stage.epoch(1))
    for number in range(2, MILESTONES + 1):
        stage.epoch(number)
    stage.snapshot()
    cut = dict(writing.cut)
    stage.lose({place: at - 2 for place, at in cut.items()})
    stage.epoch(5, shops=7)
    with mirroring(own, writing.cluster, writing.job) as mirror:
        assert "were deleted" in wait_stopped(mirror, writing.topic, LOST)
    told = parsed(["mirror", "resync"], stage.resync("--dry-run", "--json").stdout)
    assert (told["snapshot"], told["dry_run"], told["rows"]) == (f"{writing.generation}:{MILESTONES}", True, None)
    assert {one["partition"]: one["from"] for one in told["partitions"]} == {
        place.partition: at for place, at in cut.items()
    }
    assert (told["arrivals"]["newest"], told["origin_asked"]) == (f"{writing.generation}:1", True)
    assert (writing.topic, 0) in positions(own, writing.job), "nothing was touched"
    refused = " ".join(stage.resync().stderr.split())
    assert "give --yes; nothing was deleted" in refused
    assert f"the newest {writing.generation}:1 of " in refused
    mark = stage.folder / "mark"
    # Three times it is noted, and once positions go, each in its transaction: this one is of rows.
    crash = {"CUTWATER_CRASH_POINT": "transaction-open@5", "CUTWATER_CRASH_MARK": str(mark)}
    assert call(own, writing.cluster, *stage.verb, "--yes", **crash).returncode == -9
    assert mark.exists()
    with pytest.raises(UnavailableError, match=f"a resync of {writing.topic}"):
        make(own, writing.cluster, writing.job).run()
    assert arrivals(own, writing.job) == []
    monkeypatch.setattr(snapshot_writer, "RECORDS", 23)
    written: list[int] = []

    def beside(rows: int) -> None:
        """A mirror that its supervisor starts again and again does not end this."""
        if not written:
            with pytest.raises(UnavailableError, match=f"a resync of {writing.topic}"):
                make(own, writing.cluster, writing.job).run()
        written.append(rows)

    done = stage.seeding().run(lambda _: None, beside)
    assert done.seed.milestone.sequence == MILESTONES
    assert sum(written) == len(writing.by_sequence[MILESTONES]) == 40 * MILESTONES
    assert len(written) > 4, "several transactions"
    assert not (stage.folder / "data" / "resync" / writing.job.name / str(writing.generation)).exists()
    with mirroring(own, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, own, writing.job, 5)
        stage.epoch(6)
        wait_arrived(mirror, own, writing.job, 6)
    found = arrivals(own, writing.job)
    assert [one.sequence for one in found] == [5, 6], "the snapshot's own cannot be proved"
    for one in found:
        require_held(writing, own, one)
    _followed(stage, 6)


def _followed(stage: Stage, sequence: int) -> None:
    """A view of the copy, from nothing: every row is of its generation, and those of the milestone are proved."""
    one = stage.writing
    stream = CopiedStream(one.job.name, ORIGIN)
    with following(stage.own, one.job, stage.folder / "replica", stream=stream) as view:
        view.wait_for(sequence)
        assert view.rows() == (sequence, one.by_sequence[sequence])
        assert view.seen.divergences == 0


@pytest.mark.slow
def test_without_a_snapshot_that_fits_nothing_is_touched(stage: Stage) -> None:
    """Each refusal in words; the copy stays, and so do its arrivals."""
    own, writing = stage.own, stage.writing
    with mirroring(own, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, own, writing.job, stage.epoch(1))
    kept = positions(own, writing.job), arrivals(own, writing.job)
    with pytest.raises(UsageError, match=f"there is no snapshot of {writing.generation} in"):
        stage.seeding().plan()
    stage.snapshot()
    (files,) = (stage.store / writing.job.name).glob("*/all/files")
    shutil.move(files, stage.folder / "aside")
    with pytest.raises(UsageError, match=f"{writing.generation}:1: all is damaged"):
        stage.seeding().run(lambda _: None, lambda _: None)
    shutil.move(stage.folder / "aside", files)
    unsigned = stage.resync("--yes", CUTWATER_SNAPSHOT_KEY="the-key-of-this-test-" * 2)
    assert unsigned.exit_code == 2
    assert ":1: the manifest is not signed" in " ".join(unsigned.stderr.split())
    cut = dict(writing.cut)
    stage.epoch(2)
    lost = max(cut)
    stage.lose({lost: cut[lost] + 1})
    with pytest.raises(UsageError, match=rf":1: .*partition {lost.partition} begins at {cut[lost] + 1}: offset"):
        stage.seeding().run(lambda _: None, lambda _: None)
    assert (positions(own, writing.job), arrivals(own, writing.job)) == kept
    assert len(read_all(own, writing.topic, 0)) > 0


@pytest.mark.slow
def test_peers_that_share_the_partitions_are_a_snapshot_together(stage: Stage) -> None:
    """Where they are of one milestone: of the newest one nobody has partition 1, so the one before is taken."""
    own, writing = stage.own, stage.writing
    with mirroring(own, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, own, writing.job, stage.epoch(1))
    stage.epoch(2)
    stage.snapshot(0, 2)
    with pytest.raises(UsageError, match=f"{writing.generation}:2: no snapshot of it holds partition 1"):
        stage.seeding().plan()
    stage.snapshot(1, 2)
    cut = dict(writing.cut)
    stage.epoch(3)
    stage.snapshot(0, 2)
    stage.lose({place: at - 2 for place, at in cut.items()})
    told = parsed(["mirror", "resync"], stage.resync("--dry-run", "--json").stdout)
    assert (told["snapshot"], told["shares"]) == (f"{writing.generation}:2", ["p0-2", "p1-2"])
    assert told["passed_over"] == {f"{writing.generation}:3": "no snapshot of it holds partition 1"}
    written: list[int] = []
    done = stage.seeding().run(lambda _: None, written.append)
    assert done.seed.milestone.sequence == 2
    assert sum(written) == len(writing.by_sequence[2]) == 80, "a partition that two of them hold is written once"
    with mirroring(own, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, own, writing.job, stage.epoch(4))
    found = arrivals(own, writing.job)
    assert [one.sequence for one in found] == [3, 4]
    for one in found:
        require_held(writing, own, one)
    _followed(stage, 4)
