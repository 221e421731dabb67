"""Which lines of Kafka's clients are said, and which are left out: by plain texts and moments."""

from __future__ import annotations

from cutwater.core.util.log_throttle import LogThrottle, shape

REFUSED = "[thrd:{0}/1]: {0}/1: Connect to ipv4#{0} failed: Connection refused (after {1}ms in state CONNECT)"


def test_of_one_kind_one_line_is_said_and_the_others_are_counted() -> None:
    """Within ten seconds the first; the next one tells how many were left out. Another kind is not held back."""
    rarely = LogThrottle(every_s=10)
    assert rarely.admit("FAIL refused", 100.0) == 0
    assert [rarely.admit("FAIL refused", 100.0 + at / 2) for at in range(1, 20)] == [None] * 19
    assert rarely.admit("FAIL closed", 105.0) == 0
    assert rarely.admit("FAIL refused", 110.0) == 19
    assert rarely.admit("FAIL refused", 119.9) is None
    assert rarely.admit("FAIL refused", 120.0) == 1


def test_what_is_remembered_is_bounded() -> None:
    """Of too many kinds the one said longest ago is forgotten, and would be said again."""
    rarely = LogThrottle(every_s=10, kinds_max=2)
    for moment, kind in enumerate(("a", "b", "c")):
        assert rarely.admit(kind, moment) == 0
    assert rarely.admit("c", 3) is None
    assert rarely.admit("b", 3) is None
    assert rarely.admit("a", 3) == 0


def test_lines_that_differ_in_their_moments_are_of_one_kind() -> None:
    """How long a state has lasted and in which thread it was said makes no other kind; nor does a count."""
    one = REFUSED.format("127.0.0.1:9092", 0)
    assert shape(one) == shape(REFUSED.format("127.0.0.1:9092", 31))
    assert shape("[thrd:main]: 3 request(s) timed out: disconnect") == shape("12 request(s) timed out: disconnect")


def test_another_broker_is_another_kind() -> None:
    """Numbers of an address or a host stay: that a second broker is away, too, is said at once."""
    assert shape(REFUSED.format("127.0.0.1:9092", 0)) != shape(REFUSED.format("127.0.0.1:9093", 0))
    assert shape("kafka-1.example:9092/1: Disconnected") != shape("kafka-2.example:9092/2: Disconnected")
    assert len(shape("x" * 5_000)) == 200


def test_a_line_said_again_is_not_the_oldest() -> None:
    """Its place among the remembered ones is that of its last saying."""
    rarely = LogThrottle(every_s=10, kinds_max=2)
    for moment, kind in ((0, "a"), (1, "b"), (10, "a"), (11, "c")):
        assert rarely.admit(kind, moment) == 0
    assert rarely.admit("a", 12) is None, "b was forgotten"
