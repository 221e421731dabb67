"""Windows of a key at an older milestone: a real store, and a constructed changelog in the place of brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.hashing import key_hash
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.console import past_windows
from cutwater.console.past_windows import FOLDER, RECORDS_MAX, PastWindows
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.state.backlog import Entry
from cutwater.core.state.point_in_time_restore import RestoreSources
from cutwater.views.query.view import View
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, HOUR_MS, Sold, make_job
from unit.views.store.test_store import entry, rows

NOW_MS = 10**12


class Changelog:
    """What the brokers of a job would give."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.job, _ = make_job(folder)
        self.ends = 100
        self.sold = [Sold("s1", hour, 10 + hour) for hour in range(5)]
        self.partitions: Any = None
        self.folders: list[Path] = []
        self.failure: Exception | None = None
        changelog = self

        class Rebuild:
            """Fills the folder as `views.snapshots.point_in_time.Rebuild` does."""

            def __init__(self, *told: Any, native: bool, selection: Any) -> None:
                _, job, generation, self.folder, self.partitions, *_ = told
                self.store = Store(
                    self.folder, job, generation, partitions=self.partitions, may_empty=False, selection=selection
                )
                changelog.folders.append(self.folder)

            def run(self, chosen: Any) -> None:
                if changelog.failure:
                    raise changelog.failure
                self.store.commit(chosen.to, rows(changelog.job, self.store, changelog.sold))

            def view(self) -> View:
                return View(self.store, changelog.job)

            def close(self) -> None:
                self.store.close()

        def sources(_cluster: Any, job: Any, _generation: Any, partitions: Any, *_more: Any) -> RestoreSources:
            self.partitions = partitions
            stream = [entry(job, 1), entry(job, 2)]
            every = range(job.shards.partitions)
            return RestoreSources(stream, dict.fromkeys(every, 0), dict.fromkeys(every, 0), NOW_MS, partitions)

        monkeypatch.setattr(past_windows, "Rebuild", Rebuild)
        monkeypatch.setattr(past_windows, "read_sources", sources)
        monkeypatch.setattr(past_windows, "working_for", lambda job, settings, _cluster: (job, settings))
        monkeypatch.setattr(past_windows, "now_ms", lambda: NOW_MS)


@pytest.fixture
def changelog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Changelog:
    return Changelog(monkeypatch, tmp_path)


@pytest.fixture
def past(changelog: Changelog, tmp_path: Path) -> PastWindows:
    return PastWindows(Cluster("127.0.0.1:1"), changelog.job, Settings(data_dir=tmp_path / "data"))


def token(sequence: int) -> str:
    return f"{GENERATION}:{sequence}"


def test_the_windows_are_those_of_the_milestone(changelog: Changelog, past: PastWindows, tmp_path: Path) -> None:
    """In the form of the API, of the key's partition only; nothing of it stays on the disk."""
    found = past.read(token(1), "s1", None, None, 3)
    assert found["milestone"]["token"] == token(1)
    assert [row["window_start"] for row in found["rows"]] == [f"1970-01-01T0{hour}:00:00Z" for hour in range(3)]
    assert found["next_from"] == "1970-01-01T03:00:00Z"
    shards = changelog.job.shards
    assert changelog.partitions == {shards.partition(shards.shard(key_hash("s1")))}
    assert list((tmp_path / "data" / FOLDER).iterdir()) == []
    assert changelog.folders[0].parent.parent == tmp_path / "data" / FOLDER


def test_a_range_of_windows(past: PastWindows) -> None:
    found = past.read(token(2), "s1", str(HOUR_MS), "1970-01-01T03:00:00Z", 100)
    assert [row["window_start"] for row in found["rows"]] == ["1970-01-01T01:00:00Z", "1970-01-01T02:00:00Z"]
    assert found["next_from"] is None


@pytest.mark.parametrize(
    ("at", "start", "said"),
    [
        (token(9), None, "does not hold"),
        ("nonsense", None, "is no target"),
        (token(1), "yesterday", "from: 'yesterday' is not a time"),
    ],
)
def test_a_wrong_question_is_refused(past: PastWindows, at: str, start: str | None, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        past.read(at, "s1", start, None, 5)


def test_a_partition_that_is_too_long_is_not_read(past: PastWindows, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the command that reads it."""
    chosen = SimpleNamespace(records_max=RECORDS_MAX + 1, to=Entry(SimpleNamespace(token="t"), b"", 0))  # type: ignore[arg-type]
    monkeypatch.setattr(past_windows, "plan", lambda _target, _known: chosen)
    with pytest.raises(UsageError, match="too many for a page: run 'cutwater restore'"):
        past.read(token(1), "s1", None, None, 5)


def test_a_failed_rebuild_leaves_nothing_and_gives_its_turn_back(
    changelog: Changelog, past: PastWindows, tmp_path: Path
) -> None:
    changelog.failure = UnavailableError("compaction has overtaken it")
    for _ in range(past_windows.AT_ONCE_MAX + 1):
        with pytest.raises(UnavailableError, match="overtaken"):
            past.read(token(1), "s1", None, None, 5)
    assert list((tmp_path / "data" / FOLDER).iterdir()) == []
    changelog.failure = None
    assert past.read(token(1), "s1", None, None, 5)["rows"]


def test_what_a_killed_console_has_left_is_removed(past: PastWindows, tmp_path: Path) -> None:
    left = tmp_path / "data" / FOLDER / "left"
    (left / "view").mkdir(parents=True)
    left.with_name("left.lock").touch()
    assert past.read(token(1), "s1", None, None, 5)["rows"]
    assert list(left.parent.iterdir()) == []


def test_only_so_many_are_rebuilt_at_once(past: PastWindows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_windows, "WAIT_S", 0.01)
    release: list[Callable[[], None]] = []
    for _ in range(past_windows.AT_ONCE_MAX):
        assert past._turns.acquire(blocking=False)
        release.append(past._turns.release)
    with pytest.raises(UnavailableError, match="try again"):
        past.read(token(1), "s1", None, None, 5)
    for one in release:
        one()
