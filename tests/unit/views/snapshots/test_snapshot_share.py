"""A snapshot that cannot be fetched is damaged, or not reached: only the first is passed over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.core.errors import UnavailableError
from cutwater.core.state.snapshot_manifest import Unusable
from cutwater.views.snapshots import snapshot_share
from cutwater.views.snapshots.snapshot_share import ShareReader, SnapshotShare


@pytest.mark.parametrize(
    ("reason", "away", "raised"),
    [
        ("a file is damaged", False, Unusable),
        ("a file is damaged", True, UnavailableError),
        ("", True, UnavailableError),
    ],
)
def test_a_store_that_was_away_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, reason: str, away: bool, raised: type[Exception]
) -> None:
    """A resync would give the copy up for an older snapshot, while the newest one is whole."""

    class Restorer:
        def __init__(self, *given: Any) -> None:
            self._metrics = given[5]

        def restore(self, *_given: Any) -> None:
            if away:
                self._metrics.record_answer(False)
            if reason:
                self._metrics.unusable(reason)

    monkeypatch.setattr(snapshot_share, "Restorer", Restorer)
    nothing: Any = None
    repository: Any = SimpleNamespace(name="s3://b", names=SimpleNamespace(share="all"))
    manifest: Any = SimpleNamespace(generation="g1-us", sequence=4, partitions=None)
    reader = ShareReader(nothing, nothing, nothing, nothing)
    with pytest.raises(raised):
        reader._fetch(SnapshotShare(repository, manifest, frozenset()), nothing, lambda: False)
