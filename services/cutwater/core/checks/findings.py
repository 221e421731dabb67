"""The findings of `cutwater doctor`, one per check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    SKIPPED = "skipped"
    """Not checked: a prerequisite is missing, or the check was not requested."""
    WARNING = "warning"
    """It works, with a risk."""
    ERROR = "error"
    """It does not work, or loses data."""


@dataclass(frozen=True)
class Finding:
    check: str
    level: Level
    found: str
    remedy: str = ""


def ok(check: str, found: str) -> Finding:
    return Finding(check, Level.OK, found)


def skipped(check: str, found: str, remedy: str = "") -> Finding:
    return Finding(check, Level.SKIPPED, found, remedy)


def warning(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Level.WARNING, found, remedy)


def error(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Level.ERROR, found, remedy)


def worst(findings: Iterable[Finding]) -> Level:
    order = list(Level)
    return max((one.level for one in findings), key=order.index, default=Level.OK)
