"""`snapshots prune` of a job whose topics are deleted says how it works without brokers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.cli.state import snapshots
from cutwater.core.errors import UnavailableError


def test_a_job_without_topics_is_pruned_without_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> frozenset[int]:
        raise UnavailableError("the brokers know no topic: try again later")

    monkeypatch.setattr(snapshots, "parents_needed", unknown)
    one: Any = SimpleNamespace(names=SimpleNamespace(generation="g1-local-00000000"))
    store: Any = SimpleNamespace()
    settings = Settings(data_dir=tmp_path)
    with pytest.raises(UnavailableError, match=r"later\. If .* deleted for good.* CUTWATER_BOOTSTRAP_SERVERS"):
        snapshots._SnapshotContext("ticks", store, settings, "", Cluster("127.0.0.1:1")).needed(one)
    assert snapshots._SnapshotContext("ticks", store, settings, "", None).needed(one) == frozenset()
