"""HLL sketches by datasketches: the same bytes that Spark's hll_sketch_agg writes."""

from __future__ import annotations

from datasketches import hll_sketch, hll_union

from cutwater.core.measures import HLL_LG_K


class HllSketches:
    """Implements `cutwater.core.measures.Sketches`."""

    def union(self, one: bytes, other: bytes) -> bytes:
        both = hll_union(HLL_LG_K)
        both.update(hll_sketch.deserialize(one))
        both.update(hll_sketch.deserialize(other))
        return bytes(both.get_result().serialize_updatable())

    def estimate(self, sketch: bytes) -> float:
        return float(hll_sketch.deserialize(sketch).get_estimate())
