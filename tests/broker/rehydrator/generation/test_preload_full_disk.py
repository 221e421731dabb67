"""What a rehydrator has loaded ahead gives way to what it shows, once the disk is full."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.rehydrator.generation.test_preload import EAGER, loaded
from cutwater.views.store.folders import folder_of, preload_folder
from support.smalldisk import SmallDisk, small_disk
from support.views.candidate_player import Candidate
from support.views.changelogs import Sold, Writing, make_job, until
from support.views.rehydrating import Process, running

pytestmark = pytest.mark.needs("mount")


KEYS = 2_000
KEYS_AHEAD, NAME = 24_000, 500
LETTERS = string.ascii_letters + string.digits
ROOM = 96 << 10
"""Left on the full disk: less than the view needs next, and less than was loaded ahead."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "small") as one:
        yield one


def hours(*numbers: int) -> Iterator[Sold]:
    return (Sold(f"s{key}", number, key) for number in numbers for key in range(KEYS))


def long_names() -> Iterator[Sold]:
    """They cannot be made small: what is loaded takes the room that RocksDB wants before it writes again."""
    chance = random.Random(7)
    return (Sold("".join(chance.choices(LETTERS, k=NAME)), 1, 1) for _ in range(KEYS_AHEAD))


def is_full(served: Process) -> bool:
    return bool(served.get("/healthz").json()["status"] == "full")


def test_what_is_loaded_ahead_gives_way_to_a_full_disk(broker: Any, disk: SmallDisk, tmp_path: Path) -> None:
    """It is deleted, nothing is loaded in its place, and with its room the view goes on: nobody else made any."""
    job, path = make_job(tmp_path / "job")
    writing = Writing(broker.cluster, job)
    writing.epoch(hours(0))
    with running(broker.cluster, path, disk.folder, prefix=EAGER) as served:
        until(served.answers, "the API")
        until(lambda: served.shown() == 1, "the first generation")
        candidate = Candidate(writing)
        candidate.begin(long_names())
        loaded(served, candidate, 0)
        ahead = preload_folder(folder_of(disk.folder, job.name, candidate.generation))
        assert ahead.is_dir()
        disk.fill(but=ROOM)
        for number in range(2, 6):
            writing.epoch(hours(number))
        until(lambda: not ahead.exists(), "what was loaded ahead to be deleted")
        until(lambda: served.shown() == 5, "what did not fit beside it")
        until(lambda: not is_full(served), "it to follow")
        candidate.epoch(hours(7))
        writing.epoch(hours(6))
        until(lambda: served.shown() == 6, "the next one")
        assert not ahead.exists(), "the candidate was given up, and is not loaded anew"
    writing.close()
