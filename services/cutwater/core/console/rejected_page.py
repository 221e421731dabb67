"""Dead letters and late events: their number by reason, and the newest ones as samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeVar

from cutwater.core.driver.rejected_events import Choice, LatePair, Letter

SAMPLES_MAX = 50
REASONS_MAX = 50
TEXT_MAX = 400
T = TypeVar("T", Letter, LatePair)


def dead_letters_page(found: Choice[Letter], show_payloads: bool) -> dict[str, Any]:
    """Return counts by reason, field and rule, and samples; without payloads if they must not be shown."""
    letters = found.entries if show_payloads else [one.without_payload() for one in found.entries]
    reasons = Counter((one.reason, one.field or "", one.rule or "") for one in letters)
    return {
        "total": len(letters),
        "replayed": sum(one.replayed is not None for one in letters),
        "reasons": [
            {"reason": reason, "field": field or None, "rule": rule or None, "count": count}
            for (reason, field, rule), count in reasons.most_common(REASONS_MAX)
        ],
        "samples": [_letter(one) for one in _newest(letters)],
        "problems": found.problems[:REASONS_MAX],
        "elsewhere": found.elsewhere[:REASONS_MAX],
        "payloads": show_payloads,
    }


def late_page(found: Choice[LatePair]) -> dict[str, Any]:
    """Return late events by how long their window had been closed, by key, and samples."""
    delays = Counter(lateness(one.watermark_ms - one.window_end_ms) for one in found.entries)
    keys = Counter(one.key for one in found.entries)
    return {
        "total": len(found.entries),
        "delays": [{"delay": name, "count": delays[name]} for name, _ in _DELAYS if delays[name]],
        "keys": [{"key": _cut(key), "count": count} for key, count in keys.most_common(20)],
        "samples": [_late(one) for one in _newest(found.entries)],
        "problems": found.problems[:REASONS_MAX],
        "elsewhere": found.elsewhere[:REASONS_MAX],
    }


_DELAYS = (
    ("under 1 minute", 60_000),
    ("1 to 10 minutes", 600_000),
    ("10 minutes to 1 hour", 3_600_000),
    ("1 hour to 1 day", 86_400_000),
    ("over 1 day", None),
)


def lateness(ms: int) -> str:
    """Return the class of a delay: how far the watermark was past the window's end."""
    return next(name for name, below in _DELAYS if below is None or ms < below)


def _newest(entries: Iterable[T]) -> list[T]:
    ranked = sorted(entries, key=lambda one: (one.by.generation, one.by.epoch, one.event))
    return ranked[-SAMPLES_MAX:][::-1]


def _letter(one: Letter) -> dict[str, Any]:
    return {
        "event": str(one.event),
        "reason": one.reason,
        "field": one.field,
        "rule": one.rule,
        "key": _text(one.key),
        "bytes": one.value_bytes,
        "head": _text(one.head),
        "written_ms": one.written_ms,
        "generation": str(one.by.generation),
        "epoch": one.by.epoch,
        "replayed": str(one.replayed) if one.replayed else None,
    }


def _late(one: LatePair) -> dict[str, Any]:
    return {
        "event": str(one.event),
        "key": _cut(one.key),
        "window_start_ms": one.window_start_ms,
        "window_end_ms": one.window_end_ms,
        "event_time_ms": one.event_time_ms,
        "watermark_ms": one.watermark_ms,
        "generation": str(one.by.generation),
        "epoch": one.by.epoch,
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else _cut(value.decode("utf-8", "backslashreplace"))


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
