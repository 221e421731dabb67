"""A mirror's metrics, each in the unit that its name says; no broker is needed."""

from __future__ import annotations

from dataclasses import fields, replace
from math import isnan

import pytest

from cutwater.core.mirror.replica_lag import SafeTime
from cutwater.mirror.metrics import Metrics

KNOWN = SafeTime(
    origin="us",
    token="g1-us-00000000:8",
    watermark_ms=1_357_002_000_500,
    age_ms=16_250,
    milestones=2,
    lag_ms=15_500,
    records=30,
    size=3_000,
    skew_ms=31_750,
    records_per_s=12.0,
    catch_up_s=2.5,
)
SHOWN = {
    "age_ms": ("age_seconds", 16.25),
    "watermark_ms": ("watermark_timestamp_seconds", 1_357_002_000.5),
    "lag_ms": ("lag_seconds", 15.5),
    "milestones": ("lag_milestones", 2),
    "records": ("lag_records", 30),
    "size": ("lag_bytes", 3_000),
    "skew_ms": ("skew_seconds", 31.75),
    "catch_up_s": ("catch_up_seconds", 2.5),
}
"""Each field that is told: its gauge, and what that shows."""
NOT_TOLD = {"origin", "token", "records_per_s"}
"""A process copies one origin; the newest arrival's sequence and the records copied are metrics of their own."""
MAYBE_UNKNOWN = sorted(SHOWN.keys() - {"skew_ms"})


def shown(one: SafeTime, metrics: Metrics | None = None) -> dict[str, float]:
    """What each gauge shows, by field."""
    metrics = metrics or Metrics()
    metrics.safe(one)
    found = {
        field: metrics.registry.get_sample_value(f"cutwater_mirror_{name}") for field, (name, _) in SHOWN.items()
    }
    assert None not in found.values(), found
    return {field: value for field, value in found.items() if value is not None}


def test_all_of_a_safe_time_is_told_in_its_unit() -> None:
    """Milliseconds become seconds, counts stay; a field that comes new is told, too, or named here."""
    assert {one.name for one in fields(SafeTime)} == SHOWN.keys() | NOT_TOLD
    assert shown(KNOWN) == {field: value for field, (_, value) in SHOWN.items()}


@pytest.mark.parametrize("unknown", MAYBE_UNKNOWN)
def test_what_is_not_known_is_no_number(unknown: str) -> None:
    """Each by itself, and where it was known before: that would pass for a value of now. The others are told."""
    metrics = Metrics()
    metrics.safe(KNOWN)
    found = shown(replace(KNOWN, **{unknown: None}), metrics)
    assert isnan(found.pop(unknown))
    assert found == {field: value for field, (_, value) in SHOWN.items() if field != unknown}


def test_nothing_behind_is_told_as_zero() -> None:
    """Caught up is known: it must not look like not known."""
    nothing = dict.fromkeys(("age_ms", "milestones", "lag_ms", "records", "size", "skew_ms"), 0)
    caught_up = replace(KNOWN, **nothing, catch_up_s=0.0)
    zeros = dict.fromkeys([*nothing, "catch_up_s"], 0.0)
    assert shown(caught_up) == {field: value for field, (_, value) in SHOWN.items()} | zeros
