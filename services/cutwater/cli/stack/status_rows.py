"""The progress of a job's parts and its alerts, read from the topics, so that no watch is needed.

Repeated failures of processes are on no topic; they are read from the stack's own file.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client import TIMEOUT_S
from cutwater.adapters.runtime.clock import now_ms
from cutwater.cli.report import out, table
from cutwater.core.monitoring.alerts import REPEATED_FAILURE, TEXT_MAX, Alert, on, plain
from cutwater.core.monitoring.job_status import drift
from cutwater.core.monitoring.job_status_fold import observe_end, observe_view
from cutwater.core.monitoring.status_text import status_by_part
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.util.text_tables import Styled
from cutwater.core.util.timestamps import iso
from cutwater.local.running_file import RunningStack
from cutwater.operations import job_status
from cutwater.operations.job_status import SourceEnds


def read_progress(stack: RunningStack, settings: Settings, view: dict[str, object]) -> dict[str, Any]:
    """Return drift, parts and active alerts of the stack's generation, as plain values. Raises CutwaterError."""
    job = load_job(Path(stack.job_file))
    limits = job_status.limits_of(job, settings)
    state = job_status.recover(stack.cluster, job, Generation.parse(stack.generation), limits.window_ms)
    now = now_ms()
    ends = SourceEnds(stack.cluster, job.topic, patience_s=TIMEOUT_S)
    # Read before the end offsets, so that a transaction that commits meanwhile is counted in one of the two.
    open_ = ends.open_transactions(state)
    state = observe_end(state, ends.ask(state), now, limits.window_ms)
    state = replace(state, hidden=sum(one.records for one in open_))
    if token := view.get("token"):
        state = observe_view(state, Token.parse(str(token)).sequence, now)
    return {
        "parts": status_by_part(state, limits, now),
        "drift": asdict(drift(state)),
        "open_transactions": [one._asdict() for one in open_],
        "alerts": [plain(one) for one in (*on(state.alerts), *repeated_failures(stack, now))],
    }


def repeated_failures(stack: RunningStack, now_ms: int) -> list[Alert]:
    """Return an alert for each process of the stack that ends repeatedly in the same way."""
    return [
        Alert(
            stack.job,
            Generation.parse(stack.generation),
            REPEATED_FAILURE,
            name,
            "up",
            one.since_ms,
            None,
            0,
            one.times,
            f"{name} has ended {one.times} times in the same way, the last time at {iso(one.last_ms)}, with exit "
            f"code {one.exit_code}: {one.said or '(no message)'}. Starting it again does not help: follow the "
            f"message, or read its log: {stack.logs.get(name, stack.data_dir)}"[:TEXT_MAX],
        )
        for name, one in stack.failures.items()
        if one.repeats(now_ms)
    ]


def print_progress(found: dict[str, Any]) -> None:
    far = found["drift"]
    rows = list(found["parts"].items())
    rows += [
        ("waiting events", "unknown" if far["waiting"] is None else far["waiting"]),
        (
            "processed, not committed",
            f"{far['epochs']:,} epochs, {far['events']:,} events, {far['ms'] / 1000:,.1f} s",
        ),
        ("committed, not published", f"{far['unpublished']:,} milestones"),
    ]
    out.table(table("progress by part", ("part", "state"), rows))
    for one in found["open_transactions"]:
        _show_open(**one)
    for one in found["alerts"]:
        about = f" {one['kind']} ({one['part']}) since {one['raised']}: {one['text']}"
        out.print(Styled("alert:", "red"), about, whole=True)
        out.print(f"  first: {one['first_step']} (then {one['runbook']})", whole=True)


def _show_open(topic: str, partition: int, offset: int, records: int) -> None:
    about = f" {topic}/{partition}: a transaction is open at offset {offset}. {records:,} offsets after it are "
    end = "not read until it ends. If it stays open and its producer is gone, run:"
    out.print(Styled("held up:", "yellow"), about + end)
    where = f"--topic {topic} --partition {partition} --start-offset {offset}"
    out.print(f"  kafka-transactions.sh --bootstrap-server … abort {where}", whole=True)
