"""Rules between the fields of both kinds of job file: windows, times, shards, registry."""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.adapters.job_files.errors import JobErrors
from cutwater.adapters.job_files.models import AttachedModel, JobModel
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import RegistryUse
from cutwater.core.job.job import Output
from cutwater.core.job.shards import ShardMap
from cutwater.core.job.windows import PANES_MAX, WindowSpec


@dataclass(frozen=True)
class Frame:
    window: WindowSpec
    shards: ShardMap
    registry: RegistryUse
    output: Output


def frame(model: JobModel | AttachedModel, errors: JobErrors) -> Frame | None:
    """Return the checked parts, or None after reporting a broken rule to `errors`."""
    window = _window(model, errors)
    shards = _shards(model, errors)
    registry = errors.attempt(
        ("source", "registry"), lambda: _registry(model), ("source", "registry"), ("registry",)
    )
    _check_retention(model, errors)
    if window is None or shards is None or registry is None:
        return None
    output = Output(model.output.mode, model.output.format, model.output.retention)
    return Frame(window, shards, registry, output)


def _window(model: JobModel | AttachedModel, errors: JobErrors) -> WindowSpec | None:
    window, slide = model.window, ("window", "slide")
    if not errors.sound(("window", "kind"), slide):
        return None
    if window.kind == "sliding" and window.slide is None:
        errors.add(slide, "a sliding window needs it")
    if not errors.sound(slide, ("window", "size")):
        return None
    if window.kind == "tumbling" and window.slide not in (None, window.size):
        errors.add(slide, "a tumbling window has none; write kind: sliding")
    made = errors.attempt(slide, lambda: WindowSpec(window.size, window.slide or window.size))
    if made is not None and isinstance(model, JobModel) and made.panes_max > PANES_MAX:
        errors.add(
            slide,
            f"size and slide have the greatest common divisor {made.panes.size_ms} ms, so a window is merged of "
            f"{made.panes_max:,} panes; allowed: {PANES_MAX:,}. Choose a slide that divides the size",
        )
    return made


def _shards(model: JobModel | AttachedModel, errors: JobErrors) -> ShardMap | None:
    shards = errors.attempt(("shards",), lambda: ShardMap(model.shards, 1))
    if shards is None:
        return None
    return errors.attempt(("partitions",), lambda: ShardMap(model.shards, model.partitions))


def _check_retention(model: JobModel | AttachedModel, errors: JobErrors) -> None:
    is_sound = errors.sound(("retention",), ("lateness",))
    if is_sound and model.retention < model.lateness:
        errors.add(("retention",), "must be at least the lateness, or open windows would leave the state")
    late = ("late", "amend_for")
    if (
        isinstance(model, JobModel)
        and errors.sound(("retention",), late)
        and model.retention < model.late.amend_for
    ):
        errors.add(late, "must be at most the retention: a window that has left the state cannot be amended")


def _registry(model: JobModel | AttachedModel) -> RegistryUse:
    one, other = model.registry.url, model.source.registry if isinstance(model, JobModel) else ""
    if one and other and one != other:
        raise UsageError(
            "source.registry and registry.url name two registries, and a job has one: delete the former"
        )
    return RegistryUse(one or other, model.registry.auto_register)
