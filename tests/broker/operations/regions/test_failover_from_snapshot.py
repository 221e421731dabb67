"""A failover whose copied changelog is no longer whole begins from what a view of this region took."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from cutwater.adapters.kafka.client_config import Cluster
from support.regions.mirroring import Events, epoch, mirroring, wait_arrived
from support.regions.standing_by import SHARE, Standby
from support.views.changelogs import GENERATION, Writing, make_job


@pytest.fixture
def standby(broker: Any, origin: Cluster, tmp_path: Path) -> Iterator[Standby]:
    one = Writing(origin, make_job(tmp_path)[0])
    yield Standby(broker.cluster, one, tmp_path)
    one.close()


@pytest.mark.slow
def test_a_failover_begins_from_what_the_standbys_view_took(standby: Standby) -> None:
    """The copy of the changelog lacks records: without the snapshot nothing is fenced or claimed."""
    one, events = standby, Events(standby.writing)
    with mirroring(one.own, one.writing.cluster, one.writing.job) as mirror:
        for number in range(3):
            epoch(one.writing, events, number)
        wait_arrived(mirror, one.own, one.writing.job, 3)
        assert one.failover("--dry-run")["seed"]["from"] == "changelog"
        with one.replica(3) as replica:
            one.lose()
            empty = str(one.folder / "empty")
            for words in (["--dry-run"], []):
                said = one.failover(*words, code=2, CUTWATER_SNAPSHOTS=empty)
                assert "records below the cut were deleted" in said
                assert f"{empty} holds no snapshot of it" in said
                assert "'cutwater snapshots create'" in said
            assert mirror.error is None, "it was not fenced"
            assert one.create(replica)["share"] == SHARE
        seed = one.failover("--dry-run")["seed"]
        assert (seed["from"], seed["snapshots"]) == ("snapshot", [f"{GENERATION}:3 ({SHARE})"])
    with one.stored().opened(one.folder / "seeding", structlog.get_logger()) as (taken, rows):
        assert one.pieces(rows) == one.writing.by_sequence[3]
    assert [part.name for part in taken] == seed["snapshots"]
    claimed = one.failover()
    assert claimed["seed"] == seed
    assert one.failover("--dry-run")["seed"] is None, "its driver may have read it already"
