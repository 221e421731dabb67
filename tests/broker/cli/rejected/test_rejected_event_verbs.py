"""`cutwater dead-letters` and `cutwater late` on a real broker; this process plays the running stack."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cutwater.cli.main import app
from cutwater.local import running_file
from cutwater.local.running_file import RunningStack
from support.cli.jsonshapes import parsed
from support.events import readings
from support.protocol_samples import GENERATION
from support.rejected_events import Region


class Lists:
    """Two dead letters and one late event of one epoch, and their milestone."""

    def __init__(self, region: Region, folder: Path) -> None:
        self.region, self._folder = region, folder
        region.epoch(GENERATION, 0, {3: "undecodable", 4: "no key"}, {5: 70_000})
        job_file = folder / "job.yaml"
        job_file.write_text(readings.job_text(region.name))
        (folder / "event.avsc").write_text(json.dumps(readings.SCHEMA))
        pid, started = running_file.describe_self()
        RunningStack(
            pid=pid,
            started=started,
            ready=True,
            job_file=str(job_file),
            job=region.name,
            generation=str(GENERATION),
            bootstrap_servers=region.cluster.bootstrap,
            api_url="http://127.0.0.1:1",
            spark_ui_url="",
            data_dir=str(folder),
            logs={},
        ).write()

    def call(self, *words: str) -> Any:
        done = CliRunner().invoke(app, [*words, "--data-dir", str(self._folder), "--json"])
        assert done.exit_code == 0, done.output
        return parsed([*words], done.stdout)


@pytest.fixture
def lists(broker: Any, unique: Callable[[str], str], tmp_path: Path) -> Lists:
    return Lists(Region(broker.cluster, unique("listed")), tmp_path)


def test_dead_letters_are_listed_and_produced_again_once(lists: Lists) -> None:
    """The list agrees with the milestone's count; a replay names where each went, and the second finds none."""
    found = lists.call("dead-letters", "list")
    assert found["problems"] == []
    assert {one["offset"]: one["reason"] for one in found["entries"]} == {3: "undecodable", 4: "no key"}
    gone = lists.call("dead-letters", "replay", "--reason", "undecodable")
    assert [one["replayed"] for one in gone["entries"]] == [f"{lists.region.source}/1/0"]
    assert lists.region.produced() == [3]
    assert lists.call("dead-letters", "replay", "--reason", "undecodable")["entries"] == []
    assert [one["offset"] for one in lists.call("dead-letters", "list", "--unreplayed")["entries"]] == [4]


def test_late_events_are_listed_by_key(lists: Lists) -> None:
    """With the watermark that had closed their window; none of another key."""
    found = lists.call("late", "list")
    assert [(one["key"], one["offset"], one["watermark_ms"]) for one in found["entries"]] == [("k", 5, 70_000)]
    assert lists.call("late", "list", "--key", "j")["entries"] == []
