"""How far something is that takes long: at most a line every few seconds, with a rate and the time left."""

from __future__ import annotations

from cutwater.core.util.progress_rate import ProgressRate, Rate


def test_a_line_at_most_every_few_seconds() -> None:
    """However often somebody looks; the rate is that since the line before."""
    rated = ProgressRate(1_000, 100.0, every_s=5.0)
    assert [rated.next_line(done, 100.0 + done / 100) for done in range(0, 500, 100)] == [None] * 5
    assert rated.next_line(500, 105.0) == Rate(500, 100.0, 5.0)
    assert rated.next_line(501, 109.9) is None
    assert rated.next_line(600, 110.0) == Rate(600, 20.0, 20.0)


def test_no_time_left_is_made_up() -> None:
    """Where nothing has moved, or nobody knows the whole; and what was counted is not taken back."""
    rated = ProgressRate(1_000, 0.0)
    assert rated.next_line(0, 5.0) == Rate(0, 0.0, None)
    assert rated.next_line(500, 10.0) == Rate(500, 100.0, 5.0)
    assert rated.next_line(20, 15.0) == Rate(500, 0.0, None)
    assert rated.next_line(2_000, 20.0) == Rate(2_000, 300.0, 0.0)
    assert ProgressRate(None, 0.0).next_line(500, 5.0) == Rate(500, 100.0, None)
