"""A parent's rows as the seeds of a generation whose job differs, in Spark's SQL.

`cutwater.core.generations.seed_change` does the same for one row, and a test compares them.
"""

from __future__ import annotations

import json
from typing import Any

from cutwater.core.generations.seed_change import SeedChange
from cutwater.core.job.measures import SEED
from cutwater.core.protocol.records import Milestone
from cutwater_spark.query.sql import name, text


def changed_seeds(change: SeedChange, state_schema: dict[str, Any]) -> list[str]:
    """Return the columns of a seed, of rows with key and window in `at` and the parent's partials in `SEED`.

    `state_schema`: that of the new state, from which a column that starts empty has its type.
    """
    start = f"(at.window_start - pmod(at.window_start, {change.pane_ms}L))"
    window = f"'start', timestamp_millis({start}), 'end', timestamp_millis({start} + {change.pane_ms}L)"
    nothing = f"from_avro(cast(null as binary), {text(json.dumps(state_schema))})"
    told = [f"{nothing}.{name(new)}" if old is None else f"{SEED}.{name(old)}" for new, old in change.columns]
    named = ", ".join(f"{text(new)}, {sql}" for (new, _), sql in zip(change.columns, told, strict=True))
    partials = SEED if change.is_none else f"named_struct({named}) as {SEED}"
    return [f"{_key(change)} as __key", f"named_struct({window}) as __window", partials]


def is_kept(change: SeedChange, parent: Milestone) -> str:
    """Return the condition under which a parent's row becomes a seed: its new pane is above the horizon."""
    pane_end = f"at.window_start - pmod(at.window_start, {change.pane_ms}L) + {change.pane_ms}L"
    return f"{pane_end} > {change.horizon_ms(parent.horizon_ms)}L"


def _key(change: SeedChange) -> str:
    if change.key is None:
        return "at.key"
    parts = "from_json(at.key, 'array<string>')" if change.from_list else "array(at.key)"
    told = [f"get({parts}, {place})" for place in change.key]
    if not change.to_list:
        return told[0]
    return f"to_json(array({', '.join(told)}))" if told else "'[]'"
