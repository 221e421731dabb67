"""kill -9 while it changes over to another generation: a start shows either, and ends at the new one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.rehydrator.cluster.test_standby import GATED
from broker.rehydrator.generation.test_switch import Reader, check, serving
from cutwater.adapters.avro import protocol_records
from cutwater.core.state.backlog import Entry
from cutwater.views.store.folders import folder_of
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, Sold, Writing, make_job, until
from support.views.rehydrating import SWITCH_POINTS, Process

POINTS = [*SWITCH_POINTS, "rows-read", "milestone-stored"]
"""The last two are those of the new view's first milestone: the old one had its own before they were armed."""


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    one = Writing(broker.cluster, make_job(tmp_path)[0])
    one.epoch(Sold(f"s{number}", number % 9, number) for number in range(300))
    yield one
    one.close()


@pytest.mark.slow
@pytest.mark.parametrize("starts_with_new", [False, True])
@pytest.mark.parametrize("point", POINTS)
def test_killed_while_it_changes_over(writing: Writing, tmp_path: Path, point: str, starts_with_new: bool) -> None:
    """I4: at every moment a start shows one milestone whole, never steps back, and comes to the new generation.

    A start may be told the generation by the commit stream, or go there by way of the one before.
    """
    with serving(writing, tmp_path) as served:
        until(lambda: served.shown() == 1, "the first generation")
    mark = tmp_path / "mark"
    armed = {"CUTWATER_CRASH_POINT": point, "CUTWATER_CRASH_MARK": str(mark)}
    with serving(writing, tmp_path, **armed) as served:
        writing.promote(5, [Sold("s1", 2, 7)])
        assert served.process.wait(60) == -9, served.log.read_text()
        assert mark.read_text() == point
    env = {"CUTWATER_GENERATION": str(writing.generation)} if starts_with_new else {}
    with serving(writing, tmp_path, **env) as served:
        until(lambda: served.get("/v1/milestone").is_success, "any milestone")
        with Reader(served) as reader:
            until(lambda: served.shown() == 2, "the new generation")
            writing.epoch([Sold("s1", 2, 8)])
            until(lambda: served.shown() == 3, "its next milestone")
            until(lambda: only(served, tmp_path, writing), "the first view to be deleted")
        check(reader, writing)


def only(served: Process, folder: Path, writing: Writing) -> bool:
    """Is nothing left of the first generation?"""
    assert served.process.poll() is None, served.log.read_text()
    return not any((folder / "data" / "views" / writing.job.name).glob("g1-*"))


@pytest.mark.slow
def test_a_start_shows_the_view_of_before_until_the_new_one_is_there(writing: Writing, tmp_path: Path) -> None:
    """Where the promoted generation's view is not built yet, readers have the last one, and it is said so."""
    with serving(writing, tmp_path) as served:
        until(lambda: served.shown() == 1, "the first generation")
    writing.promote(2, [Sold("s1", 2, 7)])
    gate, new = tmp_path / "gate", {"CUTWATER_GENERATION": str(writing.generation)}
    with serving(writing, tmp_path, GATED.format(gate=str(gate)), **new) as served:
        with Reader(served) as reader:
            until(lambda: "is promoted" in served.get("/healthz").json()["reason"], "it to say so")
            assert served.get("/healthz").json()["status"] == "restoring"
            gate.touch()
            until(lambda: 2 in {sequence for sequence, _, _ in reader.answers}, "the new generation")
        check(reader, writing)
        assert {sequence for sequence, _, _ in reader.answers} == {1, 2}


@pytest.mark.slow
def test_a_view_of_another_stream_is_not_shown(writing: Writing, tmp_path: Path) -> None:
    """What lies there from a stream that was replaced says nothing about this one."""
    folder = folder_of(tmp_path / "data", writing.job.name, GENERATION)
    store, last = Store(folder, writing.job, GENERATION), writing.last
    assert last is not None
    foreign = replace(last, rows=1)
    store.commit(Entry(foreign, protocol_records.encode(foreign), 0), {})
    store.close()
    writing.promote(2)
    gate, new = tmp_path / "gate", {"CUTWATER_GENERATION": str(writing.generation)}
    with serving(writing, tmp_path, GATED.format(gate=str(gate)), **new) as served:
        assert served.get("/v1/milestone").status_code == 503, "what lies there is whole, and not of this stream"
        gate.touch()
        until(lambda: served.shown() == 2, "the new generation")
