"""What is told of rejected samples: how often, which, and with what the first begins. The rules: tests/spark."""

from __future__ import annotations

from cutwater.core.events.rejection import NO_KEY, UNDECODABLE, Flaw
from cutwater.core.job.usable_events import EXAMPLE_BYTES, Rejected, tally


def test_flaws_are_counted_with_the_first_example_the_most_frequent_first() -> None:
    """By reason, field and rule; 200 bytes of an example, none of a record without value."""
    key, text = Flaw(NO_KEY, "is null", "k"), Flaw(UNDECODABLE, "is not a text", "k")
    found = tally([(key, None), (text, b"x" * 300), (text, b"y"), (text, b"z")])
    assert found == [Rejected(text, 3, b"x" * EXAMPLE_BYTES), Rejected(key, 1, None)]
    assert tally([]) == []
