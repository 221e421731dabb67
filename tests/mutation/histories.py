"""The first seeds of the simulation, in pieces, as tests that a mutant may fail.

`tests/simulation/test_simulation.py` runs the same seeds and more, on several processes.
"""

from __future__ import annotations

import pytest

from simulation import histories, region_histories

PIECE = 10


@pytest.mark.parametrize("first", range(0, 200, PIECE))
def test_no_history_of_one_region_goes_wrong(first: int) -> None:
    for seed in range(first, first + PIECE):
        assert histories.anomaly_of(*histories.history_of(seed)) is None


@pytest.mark.parametrize("seed", range(8))
def test_no_history_of_two_regions_goes_wrong(seed: int) -> None:
    assert region_histories.anomaly_of(*region_histories.history_of(seed)) is None
