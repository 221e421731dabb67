"""Rules for measures of `kept: state`: each combination whose rows could not be exact is refused."""

from __future__ import annotations

from cutwater.adapters.job_files.errors import JobErrors
from cutwater.adapters.job_files.models import JobModel
from cutwater.core.job.derived_values import names_in

STATE = "state"


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
