"""A team's policy for jobs: bounds of what a job file may say, checked before a job runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from cutwater.core.checks.findings import Finding, error, ok
from cutwater.core.job.job import Job
from cutwater.core.util.suggestions import listed

CHECK = "policy"
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms"))


class Bounds(NamedTuple):
    """Both ends may be what is checked."""

    at_least: float | None = None
    at_most: float | None = None

    def holds(self, value: float | None) -> bool:
        """Return whether a value is within. None is endless: it has no upper bound of its own."""
        if value is None:
            return self.at_most is None
        low = self.at_least is None or value >= self.at_least
        return low and (self.at_most is None or value <= self.at_most)

    @property
    def is_set(self) -> bool:
        return self.at_least is not None or self.at_most is not None


ANY = Bounds()


class ResourceRule(NamedTuple):
    """Bounds of what is kept of one resource (`core.sizing.lifecycle`)."""

    keep: Bounds = ANY
    """Milliseconds."""
    bytes: Bounds = ANY
    """Of all copies."""
    cost: Bounds = ANY
    """In a month."""


@dataclass(frozen=True)
class Policy:
    """What is None or empty is not checked. Times are milliseconds."""

    names: str = ""
    """A regular expression that the job's whole name must match."""
    formats: tuple[str, ...] = ()
    """Allowed formats of the source."""
    output_modes: tuple[str, ...] = ()
    output_formats: tuple[str, ...] = ()
    needs_max_jump: bool = False
    """Whether one event far ahead in time must be refused."""
    lateness: Bounds = ANY
    retention: Bounds = ANY
    """Of the rows behind their windows' ends."""
    output_retention: Bounds = ANY
    lists_retention: Bounds = ANY
    """Of dead letters and late events, which hold the events' bytes."""
    partitions: Bounds = ANY
    shards: Bounds = ANY
    state_bytes: Bounds = ANY
    """Of `max_bytes`."""
    lifecycle: Mapping[str, ResourceRule] = field(default_factory=dict)
    """By resource."""


class _Rule(NamedTuple):
    name: str
    """Of the policy's file."""
    field: str
    """Of the job file."""
    value: float | None
    bounds: Bounds
    is_time: bool = False


def check_policy(job: Job, policy: Policy) -> list[Finding]:
    """Return an error for each rule that the job breaks; one finding if it breaks none."""
    broken = [*_bounds(job, policy), *_words(job, policy)]
    return broken or [ok(CHECK, f"job {job.name} keeps it")]


def _bounds(job: Job, policy: Policy) -> Iterator[Finding]:
    for rule in _rules(job, policy):
        if not rule.bounds.holds(rule.value):
            found = f"{rule.field} is {_text(rule.value, rule.is_time)}"
            yield _broken(rule.name, found, bounds_text(rule.bounds, partial(_text, is_time=rule.is_time)))


def _rules(job: Job, policy: Policy) -> Sequence[_Rule]:
    rules = [
        _Rule("retention", "retention", job.retention_ms, policy.retention, True),
        _Rule("partitions", "partitions", job.shards.partitions, policy.partitions),
        _Rule("shards", "shards", job.shards.shards, policy.shards),
        _Rule("state_bytes", "max_bytes", job.max_bytes, policy.state_bytes),
    ]
    if job.output.mode != "none":
        kept = job.output.retention_ms
        rules.append(_Rule("output.retention", "output.retention", kept, policy.output_retention, True))
    if not job.attached:
        rules.append(_Rule("lateness", "lateness", job.lateness_ms, policy.lateness, True))
        kept_lists = job.lists_retention_ms
        rules.append(_Rule("lists.retention", "lists_retention", kept_lists, policy.lists_retention, True))
    return rules


def _words(job: Job, policy: Policy) -> Iterator[Finding]:
    if policy.names and not re.fullmatch(policy.names, job.name):
        yield _broken("names", f"the job is called {job.name}", f"a name that matches {policy.names}")
    chosen = [("output.modes", "output.mode", job.output.mode, policy.output_modes)]
    if job.output.mode != "none":
        chosen.append(("output.formats", "output.format", job.output.format, policy.output_formats))
    if not job.attached:
        chosen.append(("formats", "source.format", job.format.kind, policy.formats))
    for name, said, value, allowed in chosen:
        if allowed and value not in allowed:
            yield _broken(name, f"{said} is {value}", listed(allowed))
    if policy.needs_max_jump and not job.attached and job.max_jump_ms is None:
        yield _broken("needs_max_jump", "max_jump is not set", "a value: one event far ahead closes all windows")


def _broken(name: str, found: str, allowed: str) -> Finding:
    return error(CHECK, f"{name}: {found}", f"allowed: {allowed}; change the job file, or the policy")


def bounds_text(bounds: Bounds, text: Callable[[float], str]) -> str:
    parts = []
    if bounds.at_least is not None:
        parts.append(f"at least {text(bounds.at_least)}")
    if bounds.at_most is not None:
        parts.append(f"at most {text(bounds.at_most)}")
    return " and ".join(parts)


def _text(value: float | None, is_time: bool) -> str:
    if value is None:
        return "without a bound"
    if not is_time:
        return f"{value:,.0f}"
    return longest_unit_text(value)


def longest_unit_text(ms: float) -> str:
    """Return a whole number of ms in the largest unit that it is a multiple of, such as 2d."""
    unit_ms, unit = next(one for one in _UNITS if ms % one[0] == 0)
    return f"{ms / unit_ms:,.0f}{unit}"
