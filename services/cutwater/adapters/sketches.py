"""HLL sketches by datasketches: the same bytes that Spark's hll_sketch_agg writes."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from cutwater.core.job.measures import HLL_LG_K


class HllSketches:
    """Implements `cutwater.core.job.measures.Sketches`."""

    @cached_property
    def _library(self) -> Any:
        """The library, imported for the first sketch: it loads numpy, which most commands do not need."""
        import datasketches

        return datasketches

    def union(self, one: bytes, other: bytes) -> bytes:
        sketch, both = self._library.hll_sketch, self._library.hll_union(HLL_LG_K)
        both.update(sketch.deserialize(one))
        both.update(sketch.deserialize(other))
        return bytes(both.get_result().serialize_updatable())

    def estimate(self, sketch: bytes) -> float:
        return float(self._library.hll_sketch.deserialize(sketch).get_estimate())
