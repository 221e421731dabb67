"""Each guard of Spark's seed: right with it, and not without it. The scenes are those of the other readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.core.errors import CutwaterError
from cutwater.core.generations import seed_check as deciding
from cutwater.core.job.measures import SEED as PARTIALS
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.operations.generations import parent_changelog
from cutwater_spark.seed import from_changelog, prepare
from cutwater_spark.seed.parent import unchanged
from cutwater_spark.seed.prepare import SeedPreparation
from support.views import reader_guards
from support.views.changelogs import Rows, Writing, make_job
from support.views.reader_guards import SEED, Guard, hole_of, tried
from support.views.reader_holes import both, off
from support.views.reader_scenes import Played, play

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_records, _require_state = from_changelog._records, prepare.require_state


def _up_to_the_end(spark: SparkSession, cluster: Any, parent: Any) -> Any:
    topic = parent.changelog_cut.entries[0][0].topic
    ends = Offsets(cluster).topic_ends(topic, len(parent.changelog_cut.entries))
    return _records(
        spark, cluster, replace(parent, changelog_cut=Cut.of_topic(topic, [ends[at] for at in sorted(ends)]))
    )


def _without(name: str) -> Any:
    return off(
        prepare,
        "require_state",
        lambda parent, read, written: _require_state(parent, replace(read, **{name: 0}), written),
    )


HOLES = {
    "above the cut": off(from_changelog, "_records", _up_to_the_end),
    "end below the cut": both(
        off(parent_changelog, "missing_changelog", lambda *_: ""), off(from_changelog, "_records", _up_to_the_end)
    ),
    "foreign": _without("foreign"),
    "later": _without("later"),
    "count and digest": off(deciding, "mismatch", lambda *_: ""),
    "leaders": off(LogCheck, "find_losses", lambda *_: []),
    "containment": off(parent_changelog, "compaction_risk", lambda *_: ""),
    "deleted": _without("deleted"),
    "below the horizon": off(from_changelog, "is_kept", lambda _change, _parent: "true"),
}


@pytest.mark.parametrize("guard", [one for one, _ in tried(SEED)], ids=lambda one: one.name.replace(" ", "-"))
def test_right_with_the_guard_and_not_without_it(
    spark: SparkSession, broker: Any, tmp_path: Path, guard: Guard
) -> None:
    writing = Writing(broker.cluster, make_job(tmp_path)[0])
    scene = play(writing, guard.scene, tmp_path)
    holds = guard.holds | {"elsewhere"} if guard.holds != {reader_guards.RIGHT} else guard.holds
    with_it = outcome(spark, scene, tmp_path / "with", lambda: hole_of(guard, SEED, False))
    assert with_it in holds, f"with the guard: {with_it}"
    without = outcome(spark, scene, tmp_path / "without", lambda: hole_of(guard, SEED, True))
    assert without not in holds, f"without the guard: {without}"
    print(f"{guard.name}, {SEED}: {with_it} with it, {without} without")


def outcome(spark: SparkSession, scene: Played, folder: Path, hole: Callable[[], Any]) -> str:
    """What the seed of the second milestone is; `elsewhere` where the changelog is not taken for it."""
    job, cluster = scene.writing.job, scene.writing.cluster
    settings: Any = SimpleNamespace(cluster=cluster, generation=Generation(2, "local"))
    reads = SeedPreparation(spark, job, settings, 1, scene.now_ms, _Silent(), lambda: False)
    try:
        with hole():
            if reads._from_changelog(unchanged(job), scene.last, str(folder)):
                return "elsewhere"
    except CutwaterError as error:
        return type(error).__name__
    return reader_guards.RIGHT if _rows(spark, folder) == scene.truth else reader_guards.WRONG


def _rows(spark: SparkSession, folder: Path) -> Rows:
    found = spark.read.parquet(str(folder)).selectExpr(
        "__key as key", "unix_millis(__window.start) as start", f"`{PARTIALS}`.pieces as pieces"
    )
    return {(row.key, row.start): int(row.pieces) for row in found.collect()}


class _Silent:
    def __getattr__(self, _name: str) -> Any:
        return lambda *_args, **_named: None
