"""The number of different values of a field, from a sketch in the bytes of Apache DataSketches.

An HLL sketch is small. A theta sketch (Dasgupta and others, 2015) is a sample: the least hashes of the values.
Samples have intersections and differences, so readers can ask how many values several rows share. Up to 4,096
different values all hashes have room, and the number is exact. Theta sketches of the same values have the same
hashes, in any order of events and merges.
"""

from __future__ import annotations

from cutwater.core.job.measures import (
    HLL_LG_K,
    THETA,
    THETA_LG_K,
    Declaration,
    Measure,
    Partial,
    Partials,
    coalesced,
    seed_of,
)

EMPTY = "\\u0000cutwater: the empty value 5b1e93c07d1f4f0c\\u0000"
"""What a sketch gets for an empty text or empty bytes, as Spark SQL, because the library ignores those."""


def distinct(declared: Declaration) -> Measure:
    name, sketches = declared.name, declared.sketches
    partial = _theta(declared) if declared.sketch == THETA else _hll(declared)

    def present(row: Partials) -> int:
        return round(sketches.estimate(row[name])) if row[name] else 0

    return Measure(name, "distinct", (partial,), present, "long", sketch=declared.sketch)


def _hll(declared: Declaration) -> Partial:
    name = declared.name
    plain = f"hll_sketch_agg({declared.field}, {HLL_LG_K})"
    events, seeds = f"hll_sketch_agg({_filled(declared)}, {HLL_LG_K})", f"hll_union_agg({seed_of(name)})"
    both = coalesced(f"hll_union({events}, {seeds})", events, seeds)
    # Other values are sketched as before, so older sketches, which lack the empty value, merge with new ones.
    return Partial(name, "bytes", events, both, declared.sketches.union, plain)


def _theta(declared: Declaration) -> Partial:
    name, field, seed = declared.name, declared.field, seed_of(declared.name)
    # Without a value Spark returns an empty sketch.
    events = f"case when count({field}) > 0 then theta_sketch_agg({_filled(declared)}, {THETA_LG_K}) end"
    seeds = f"case when count({seed}) > 0 then theta_union_agg({seed}, {THETA_LG_K}) end"
    both = coalesced(f"theta_union({events}, {seeds}, {THETA_LG_K})", events, seeds)
    return Partial(name, "bytes", events, both, declared.sketches.union)


def _filled(declared: Declaration) -> str:
    """Return SQL for the field, with a value in place of an empty one."""
    field, of = str(declared.field), declared.of.name
    if of not in ("string", "bytes"):
        return field
    stand_in = f"'{EMPTY}'" if of == "string" else f"cast('{EMPTY}' as binary)"
    return f"if(octet_length({field}) = 0, {stand_in}, {field})"
