"""A standby region's view takes snapshots of the newest arrival: beside the origin's own, kept while needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.kafka.client_config import Cluster
from support.regions.mirroring import Events, epoch, mirroring, wait_arrived
from support.regions.standing_by import SHARE, Standby
from support.views.changelogs import Writing, make_job, until
from support.views.snapshots import keeping, shelf_of


@pytest.fixture
def standby(broker: Any, origin: Cluster, tmp_path: Path) -> Iterator[Standby]:
    one = Writing(origin, make_job(tmp_path)[0])
    yield Standby(broker.cluster, one, tmp_path)
    one.close()


@pytest.mark.slow
def test_both_regions_snapshots_lie_side_by_side_in_one_store(standby: Standby, broker: Any) -> None:
    """A replica's is not the origin's: neither is restored by the other's view, nor pruned with its own."""
    one, events = standby, Events(standby.writing)
    with mirroring(one.own, one.writing.cluster, one.writing.job) as mirror:
        epoch(one.writing, events, 1)
        wait_arrived(mirror, one.own, one.writing.job, 1)
        with one.replica(1) as replica:
            one.create(replica)
            assert shelf_of(one.writing, one.store).sequences() == []
            with keeping(one.writing, one.folder / "origin", one.store, near=False) as (view, kept):
                view.wait_for(1)
                assert kept.restored is None, "a replica's is none of the origin's"
                kept.snapshot()
            until(lambda: one.shelf.sequences() == [1], "both")
        listed = one.call("snapshots", "list", str(one.path))["snapshots"]
        assert sorted(found["share"] for found in listed) == ["all", SHARE]
    # What the file names of the two say cannot be mixed up: a view of the origin refuses a replica's files.
    shelf = shelf_of(one.writing, one.store)
    folder = Path(one.store.place)
    for name in ("manifests", "files"):
        mine = folder / getattr(shelf.names, name)
        for path in mine.iterdir():
            path.unlink()
        for path in (folder / getattr(one.shelf.names, name)).iterdir():
            (mine / path.name).write_bytes(path.read_bytes())
    with keeping(one.writing, one.folder / "again", one.store, near=False) as (view, kept):
        view.wait_for(1)
        assert kept.restored is None
        assert "its files are a view at" in kept.told.errors()
        assert view.rows() == (1, one.writing.by_sequence[1])


@pytest.mark.slow
def test_what_an_open_claim_starts_from_is_not_pruned(standby: Standby) -> None:
    """Whatever the retention says; once the claim is given up it goes like any other."""
    one, events = standby, Events(standby.writing)
    keep = {
        f"CUTWATER_SNAPSHOT_KEEP_{name}": str(number) for name, number in [("LAST", 1), ("HOURS", 0), ("DAYS", 0)]
    }
    with mirroring(one.own, one.writing.cluster, one.writing.job) as mirror:
        epoch(one.writing, events, 1)
        wait_arrived(mirror, one.own, one.writing.job, 1)
        with one.replica(1, **keep) as replica:
            one.create(replica)
    claimed = one.failover()["generation"]
    again = mirroring(one.own, one.writing.cluster, one.writing.job)  # started again, it brings the fork
    with again as mirror, one.replica(1, **keep) as replica:
        for number in (2, 3):
            epoch(one.writing, events, number)
            wait_arrived(mirror, one.own, one.writing.job, number)
            until(lambda wanted=number: replica.shown() == wanted, "it")
            one.create(replica)
        until(lambda: one.shelf.sequences() == [3, 1], "2 to be pruned")
    prune = ("snapshots", "prune", str(one.path))
    assert one.call(*prune, **keep)["shares"][0]["retired"] == []
    where = ("--bootstrap-servers", one.own.bootstrap)
    one.call("generation", "abort", claimed, str(one.path), *where)
    assert one.call(*prune, **keep)["shares"][0]["retired"] == [1]


@pytest.mark.slow
def test_a_replica_keeps_one_beside_its_view(standby: Standby) -> None:
    """It begins from none: more of them would only keep old files of the view's alive."""
    one, events = standby, Events(standby.writing)
    with mirroring(one.own, one.writing.cluster, one.writing.job) as mirror:
        epoch(one.writing, events, 1)
        wait_arrived(mirror, one.own, one.writing.job, 1)
        with one.replica(1) as replica:
            one.create(replica)
            epoch(one.writing, events, 2)
            wait_arrived(mirror, one.own, one.writing.job, 2)
            until(lambda: replica.shown() == 2, "it")
            one.create(replica)
            assert [path.stem for path in (one.folder / "replica").rglob("*.checkpoints/*.json")] == ["2"]


@pytest.mark.slow
def test_without_a_store_a_replica_says_what_to_set(standby: Standby) -> None:
    one, events = standby, Events(standby.writing)
    with mirroring(one.own, one.writing.cluster, one.writing.job) as mirror:
        epoch(one.writing, events, 1)
        wait_arrived(mirror, one.own, one.writing.job, 1)
        with one.replica(1, CUTWATER_SNAPSHOTS="") as replica:
            answer = replica.post("/v1/snapshots")
            assert (answer.status_code, "set CUTWATER_SNAPSHOTS" in answer.text) == (409, True)
