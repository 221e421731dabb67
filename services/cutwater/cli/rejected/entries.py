"""The entries of both lists as table rows and as JSON, and the options of both verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import typer

from cutwater.cli.report import iso, print_note, print_report
from cutwater.core.driver.rejected_events import EventPosition, LatePair, Letter
from cutwater.core.protocol.generation import Generation
from cutwater.core.util.text_tables import Column

LimitOption = Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of newest entries to list.")]
GenerationOption = Annotated[
    str | None, typer.Option(help="The generation, may be a candidate. Default: the promoted one.")
]
EpochOption = Annotated[int | None, typer.Option(min=0, help="Only this epoch, of every listed generation.")]

T = TypeVar("T", Letter, LatePair)


class Form(NamedTuple, Generic[T]):
    columns: tuple[str | Column, ...]
    row: Callable[[T], tuple[object, ...]]
    json: Callable[[T], dict[str, Any]]


def print_entries(
    title: str, chosen: Sequence[T], problems: Sequence[str], form: Form[T], limit: int, as_json: bool
) -> int:
    shown = sorted(chosen, key=sort_key)[-limit:]
    document = {"total": len(chosen), "problems": problems, "entries": [form.json(one) for one in shown]}
    counted = f"{title}: {len(shown)} of {len(chosen)}"
    print_report(counted, form.columns, map(form.row, shown), document, as_json)
    return say_problems(problems)


def sort_key(one: T) -> tuple[Generation, int, EventPosition]:
    """Return the sort key of an entry. Epochs count from 0 in each generation, so the generation comes first."""
    return one.by.generation, one.by.epoch, one.event


def print_notes(elsewhere: Iterable[str]) -> None:
    for one in elsewhere:
        print_note(one)


def parse_generation(generation: str | None) -> Generation | None:
    return Generation.parse(generation) if generation else None


def say_problems(problems: Sequence[str]) -> int:
    for one in problems:
        print_note(f"the list is not complete: {one}")
    return 1 if problems else 0


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", errors="backslashreplace")


def place_json(place: EventPosition | None) -> str | None:
    return None if place is None else str(place)


def _by(one: T) -> dict[str, Any]:
    return {"generation": str(one.by.generation), "attempt": one.by.attempt, "epoch": one.by.epoch}


def letter_json(one: Letter) -> dict[str, Any]:
    return {
        **one.event._asdict(),
        "reason": one.reason,
        "field": one.field,
        "rule": one.rule,
        "key": _text(one.key),
        "value_bytes": one.value_bytes,
        "head": _text(one.head),
        "written_ms": one.written_ms,
        **_by(one),
        "replayed": place_json(one.replayed),
    }


def _late_json(one: LatePair) -> dict[str, Any]:
    return {
        **one.event._asdict(),
        "key": one.key,
        "window_start": iso(one.window_start_ms),
        "window_end": iso(one.window_end_ms),
        "event_time_ms": one.event_time_ms,
        "watermark_ms": one.watermark_ms,
        **_by(one),
    }


def _writer_columns(one: T) -> tuple[str, int]:
    return f"g{one.by.generation.number}", one.by.epoch


def _letter_row(one: Letter) -> tuple[object, ...]:
    key = _text(one.key)
    why = (one.reason, one.field, one.rule)
    return (
        one.event,
        *why,
        key,
        one.value_bytes,
        iso(one.written_ms),
        *_writer_columns(one),
        _text(one.head),
        one.replayed,
    )


def _late_row(one: LatePair) -> tuple[object, ...]:
    times = (one.window_start_ms, one.window_end_ms, one.event_time_ms, one.watermark_ms)
    return one.event, one.key, *map(iso, times), *_writer_columns(one)


LETTER = Form(
    (
        *("event", "reason", "field", Column("rule", below=True), "key", Column("bytes", 4), Column("written", 1)),
        *(Column("by", 3), Column("epoch", 2), Column("begins with", below=True)),
        Column("produced again as", below=True),
    ),
    _letter_row,
    letter_json,
)
LATE = Form(
    (
        *("event", "key", "window from", Column("to", 3), Column("event time", 1)),
        *(Column("watermark", 2), Column("by", 5), Column("epoch", 4)),
    ),
    _late_row,
    _late_json,
)
