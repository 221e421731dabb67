"""A replay as a table and as JSON."""

from __future__ import annotations

from typing import Any

from cutwater.cli.past.difference_report import COLUMNS, change_json, change_row, changed_text
from cutwater.cli.report import iso, out, print_note, table
from cutwater.core.past.replay_reasons import Reason
from cutwater.core.past.state_difference import RowKind
from cutwater.core.protocol.records import Milestone
from cutwater.core.util.text_tables import Column
from cutwater.replay.run import ReplayResult

_COLUMNS = (*COLUMNS[:-1], Column("reason"), COLUMNS[-1])
_REASONS = {Reason.LATE: "late events", Reason.JOB_FILE: "another job file", Reason.UNKNOWN: "unknown"}
_WORDS = {RowKind.ADDED: "only in the replay", RowKind.REMOVED: "only in the job", RowKind.CHANGED: "changed"}


def replay_json(found: ReplayResult) -> dict[str, Any]:
    compared, summary = found.compared, found.compared.summary
    differences = summary.differences
    return {
        "from": _milestone_json(found.before) if found.before else None,
        "to": _milestone_json(found.after),
        "equal": found.is_equal,
        "offsets": {str(one.partition): [one.first, one.end] for one in found.ranges},
        "events": found.copied.events,
        "bytes": found.copied.bytes,
        "left_out_late": found.left_out.late,
        "left_out_jumps": found.left_out.jumps,
        "counted_late": found.left_out.late_counted,
        "rejected": found.rejected,
        "compared_above": iso(compared.above_ms),
        "live_rows": compared.live_rows,
        "replayed_rows": compared.expected_rows,
        "measures": {
            "shared": list(compared.measures.shared),
            "only_live": list(compared.measures.only_before),
            "only_replayed": list(compared.measures.only_after),
            "not_merged": list(compared.not_merged),
        },
        "differing_rows": differences.rows,
        **{kind.value: differences.kinds[kind] for kind in RowKind},
        "reasons": {reason.value: summary.reasons[reason] for reason in Reason},
        "differing_measures": dict(differences.measures),
        "within_error": dict(summary.within_error),
        "differences": [
            {**_renamed(change_json(one)), "reason": reason.value}
            for one, reason in zip(differences.first, summary.first, strict=True)
        ],
        "files": [{"path": str(one.path), "rows": one.rows} for one in found.files],
        "notes": list(found.left_out.notes),
    }


def _milestone_json(one: Milestone) -> dict[str, Any]:
    return {"token": one.token, "committed": iso(one.committed_ms), "watermark": iso(one.watermark_ms)}


def _renamed(change: dict[str, Any]) -> dict[str, Any]:
    names = {"before": "live", "after": "replayed"}
    return {names.get(name, name): value for name, value in change.items()}


def print_replay(found: ReplayResult) -> None:
    summary = found.compared.summary
    differences = summary.differences
    if differences.rows:
        title = f"windows that differ, job → replay: {len(differences.first):,} of {differences.rows:,}"
        rows = [
            (*cells, _REASONS[reason], values)
            for (*cells, values), reason in zip(map(change_row, differences.first), summary.first, strict=True)
        ]
        out.table(table(title, _COLUMNS, rows))
        kinds = ", ".join(f"{differences.kinds[one]:,} {_WORDS[one]}" for one in RowKind if differences.kinds[one])
        reasons = ", ".join(f"{summary.reasons[one]:,} {_REASONS[one]}" for one in Reason if summary.reasons[one])
        out.print(f"{kinds}{changed_text(differences)}; by reason: {reasons}")
    else:
        out.print(f"the replay is equal to {found.after.token}: {found.compared.live_rows:,} windows")
    for note in _notes(found):
        print_note(note)


def _notes(found: ReplayResult) -> list[str]:
    """Return what else to know about the replay."""
    compared, left = found.compared, found.left_out
    start = f"after {found.before.token}" if found.before else "from the source's first event on"
    notes = [
        f"{found.copied.events:,} events {start} up to {found.after.token} were counted in a sandbox",
        f"{compared.live_rows:,} windows of the job and {compared.expected_rows:,} of the replay were compared",
    ]
    if compared.above_ms:
        notes.append(f"windows that end by {iso(compared.above_ms)} were not compared: not all states hold them")
    counts = {
        "events that the job has listed as late were left out (--count-late counts them)": left.late,
        "events that the job has listed as late were counted": left.late_counted,
        "events that the job has rejected as jumps of the event time were left out": left.jumps,
        "events were rejected in the sandbox": found.rejected,
    }
    notes += [f"{count:,} {what}" for what, count in counts.items() if count]
    notes += [
        f"{name}: {count:,} windows have another value within the sketch's error, which is no difference"
        for name, count in compared.summary.within_error.items()
    ]
    measures = compared.measures
    for what, names in (("the job", measures.only_before), ("the replay", measures.only_after)):
        if names:
            notes.append(f"only {what} has {', '.join(names)}: not compared")
    if compared.not_merged:
        apart = ", ".join(compared.not_merged)
        notes.append(f"not compared, as rows of --from do not merge with the replayed ones: {apart}")
    notes += left.notes
    notes += [f"{one.path}: {one.rows:,} windows" for one in found.files]
    return notes
