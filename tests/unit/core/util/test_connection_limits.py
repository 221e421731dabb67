"""Who stays connected to a port, by plain values: bounds hold, and a newcomer is never the one that is cut off."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.util.connection_limits import Bounds, Connections, client_of

BOUNDS = Bounds(every=12, by_address=8, working=6, working_by_address=4)


def test_half_requests_make_room_for_whoever_comes() -> None:
    """One address opens many and asks nothing: the oldest of its own go, an answered one stays longest."""
    ports: Connections[int] = Connections(BOUNDS)
    assert ports.opened(0, "a") is None
    assert ports.begin_request(0) == ""
    ports.end_request(0)
    cut = [ports.opened(one, "a") for one in range(1, 20)]
    assert cut == [None] * 7 + list(range(1, 13))
    assert ports.begin_request(0) == ""
    assert ports.begin_request(3) == "the connection was closed"


def test_another_address_takes_from_who_has_most() -> None:
    """The bound on all is met by the address with the most that ask nothing, whoever comes."""
    ports: Connections[int] = Connections(BOUNDS)
    for one in range(8):
        ports.opened(one, "a")
    for one in range(8, 12):
        ports.opened(one, "b")
    assert ports.opened(12, "c") == 0
    assert ports.opened(13, "b") == 1
    assert len(ports) == 12


def test_work_has_a_bound_in_all_and_by_address() -> None:
    """One address leaves room for others, and who is refused may ask again once somebody has ended."""
    ports: Connections[int] = Connections(BOUNDS)
    for one in range(8):
        ports.opened(one, "a")
    assert [bool(ports.begin_request(one)) for one in range(5)] == [False] * 4 + [True]
    for one in range(8, 11):
        ports.opened(one, "b")
    assert [bool(ports.begin_request(one)) for one in range(8, 11)] == [False, False, True]
    ports.end_request(8)
    assert ports.begin_request(10) == ""
    assert ports.working_count == 6


@given(st.lists(st.tuples(st.sampled_from("oobecc"), st.integers(0, 40), st.sampled_from("abcd"))))
def test_bounds_hold_whatever_happens(steps: list[tuple[str, int, str]]) -> None:
    """Never more than the bounds; who works is never cut off; all closed, nothing is left."""
    ports: Connections[int] = Connections(BOUNDS)
    working: dict[int, str] = {}
    there: dict[int, str] = {}
    for number, (step, of, host) in enumerate(steps):
        if step == "o":
            cut = ports.opened(number, host)
            assert cut not in working
            there.pop(-1 if cut is None else cut, None)
            there[number] = host
        elif of in there and of not in working and step == "b":
            if not ports.begin_request(of):
                working[of] = there[of]
        elif step == "e":
            ports.end_request(of)
            working.pop(of, None)
        elif step == "c":
            ports.remove(of)
            working.pop(of, None)
            there.pop(of, None)
        assert len(ports) == len(there) <= BOUNDS.every
        assert ports.working_count == len(working) <= BOUNDS.working
        for one in "abcd":
            assert sum(host == one for host in there.values()) <= BOUNDS.by_address
            assert sum(host == one for host in working.values()) <= BOUNDS.working_by_address
    for one in list(there):
        ports.remove(one)
    assert (len(ports), ports.working_count) == (0, 0)


def test_bounds_that_leave_no_room() -> None:
    """Were all at work, nobody could make room for a newcomer: such bounds are refused."""
    with pytest.raises(ValueError, match="more must be connected than at work"):
        Bounds(every=4, by_address=4, working=4, working_by_address=2)
    with pytest.raises(ValueError, match="more must be connected than at work"):
        Bounds(every=8, by_address=4, working=4, working_by_address=4)


def test_what_counts_as_one_client() -> None:
    """One host has a whole network of IPv6 addresses; an IPv4 one may come in either form."""
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff") != client_of("2001:db8:0:1::1")
    assert client_of("::ffff:10.0.0.1") == client_of("10.0.0.1") != client_of("10.0.0.2")
    assert client_of("fe80::1%eth0") == client_of("fe80::2")
    assert client_of("a.pipe") == "a.pipe"


def test_the_tightest_bounds_that_leave_room() -> None:
    """One connection more than work is enough, in all and by address."""
    assert Bounds(every=5, by_address=5, working=4, working_by_address=4).working == 4
    with pytest.raises(ValueError, match="more must be connected than at work"):
        Bounds(every=4, by_address=2, working=2, working_by_address=0)


def test_a_working_connection_is_counted_once() -> None:
    """The start of its work takes it off the list of those that wait: the place behind it stays free."""
    ports = Connections[str](Bounds(every=3, by_address=2, working=1, working_by_address=1))
    assert ports.opened("one", "a") is None
    assert ports.begin_request("one") == ""
    assert ports.opened("two", "a") is None
    assert ports.opened("three", "a") == "two", "the one that works is not cut off"
