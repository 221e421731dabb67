"""Events that are due by a moment, against a sum over small steps of the rate."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.load.rate_profile import SAWTOOTH, SHAPES, SPIKE, SPIKE_SHARE, STEADY, RateProfile

STEPS = 2_000


@given(st.sampled_from(SHAPES), st.floats(1, 1e5), st.floats(1, 50), st.floats(1, 600), st.floats(0, 2_000))
def test_what_is_due_is_the_integral_of_the_rate(
    shape: str, rate: float, peak: float, period_s: float, at_s: float
) -> None:
    profile = RateProfile(rate, shape, peak, period_s)
    step = at_s / STEPS
    added = sum(profile.rate_at((one + 0.5) * step) for one in range(STEPS)) * step
    # A step has at most one edge of a spike for each period in it.
    wrong = rate * peak * step * (at_s / period_s + 2)
    assert abs(profile.sent_by(at_s) - added) <= wrong + 1e-6 * added


def test_shapes_of_a_load() -> None:
    """A spike lasts a fifth of its period from the middle on, a tooth rises and falls at once."""
    assert {RateProfile(100, STEADY, 9).rate_at(one) for one in (0, 15, 31)} == {100}
    spike = RateProfile(100, SPIKE, 5, 30)
    assert [spike.rate_at(one) for one in (0, 14.9, 15, 20.9, 21, 45)] == [100, 100, 500, 500, 100, 500]
    assert spike.sent_by(30) == 30 * 100 * (1 + 4 * SPIKE_SHARE)
    tooth = RateProfile(100, SAWTOOTH, 5, 30)
    assert [tooth.rate_at(one) for one in (0, 15, 30)] == [100, 300, 100]
