"""A commit stream that was deleted and made anew: each reader says which one it is, and what to do about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.kafka import admin
from cutwater.core.errors import DivergenceError
from cutwater.core.protocol import topics
from support.views.changelogs import Sold, Writing, make_job, until
from support.views.publishing import create, publishing, wait_published


def test_a_publisher_says_publisher_and_not_view(broker: Any, tmp_path: Path) -> None:
    """It has no folder to delete: its position is a topic, and the output begins anew with it."""
    writing = Writing(broker.cluster, make_job(tmp_path)[0])
    stream = topics.milestones(writing.job.name)
    try:
        with publishing(writing.cluster, writing.job, tmp_path / "store"):
            writing.epoch([Sold("a", 1, 1)])
            wait_published(writing.cluster, writing.job, 1)
        admin.delete_topics(writing.cluster, [stream])
        until(lambda: not admin.descriptions(writing.cluster, [stream]), "the topic is gone")
        create(writing.cluster, writing.job)
        with (
            pytest.raises(DivergenceError, match=r"the publisher has read 0.*delete the job's topics \.output"),
            publishing(writing.cluster, writing.job, tmp_path / "store") as errors,
        ):
            until(lambda: errors, "the publisher has ended")
    finally:
        writing.close()
