"""The text of a drafted job file, with comments on where each value comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cutwater.core.events.formats import REGISTRY_FORMATS
from cutwater.core.events.rejection import MAX_BEHIND_MS
from cutwater.core.job.drafts.draft_fields import steps_of
from cutwater.core.job.drafts.draft_proposal import MAX_AHEAD_DEFAULT, Exploded, Proposal, duration
from cutwater.core.job.usable_events import Rejected

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that YAML does not read as text."""


NOT_JUDGED = "Which records would be rejected is not known: only Spark evaluates the job's expressions"


@dataclass(frozen=True)
class Draft:
    job: str
    topic: str
    schema_file: str
    format: str
    samples: int
    unreadable: int
    partitions: int
    left_out: Sequence[tuple[str, str]]
    proposal: Proposal
    rejected: Sequence[Rejected] | None = ()
    """None if only Spark can tell."""
    message: str = ""
    """Of Protobuf."""


def rejection_text(one: Rejected) -> str:
    field = f"{json.dumps(one.flaw.field)} " if one.flaw.field else ""
    return f"{one.records:,} as '{one.flaw.reason}': {field}{one.flaw.rule}"


def render(draft: Draft) -> str:
    return "\n".join([*_head(draft), *_body(draft)]) + "\n"


def _head(draft: Draft) -> list[str]:
    lines = [f"# Drafted by 'cutwater init' from {draft.samples:,} records of {draft.topic}: read it before use."]
    if draft.unreadable:
        lines.append(f"# {draft.unreadable:,} further records could not be read in this format.")
    lines += [f"# Would be rejected, {rejection_text(one)}." for one in (draft.rejected or ())[:50]]
    if draft.rejected is None:
        lines.append(f"# {NOT_JUDGED}.")
    lines += [f"# Left out of the schema: {json.dumps(name)}: {why}." for name, why in draft.left_out[:50]]
    return lines


def _body(draft: Draft) -> list[str]:
    one = draft.proposal
    format_line = [] if draft.format == "avro" else [f"  format: {draft.format}"]
    if draft.format in REGISTRY_FORMATS:
        format_line.append("  # registry: URL   # or CUTWATER_REGISTRY_URL")
    bounds = (("max_ahead", one.max_ahead_ms, MAX_AHEAD_DEFAULT), ("max_behind", one.max_behind_ms, MAX_BEHIND_MS))
    seen = [_line(name, ms, "as seen") for name, ms, default in bounds if ms != default]
    return [
        f"job: {text(draft.job)}",
        "source:",
        f"  topic: {text(draft.topic)}",
        *format_line,
        f"  schema: {text(draft.schema_file)}   # beside this file",
        *([f"  message: {text(draft.message)}"] if draft.message else []),
        f"  key: {_key(one.key)}   # {one.key_why}",
        f"  event_time: {text(one.event_time)}   # {one.event_time_why}",
        *([f"  columns:   # {_of_columns(one.columns.values())}"] if one.columns else []),
        *(f"    {text(name)}: {text(path)}" for name, path in one.columns.items()),
        *(_explode(one.exploded) if one.exploded else []),
        "window:",
        "  kind: tumbling",
        f"  size: {duration(one.window_ms)}   # {one.window_why}",
        "# A first run over a backlog reads partitions unevenly in time: it may need more than this.",
        _line("lateness", one.lateness_ms, one.lateness_why),
        _line("retention", one.retention_ms, "how long a window can be read after its end"),
        *seen,
        f"partitions: {draft.partitions}   # of the changelog: as many as the source has",
        "measures:   # docs/JOBFILE.md lists all kinds",
        *(_measure(name, kind, field) for name, (kind, field) in one.measures.items()),
    ]


def _of_columns(paths: Iterable[str]) -> str:
    renamed = any(len(steps_of(one)) == 1 for one in paths)
    return "fields inside of others, or under another name" if renamed else "fields inside of others"


def _explode(one: Exploded) -> list[str]:
    return [
        "  explode:   # each element of the array is an event",
        f"    array: {text(one.array)}",
        f"    as: {text(one.element)}",
        "    columns:",
        *(f"      {text(name)}: {text(path)}" for name, path in one.columns.items()),
    ]


def _key(names: Sequence[str]) -> str:
    return text(names[0]) if len(names) == 1 else f"[{', '.join(map(text, names))}]"


def _line(name: str, ms: int, why: str) -> str:
    return f"{name}: {duration(ms)}   # {why}"


def _measure(name: str, kind: str, field: str | None) -> str:
    over = f", field: {text(field)}" if field else ""
    return f"  {text(name)}: {{measure: {kind}{over}}}"


def text(value: str) -> str:
    """Return a text as a YAML scalar, quoted if necessary."""
    plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return value if plain else f'"{"".join(map(_escaped, value))}"'


def _escaped(one: str) -> str:
    if one in '"\\':
        return f"\\{one}"
    return one if " " <= one <= "~" else f"\\U{ord(one):08x}"


def job_name(topic: str) -> str:
    """Return a job's name for a topic: `orders-v1` for `Orders.v1.events`."""
    cut = re.sub(r"[._-]?events?$", "", topic, flags=re.IGNORECASE) or topic
    plain = re.sub(r"[^a-z0-9]+", "-", cut.lower()).strip("-")
    named = plain if plain[:1].isalpha() else f"job-{plain}"
    return named[:60].strip("-")


def schema_name(job: str) -> str:
    """Return a record's name for a job: `OrdersV1Event` for `orders-v1`."""
    return "".join(part.capitalize() for part in job.split("-")) + "Event"
