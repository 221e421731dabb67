"""Sketches of different values by datasketches, which reads what Spark's functions write."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.job.measures import HLL_LG_K, THETA_BYTES_MAX, THETA_LG_K

DEVIATIONS = 3
"""A number is within its bounds with a probability of 99.7 %."""
_COMPRESSED = 4
"""The second byte of a compressed theta sketch: the version of its form."""


class _Library:
    @cached_property
    def _library(self) -> Any:
        """The library, imported for the first sketch: it loads numpy, which most commands do not need."""
        import datasketches

        return datasketches


class HllSketches(_Library):
    """Implements `cutwater.core.job.measures.Sketches`."""

    def union(self, one: bytes, other: bytes) -> bytes:
        sketch, both = self._library.hll_sketch, self._library.hll_union(HLL_LG_K)
        both.update(sketch.deserialize(one))
        both.update(sketch.deserialize(other))
        return bytes(both.get_result().serialize_updatable())

    def estimate(self, sketch: bytes) -> float:
        return float(self._library.hll_sketch.deserialize(sketch).get_estimate())


class Estimate(NamedTuple):
    """A number of different values, and its bounds."""

    number: int
    least: int
    most: int
    exact: bool


class ThetaSketches(_Library):
    """Implements `cutwater.core.job.measures.Sketches`, and operations on the sets that were sketched."""

    def union(self, one: bytes, other: bytes) -> bytes:
        return self.united([one, other])

    def estimate(self, sketch: bytes) -> float:
        return float(self._parse(sketch).get_estimate())

    def united(self, sketches: Iterable[bytes]) -> bytes:
        """Return the sketch of all values; the order of the sketches makes no difference."""
        return bytes(self._united(sketches).serialize())

    def combined(self, of: Iterable[bytes], common: Iterable[bytes], without: Iterable[bytes]) -> Estimate:
        """Return the number of values that are in any set of `of`, in every one of `common`, and in none of
        `without`."""
        shared = self._library.theta_intersection()
        for one in (self._united(of), *map(self._parse, common)):
            shared.update(one)
        found = self._library.theta_a_not_b().compute(shared.get_result(), self._united(without))
        least, most = found.get_lower_bound(DEVIATIONS), found.get_upper_bound(DEVIATIONS)
        return Estimate(round(found.get_estimate()), int(least), -int(-most // 1), not found.is_estimation_mode())

    def _united(self, sketches: Iterable[bytes]) -> Any:
        every = self._library.theta_union(THETA_LG_K)
        for one in sketches:
            every.update(self._parse(one))
        return every.get_result()

    def _parse(self, sketch: bytes) -> Any:
        """Raises UsageError for bytes that are no theta sketch."""
        if len(sketch) > THETA_BYTES_MAX:
            raise UsageError(f"a theta sketch of {len(sketch):,} bytes; allowed: up to {THETA_BYTES_MAX:,}")
        try:
            found = self._library.compact_theta_sketch.deserialize(sketch)
        except (ValueError, IndexError, RuntimeError) as error:
            raise UsageError(f"not a theta sketch: {error}") from None
        # The library ignores what follows a sketch.
        if len(found.serialize(sketch[1] == _COMPRESSED)) != len(sketch):
            raise UsageError(f"not a theta sketch: {len(sketch):,} bytes are not its length")
        return found
