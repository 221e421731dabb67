"""What `cutwater doctor` says: one finding per check, and how bad it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    SKIPPED = "skipped"
    """Not looked at: something it needs is missing or was not asked for."""
    WARNING = "warning"
    """It works, but somebody should know."""
    ERROR = "error"
    """It does not work, or loses something."""


@dataclass(frozen=True)
class Finding:
    """One check: what was looked at, what was found, and what to do about it."""

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
    """The worst level of all; ok without any."""
    order = list(Level)
    return max((one.level for one in findings), key=order.index, default=Level.OK)
