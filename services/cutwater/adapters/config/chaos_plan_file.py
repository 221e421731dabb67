"""Files with a plan of faults (docs/CHAOS.md), read into a `cutwater.core.chaos.plan.ChaosPlan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from cutwater.adapters.config.model_file import read_model
from cutwater.adapters.job_files.document.yaml_reader import Place
from cutwater.adapters.job_files.errors import JobErrors
from cutwater.adapters.job_files.models import parse_duration
from cutwater.core.chaos.plan import (
    BROKER,
    CLOCK,
    DISK_DELAY_MAX_S,
    DISK_DELAY_S,
    KINDS,
    LASTING,
    MEASURED,
    PROCESSES,
    ChaosPlan,
    Fault,
    LoadWish,
    overlaps,
)
from cutwater.core.load.load_draw import Flaws
from cutwater.core.load.rate_profile import RateProfile
from cutwater.core.sizing.skew import KeySkew
from cutwater.core.util.suggestions import listed

FAULTS_MAX = 100
SECONDS_MAX = 86_400.0
SHIFT_S_MAX = 1_000 * 86_400.0
FAULT_S = 10.0
"""A lasting fault's time, if the plan does not say `for`."""


def _seconds(value: object) -> float:
    """Return a duration in seconds. Raises ValueError as `parse_duration`."""
    found = parse_duration(value) / 1_000
    if found > SECONDS_MAX:
        raise ValueError(f"is longer than a plan may be, {SECONDS_MAX / 3_600:g} h")
    return found


def _signed_seconds(value: object) -> float:
    """Return a duration in seconds, with a minus sign for one back. Raises ValueError as `parse_duration`."""
    back = isinstance(value, str) and value.strip().startswith("-")
    found = parse_duration(value.strip()[1:] if back and isinstance(value, str) else value) / 1_000
    if found > SHIFT_S_MAX:
        raise ValueError(f"is more than a clock may be moved, {SHIFT_S_MAX / 86_400:g} d")
    return -found if back else found


Seconds = Annotated[float, BeforeValidator(_seconds)]
SignedSeconds = Annotated[float, BeforeValidator(_signed_seconds)]
Share = Annotated[float, Field(ge=0, le=1, strict=True)]
Process = Literal["driver", "commit-signal", "rehydrator", "publisher", "watch", "broker"]
Reached = Literal["driver", "commit-signal", "rehydrator", "publisher", "watch", "broker", "link"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _FaultModel(_Model):
    kill: Process | None = None
    stop: Process | None = None
    slow: Process | None = None
    full_disk: Process | None = None
    slow_disk: Process | None = None
    clock: Process | None = None
    cut: Reached | None = None
    delay: Literal["link"] | None = None
    restart: Process | None = None
    for_: Seconds | None = Field(None, alias="for")
    by: SignedSeconds | None = None
    gradual: bool | None = None

    @model_validator(mode="after")
    def _is_one(self) -> _FaultModel:
        kinds = [one for one in KINDS if getattr(self, one)]
        if len(kinds) != 1:
            raise ValueError(
                f"write one of {listed(KINDS)} with one of {listed(PROCESSES)}, as in {{kill: driver}}"
            )
        if self.for_ is not None and kinds[0] not in LASTING:
            raise ValueError(f"a {kinds[0]} does not last: leave out 'for'")
        self._require_size(kinds[0])
        return self

    def _require_size(self, kind: str) -> None:
        """Raise ValueError if `by` and `gradual` do not fit the kind."""
        if self.by is not None and kind not in MEASURED:
            raise ValueError(f"'by' is for {listed(MEASURED)}")
        if self.gradual is not None and kind != CLOCK:
            raise ValueError(f"'gradual' is for {CLOCK}")
        if kind == CLOCK and not self.by:
            raise ValueError("write by how much, as in {clock: driver, by: -20m}")
        if self.clock == BROKER:
            raise ValueError("the broker's clock cannot be moved: it is the one that compaction goes by")
        if kind != CLOCK and self.by is not None and not 0 < self.by <= DISK_DELAY_MAX_S:
            raise ValueError(f"'by' must be more than nothing and at most {DISK_DELAY_MAX_S:g} s")


class _LoadModel(_Model):
    rate: Annotated[float, Field(gt=0, le=1e6)] = 1_000.0
    shape: Literal["steady", "spike", "sawtooth"] = "steady"
    peak: Annotated[float, Field(ge=1, le=1_000)] = 5.0
    period: Seconds = 30.0
    keys: Annotated[int, Field(ge=1, le=10**12, strict=True)] = 10_000
    zipf: Annotated[float, Field(ge=0, le=5)] = 0.0
    move_hot_keys: Seconds | None = None
    out_of_order: Seconds = 0.0
    late: Share = 0.0
    bad: Share = 0.0
    duplicates: Share = 0.0
    seed: int = 0

    def wish(self) -> LoadWish:
        flaws = Flaws(self.late, self.bad, self.duplicates, int(self.out_of_order * 1_000))
        profile = RateProfile(self.rate, self.shape, self.peak, self.period)
        return LoadWish(profile, KeySkew(self.keys, self.zipf), flaws, self.move_hot_keys, self.seed)


class _PlanModel(_Model):
    duration: Seconds
    lag_bound: Seconds = 10.0
    recovery: Seconds = 60.0
    faults: Annotated[dict[str, _FaultModel], Field(max_length=FAULTS_MAX)] = Field(default_factory=dict)
    load: _LoadModel | None = None


def read_chaos_plan(path: Path) -> ChaosPlan:
    """Return a file's plan. Raises UsageError with a line for each mistake: file, line, field, what is allowed."""
    model, errors = read_model(path, _PlanModel, "a plan has a duration and faults by their time (docs/CHAOS.md)")
    return errors.finish(_compile(model, errors))


def _compile(model: _PlanModel, errors: JobErrors) -> ChaosPlan:
    faults = []
    for time, one in model.faults.items():
        place: Place = ("faults", time)
        try:
            at_s = _seconds(time)
        except ValueError as error:
            errors.add(place, str(error))
            continue
        if at_s >= model.duration:
            errors.add(place, f"is not before the plan's end, {model.duration:g} s")
        kind = next(name for name in KINDS if getattr(one, name))
        lasts_s = (one.for_ or FAULT_S) if kind in LASTING else 0.0
        by_s = one.by if one.by is not None else DISK_DELAY_S if kind in MEASURED else 0.0
        faults.append(Fault(kind, getattr(one, kind), at_s, lasts_s, by_s, bool(one.gradual)))
    faults.sort(key=lambda one: one.at_s)
    for why in overlaps(faults):
        errors.add(("faults",), why)
    load = model.load.wish() if model.load else None
    return ChaosPlan(model.duration, model.lag_bound, model.recovery, faults, load)
