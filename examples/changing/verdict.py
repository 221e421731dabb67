"""What view and output hold at the end, beside DuckDB over the same flights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
from examples.two_regions.report import DemoReport

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.client import committed
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import TOMBSTONE, Job
from cutwater.core.protocol.generation import Token
from cutwater.demo import compare, late_list, oracle, output_topic
from cutwater.demo.output_topic import Fold

WAIT_S = 60.0
GAPS_SHOWN = 3


class Emitted(NamedTuple):
    """What a reader of the output has that began with its first milestone."""

    rows: Fold
    milestones: int
    gaps: Sequence[str]


def emitted(cluster: Cluster, job: Job, up_to: Token) -> Emitted:
    """Read the output with `committed()`. Raise UnavailableError if it ends before `up_to`."""
    rows: Fold = {}
    gaps: list[str] = []
    sequence = milestones = 0
    for milestone in committed(job, cluster, idle_s=WAIT_S):
        if sequence and milestone.first_sequence != sequence + 1:
            gaps.append(f"sequence {milestone.first_sequence} follows {sequence}")
        sequence, milestones = milestone.token.sequence, milestones + 1
        for one in milestone.changes:
            at = one.key, one.window_start_ms
            if one.kind == TOMBSTONE:
                rows.pop(at, None)
            else:
                rows[at] = one
        if sequence >= up_to.sequence:
            return Emitted(rows, milestones, gaps[:GAPS_SHOWN])
    raise UnavailableError(f"the output ends at sequence {sequence}, below {up_to}")


def judge(
    report: DemoReport,
    cluster: Cluster,
    job: Job,
    events: pd.DataFrame,
    served: list[dict[str, Any]],
    output: Emitted,
) -> None:
    """Check view and output row by row, and that each flight is counted or listed as late."""
    window = job.window
    listed = late_list.read_late_list(cluster, job, events)
    wanted = oracle.rows(oracle.expected(events, window.size_ms, window.slide_ms, listed.pairs))
    _equal(report, "the view equals DuckDB over the flights sent", wanted, served)
    _equal(report, "the output equals it too", wanted, output_topic.read_rows(output.rows))
    report.check(
        "the output's sequences have no gap",
        not output.gaps,
        "; ".join(output.gaps) or f"{output.milestones:,} milestones",
    )
    lost = late_list.check_pairs(events, window, listed, sum(row["movements"] for row in served))
    report.check("each flight is counted or listed as late", not lost, "; ".join(lost.lines))


def _equal(report: DemoReport, what: str, wanted: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    found = compare.compare(wanted, rows)
    if found:
        report.show(compare.table(found))
    faults = f"{found.missing} missing, {found.unexpected} unexpected, {found.different} different"
    report.check(what, not found, f"{len(rows):,} rows: {faults}")
