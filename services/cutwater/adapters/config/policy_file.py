"""Files with a policy for jobs (docs/POLICY.md), read into a `cutwater.core.checks.policy.Policy`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from cutwater.adapters.config.model_file import read_model
from cutwater.adapters.job_files.models import parse_duration, parse_size
from cutwater.core.checks.policy import Bounds, Policy, ResourceRule
from cutwater.core.events.formats import AVRO, CONFLUENT, CONFLUENT_JSON, CONFLUENT_PROTOBUF, JSON
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.lifecycle import JobLoad
from cutwater.core.sizing.skew import KeySkew
from cutwater.core.util.suggestions import listed

FORMATS = (AVRO, CONFLUENT, JSON, CONFLUENT_JSON, CONFLUENT_PROTOBUF)
MODES = ("updates", "final", "none")
OUTPUT_FORMATS = (AVRO, CONFLUENT, JSON)
Milliseconds = Annotated[int, BeforeValidator(parse_duration)]
Kept = Literal["changelog", "generations", "output", "lists", "streams", "snapshots", "total"]
Count = Annotated[int, Field(ge=0, strict=True)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Times(_Model):
    at_least: Milliseconds | None = None
    at_most: Milliseconds | None = None

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.at_least, self.at_most)


class _Counts(_Model):
    at_least: Count | None = None
    at_most: Count | None = None

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.at_least, self.at_most)


def _known(allowed: tuple[str, ...]) -> BeforeValidator:
    def check(given: Any) -> Any:
        if not isinstance(given, list) or not given or any(one not in allowed for one in given):
            raise ValueError(f"write a list of some of: {listed(allowed)}")
        return given

    return BeforeValidator(check)


def _pattern(given: Any) -> str:
    try:
        return re.compile(str(given)).pattern
    except re.error as problem:
        raise ValueError(f"is no regular expression: {problem}") from None


class _OutputModel(_Model):
    modes: Annotated[tuple[str, ...], _known(MODES)] = ()
    formats: Annotated[tuple[str, ...], _known(OUTPUT_FORMATS)] = ()
    retention: _Times = _Times()


class _ListsModel(_Model):
    retention: _Times = _Times()


def _size(given: object) -> int:
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    return parse_size(given)


Bytes = Annotated[int, BeforeValidator(_size), Field(ge=0)]


class _Sizes(_Model):
    at_least: Bytes | None = None
    at_most: Bytes | None = None

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.at_least, self.at_most)


class _Costs(_Model):
    at_most: Annotated[float, Field(ge=0)] | None = None

    @property
    def bounds(self) -> Bounds:
        return Bounds(None, self.at_most)


class _ResourceModel(_Model):
    keep: _Times = _Times()
    bytes: _Sizes = _Sizes()
    cost: _Costs = _Costs()

    @property
    def rule(self) -> ResourceRule:
        return ResourceRule(self.keep.bounds, self.bytes.bounds, self.cost.bounds)


class _LoadModel(_Model):
    """The options of `cutwater size` of these names."""

    events_per_second: Annotated[float, Field(gt=0, le=1e9)]
    keys: Annotated[int, Field(ge=1, le=10**12, strict=True)] = 10_000
    zipf: Annotated[float, Field(ge=0, le=5)] = 0.0
    event_bytes: Annotated[int, Field(ge=1, le=10**9, strict=True)] = 200
    epoch: Annotated[float, Field(ge=0.1, le=60)] = 0.5
    copies: Annotated[int, Field(ge=1, le=10, strict=True)] = 3
    rejected: Annotated[float, Field(ge=0, le=1)] = 0.001

    @property
    def load(self) -> JobLoad:
        keys = KeySkew(self.keys, self.zipf)
        demand = Demand(self.events_per_second, keys, self.event_bytes, epoch_s=self.epoch, copies=self.copies)
        return JobLoad(demand, self.rejected)


class _PolicyModel(_Model):
    names: Annotated[str, BeforeValidator(_pattern)] = ""
    formats: Annotated[tuple[str, ...], _known(FORMATS)] = ()
    needs_max_jump: bool = False
    lateness: _Times = _Times()
    retention: _Times = _Times()
    output: _OutputModel = _OutputModel()
    lists: _ListsModel = _ListsModel()
    partitions: _Counts = _Counts()
    shards: _Counts = _Counts()
    state_bytes: _Counts = _Counts()
    lifecycle: dict[Kept, _ResourceModel] = Field(default_factory=dict)
    loads: dict[str, _LoadModel] = Field(default_factory=dict)


class TeamPolicy(NamedTuple):
    """A policy, and the loads that bytes and costs are computed from."""

    policy: Policy
    loads: Mapping[str, JobLoad]
    """By job."""


def read_policy(path: Path) -> Policy:
    """Return a file's policy. Raises UsageError with a line for each mistake."""
    return read_team_policy(path).policy


def read_team_policy(path: Path) -> TeamPolicy:
    """As `read_policy`, with the loads."""
    model, errors = read_model(path, _PolicyModel, "a policy has rules with their bounds (docs/POLICY.md)")
    policy = errors.finish(
        Policy(
            names=model.names,
            formats=model.formats,
            output_modes=model.output.modes,
            output_formats=model.output.formats,
            needs_max_jump=model.needs_max_jump,
            lateness=model.lateness.bounds,
            retention=model.retention.bounds,
            output_retention=model.output.retention.bounds,
            lists_retention=model.lists.retention.bounds,
            partitions=model.partitions.bounds,
            shards=model.shards.bounds,
            state_bytes=model.state_bytes.bounds,
            lifecycle={name: one.rule for name, one in model.lifecycle.items()},
        )
    )
    return TeamPolicy(policy, {name: one.load for name, one in model.loads.items()})
