"""How two values of a column of a user's own query merge, if its job file says so.

A generation that starts from a milestone has a query whose state begins empty. So a row is the merge of the
milestone's row, the seed, and of the query's own row.
"""

from __future__ import annotations

from dataclasses import replace

from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.job.measures import (
    MAX_DECIMAL,
    NUMBERS,
    VALUE,
    FieldType,
    Measure,
    add,
    extreme,
    seed_of,
    unmergeable,
)

MERGES = ("sum", "min", "max")


def merging(column: Measure, of: FieldType, how: str) -> Measure:
    """Return the column with its merge. Raise UsageError if values of this type do not merge so."""
    [partial] = column.partials
    own, seed = partial.over_events, seed_of(column.name)
    if how == "sum":
        if of.name not in NUMBERS:
            raise UsageError(f"column '{column.name}' is {of}, which has no sum; allowed: min, max")
        if of.scale >= MAX_DECIMAL:
            raise UsageError(f"column '{column.name}' is {of}: a sum has no room for a digit before the point")
        merged = replace(partial, over_both=_sum(column.name, own, seed, of), merge=add)
    else:
        closest, merge = extreme(how)
        merged = replace(partial, over_both=f"{closest}({own}, {seed})", merge=merge)  # NULLs are skipped
    return replace(column, partials=(merged,), merges_by=how)


def _sum(column: str, own: str, seed: str, of: FieldType) -> str:
    """Return SQL that ends the query where the type has no room: a session without ANSI mode would go on."""
    type_ = "bigint" if of.name == "long" else str(of)
    # Of two decimals of full precision Spark would round the last digits of the sum, to have room for a carry.
    digits = f"decimal({MAX_DECIMAL - 1},{of.scale})"
    one, other = (f"try_cast({each} as {digits})" if of.name == "decimal" else each for each in (own, seed))
    full = f"'cutwater: column {column}: the sum with the value of the parent milestone has no room in {of}'"
    total = f"coalesce(try_cast(try_add({one}, {other}) as {type_}), raise_error({full}))"
    return f"case when {own} is null then {seed} when {seed} is null then {own} else {total} end"


def moves(job: Job) -> bool:
    """Return whether a generation of the job can start from a milestone."""
    return not any(one.kind == VALUE and not one.merges_by for one in job.measures)


def require_moves(job: Job) -> None:
    """Raise UsageError if the job file does not say how a column of the user's own query merges."""
    for measure in job.measures:
        if measure.kind == VALUE and not measure.merges_by:
            raise unmergeable(measure.name)
