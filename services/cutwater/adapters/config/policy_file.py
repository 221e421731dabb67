"""Files with a policy for jobs (docs/POLICY.md), read into a `cutwater.core.checks.policy.Policy`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from cutwater.adapters.config.model_file import read_model
from cutwater.adapters.job_files.models import parse_duration
from cutwater.core.checks.policy import Bounds, Policy
from cutwater.core.events.formats import AVRO, CONFLUENT, CONFLUENT_JSON, CONFLUENT_PROTOBUF, JSON
from cutwater.core.util.suggestions import listed

FORMATS = (AVRO, CONFLUENT, JSON, CONFLUENT_JSON, CONFLUENT_PROTOBUF)
MODES = ("updates", "final", "none")
OUTPUT_FORMATS = (AVRO, CONFLUENT, JSON)
Milliseconds = Annotated[int, BeforeValidator(parse_duration)]
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


def read_policy(path: Path) -> Policy:
    """Return a file's policy. Raises UsageError with a line for each mistake."""
    model, errors = read_model(path, _PolicyModel, "a policy has rules with their bounds (docs/POLICY.md)")
    return errors.finish(
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
        )
    )
