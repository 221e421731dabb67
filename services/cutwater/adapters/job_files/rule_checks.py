"""Rules between the fields of job files: windows, times, shards, registry, measures that only the state has."""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.adapters.job_files.errors import JobErrors
from cutwater.adapters.job_files.models import AttachedModel, JobModel
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import RegistryUse
from cutwater.core.job.derived_values import names_in
from cutwater.core.job.job import Output
from cutwater.core.job.shards import ShardMap
from cutwater.core.job.windows import PANES_MAX, WindowSpec

STATE = "state"
"""Of a measure: `kept: state`."""


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


def check_kept(model: JobModel, errors: JobErrors) -> None:
    """Report measures of `kept: state` that the job cannot have."""
    in_state = [name for name, one in model.measures.items() if one.kept == STATE]
    if not in_state:
        return
    if len(in_state) == len(model.measures):
        errors.add(
            ("measures",),
            "every one is kept in state, so a generation would take over nothing from its parent; keep one in the "
            "changelog, such as {measure: count}",
        )
    used = {name for text in model.derived.values() for name in names_in(text)}
    for name in in_state:
        kept, one = ("measures", name, "kept"), model.measures[name]
        if name not in used:
            shown = f"derived: {{{name}_shown: {name}}}"
            errors.add(kept, f"no derived value reads '{name}', so nobody would see it: add one, as in {shown}")
        if one.renamed_from:
            errors.add(kept, "a generation takes over nothing of a measure in state alone: remove renamed_from")
        if _is_merged(model, errors):
            errors.add(
                kept,
                "readers merge a sliding window of panes, and nobody can merge what is computed from this "
                "measure; allowed with tumbling windows",
            )


def _is_merged(model: JobModel, errors: JobErrors) -> bool:
    """Return whether a window is merged of several rows."""
    is_sound = errors.sound(("window", "kind"), ("window", "size"), ("window", "slide"))
    return is_sound and model.window.slide not in (None, model.window.size)
