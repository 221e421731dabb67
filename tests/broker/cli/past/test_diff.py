"""`cutwater diff` and `rollback --diff` on a real broker, against DuckDB over the same events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.object_store import Objects
from cutwater.adapters.topics.candidates import candidates, with_partitions
from cutwater.cli.main import app
from cutwater.core.util.timestamps import iso, iso_ms
from support.cli.jsonshapes import parsed
from support.views.candidate_player import Candidate
from support.views.changelogs import HOUR_MS, Sold, Writing, make_job, now_ms, with_measures
from support.views.generation_player import Next
from support.views.sales_events import Sales
from support.views.snapshots import keeping

G1 = "g1-local-00000000"


class Verb:
    """The command line on one job."""

    def __init__(self, writing: Writing, job_file: Path, data: Path) -> None:
        self.writing, self.job_file, self.data = writing, job_file, data

        self._fixed = ["--data-dir", str(data), "--bootstrap-servers", writing.cluster.bootstrap]

    def __call__(self, one: str, other: str, *options: str) -> Result:
        words = ["--job-file", str(self.job_file), *options, *self._fixed]
        return CliRunner().invoke(app, ["diff", one, other, *words])

    def rollback(self, to: str, *options: str) -> Result:
        return CliRunner().invoke(app, ["rollback", str(self.job_file), "--to", to, *options, *self._fixed])

    def diff(self, one: str, other: str, *options: str) -> dict[str, Any]:
        done = self(one, other, *options, "--json")
        found: dict[str, Any] = parsed(["diff"], done.stdout)
        assert done.exit_code == (0 if found["equal"] else 1)
        return found

    def preview(self, to: str, *options: str) -> dict[str, Any]:
        done = self.rollback(to, "--diff", *options, "--json")
        found: dict[str, Any] = parsed(["rollback"], done.stdout)
        assert done.exit_code == (0 if found["diff"]["equal"] else 1)
        return found


@pytest.fixture
def verb(broker: Any, tmp_path: Path) -> Iterator[Verb]:
    job, path = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    yield Verb(writing, path, tmp_path / "data")
    writing.close()


def pieces(found: dict[str, Any]) -> dict[tuple[str, int], tuple[int | None, int | None]]:
    """What `diff` says of the pieces, by key and window start."""
    return {
        (one["key"], iso_ms(one["window_start"])): (
            (one["before"] or {}).get("pieces"),
            (one["after"] or {}).get("pieces"),
        )
        for one in found["differences"]
    }


def test_any_two_milestones_differ_as_duckdb_says(verb: Verb) -> None:
    """Forwards and backwards, by sequence, token, time and word; nothing is left in the data folder."""
    sales = Sales(verb.writing)
    sales.random_epochs(6, seed=3)
    for one, other in ((1, 6), (6, 1), (2, 3), (4, 4), (5, 2)):
        found = verb.diff(str(one), f"{G1}:{other}", "--limit", "1000")
        expected = sales.differences(one, other)
        assert pieces(found) == expected
        assert found["differing_rows"] == len(expected)
        assert found["added"] == sum(before is None for before, _ in expected.values())
        assert found["removed"] == sum(after is None for _, after in expected.values())
        assert found["changed"] == found["differing_rows"] - found["added"] - found["removed"]
    assert verb.diff(iso(now_ms(), always_ms=True), "latest")["equal"]  # type: ignore[arg-type]
    assert [*(verb.data / "diff").iterdir()] == []


def test_each_measure_is_named_with_both_values(verb: Verb) -> None:
    """Added and removed rows have all of them; the table says the same in words."""
    sales = Sales(verb.writing)
    sales.epoch([("a", 1, 5), ("b", 1, 1)])
    sales.epoch([("a", 1, 2), ("c", 1, 4)])
    found = verb.diff("1", "2")
    changed, added = found["differences"]
    assert (changed["kind"], changed["before"]["pieces"], changed["after"]["pieces"]) == ("changed", 5, 7)
    assert (changed["before"]["mean"], changed["after"]["takings"]) == (0.05, "0.07")
    assert (added["key"], added["kind"], added["before"], added["after"]["pieces"]) == ("c", "added", None, 4)
    assert (found["before"]["rows"], found["after"]["rows"], found["differing_measures"]["pieces"]) == (2, 3, 1)
    text = verb("1", "2", "--wide")
    assert text.exit_code == 1
    assert "pieces: 5 → 7" in text.output
    assert "1 added, 1 changed" in text.output
    equal = verb("2", "2")
    assert (equal.exit_code, "are equal: 3 windows" in equal.output) == (0, True)


def test_the_limit_bounds_what_is_shown_and_not_what_is_counted(verb: Verb) -> None:
    sales = Sales(verb.writing)
    sales.epoch([])
    sales.epoch([(f"s{number}", 1, 1) for number in range(50)])
    found = verb.diff("1", "2", "--limit", "7")
    assert (len(found["differences"]), found["differing_rows"], found["added"]) == (7, 50, 50)
    assert verb.diff("1", "2", "--limit", "0")["differences"] == []


def test_a_part_of_the_keys(verb: Verb) -> None:
    """Only their partitions are read, by their names; a prefix reads all."""
    sales = Sales(verb.writing)
    sales.epoch([("aa", 1, 1), ("ab", 1, 1), ("b", 1, 1)])
    sales.epoch([("aa", 1, 1), ("ab", 2, 1), ("b", 1, 1)])
    assert {key for key, _ in pieces(verb.diff("1", "2", "--keys", "aa,b"))} == {"aa", "b"}
    assert {key for key, _ in pieces(verb.diff("1", "2", "--prefix", "a"))} == {"aa", "ab"}
    late = verb.diff("1", "2", "--since", iso(2 * HOUR_MS, always_ms=True))  # type: ignore[arg-type]
    assert pieces(late) == {("ab", 2 * HOUR_MS): (None, 1)}


def test_windows_that_only_one_can_hold_are_not_compared(verb: Verb) -> None:
    """The later milestone's horizon has passed the first hours: they are no difference."""
    sales = Sales(verb.writing)
    sales.epoch([("a", hour, 1) for hour in range(1, 6)])
    passed_ms = 3 * HOUR_MS + verb.writing.job.rows_retention_ms
    sales.epoch([("a", 5, 1)], watermark_ms=passed_ms)
    found = verb.diff("1", "2")
    assert pieces(found) == {("a", 5 * HOUR_MS): (1, 2)}
    assert found["compared_above"] == iso(3 * HOUR_MS)
    assert (found["before"]["rows"], found["after"]["rows"]) == (3, 3)


@pytest.mark.slow
def test_a_candidate_beside_the_live_one(verb: Verb) -> None:
    """Named by its generation: another number of partitions, numbers of its own, and one row that is other."""
    sales = Sales(verb.writing)
    sales.random_epochs(3, seed=5)
    candidate = Candidate(verb.writing, partitions=5)
    candidate.begin()
    equal = verb.diff("latest", str(candidate.generation))
    assert (equal["equal"], equal["before"]["token"], equal["after"]["rows"]) == (
        True,
        f"{G1}:3",
        equal["before"]["rows"],
    )
    candidate.epoch([Sold("odd", 1, 3)])
    found = verb.diff("latest", str(candidate.generation))
    assert pieces(found) == {("odd", HOUR_MS): (None, 3)}
    unknown = verb("latest", "g9-local-00000001")
    assert (unknown.exit_code, "does not hold g9-local-00000001" in " ".join(unknown.output.split())) == (2, True)


def test_generations_of_other_measures_are_compared_on_the_shared_ones(verb: Verb) -> None:
    """With both job files; without the other one the refusal names the option."""
    Sales(verb.writing).epoch([("a", 1, 5), ("b", 1, 1)])
    other = verb.job_file.with_name("other.yaml")
    other.write_text(f"{verb.job_file.read_text()}  most: {{measure: max, field: pieces}}\n")
    candidate = Candidate(verb.writing)
    candidate.job = with_partitions(with_measures(load_job(other)), 4)
    candidate.epoch([Sold("a", 1, 6), Sold("b", 1, 1)])
    refused = verb("latest", str(candidate.generation))
    assert (refused.exit_code, "--other-job-file" in " ".join(refused.output.split())) == (2, True)
    found = verb.diff("latest", str(candidate.generation), "--other-job-file", str(other))
    shared = ["sales", "pieces", "takings", "mean"]
    assert found["measures"] == {"shared": shared, "only_before": [], "only_after": ["most"]}
    assert pieces(found) == {("a", HOUR_MS): (5, 6)}


@pytest.mark.slow
def test_a_preview_of_a_rollback_is_what_the_rollback_then_changes(verb: Verb) -> None:
    """By token, number and time. Nothing is claimed by it."""
    sales = Sales(verb.writing)
    sales.random_epochs(5, seed=8)
    made = verb.writing.last
    assert made is not None
    told = verb.preview(f"{G1}:2", "--limit", "1000")
    assert (told["claimed"], told["parent"], told["rewinds_to"]) == (False, f"{G1}:2", 2)
    assert pieces(told["diff"]) == sales.differences(5, 2)
    assert verb.preview("2", "--limit", "1000")["diff"]["differences"] == told["diff"]["differences"]
    assert verb.preview(iso(made.committed_ms, always_ms=True))["parent"] == f"{G1}:5"  # type: ignore[arg-type]
    assert candidates(verb.writing.cluster, verb.writing.job.name).by_id == {}
    Next(verb.writing, 2, rewinds=True).promoted([])
    after = verb.diff("5", "latest", "--limit", "1000")
    assert after["differences"] == told["diff"]["differences"]
    text = verb.rollback("2", "--diff")
    assert text.exit_code in (0, 1)
    assert "would be claimed" in text.output


def test_a_milestone_that_is_kept_in_a_snapshot_only(
    verb: Verb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction has overtaken it: without the snapshot it is refused."""
    sales = Sales(verb.writing)
    sales.random_epochs(2, seed=1)
    monkeypatch.setenv("CUTWATER_SNAPSHOTS", str(tmp_path / "store"))
    old = now_ms() - 48 * HOUR_MS
    sales.epoch([("x", 1, 1)], written_ms=old, epoch_started_ms=old)
    with keeping(verb.writing, tmp_path / "view", Objects(str(tmp_path / "store"))) as (view, kept):
        view.wait_for(3)
        kept.snapshot()
    sales.epoch([("x", 1, 2)], epoch_started_ms=old)
    sales.epoch([("y", 1, 2)])
    found = verb.diff("3", "latest")
    assert pieces(found) == sales.differences(3, 5)
    monkeypatch.delenv("CUTWATER_SNAPSHOTS")
    refused = verb("3", "latest")
    assert (refused.exit_code, "cannot be restored" in " ".join(refused.output.split())) == (2, True)


def test_sliding_windows_are_compared_as_users_see_them(broker: Any, tmp_path: Path) -> None:
    """One pane is other: every window that holds it is."""
    _, path = make_job(tmp_path)
    path.write_text(path.read_text().replace("{kind: tumbling, size: 1h}", "{kind: sliding, size: 3h, slide: 1h}"))
    job = with_measures(load_job(path))
    writing = Writing(broker.cluster, job)
    writing.epoch([Sold("a", 5, 1), Sold("a", 6, 1)])
    writing.epoch([Sold("a", 6, 4)])
    found = Verb(writing, path, tmp_path / "data").diff("1", "2")
    assert pieces(found) == {
        ("a", 4 * HOUR_MS): (2, 5),
        ("a", 5 * HOUR_MS): (2, 5),
        ("a", 6 * HOUR_MS): (1, 4),
    }
    writing.close()


def test_too_many_records_are_refused_before_they_are_read(verb: Verb) -> None:
    Sales(verb.writing).random_epochs(3, seed=2)
    refused = verb("1", "3", "--records-max", "5")
    assert (refused.exit_code, "give a larger --records-max" in " ".join(refused.output.split())) == (2, True)
    unknown = verb("1", "yesterday")
    assert (unknown.exit_code, "names no milestone" in unknown.output) == (2, True)
