"""The link of the tests does what it says, and counts it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from cutwater.local.link import FROM_BROKER, TO_BROKER, Link
from cutwater.local.machine.ports import LOOPBACK, free_ports
from support.views.changelogs import until


@pytest.fixture
def link() -> Iterator[Link]:
    """To a server that sends back what it gets."""
    with socket.create_server((LOOPBACK, 0)) as server:
        threading.Thread(target=_echo, args=(server,), daemon=True).start()
        with Link(free_ports(1)[0], server.getsockname()[1], seed=4) as one:
            yield one
        server.shutdown(socket.SHUT_RDWR)


def _echo(server: socket.socket) -> None:
    def serve(one: socket.socket) -> None:
        with suppress(OSError), one:
            while data := one.recv(1 << 16):
                one.sendall(data)

    with suppress(OSError):
        while True:
            threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()


def client(link: Link, timeout_s: float = 20) -> socket.socket:
    return socket.create_connection((LOOPBACK, link.port), timeout=timeout_s)


def answered(one: socket.socket, data: bytes = b"hello") -> bool:
    """Does it come back? False where nothing comes, or the connection ends."""
    try:
        one.sendall(data)
        got = b""
        while len(got) < len(data) and (more := one.recv(1 << 16)):
            got += more
    except OSError:
        return False
    return got == data


def test_without_a_fault_everything_passes(link: Link) -> None:
    data = bytes(range(256)) * 10_000
    with client(link) as one:
        sending = threading.Thread(target=one.sendall, args=(data,))
        sending.start()
        got = b""
        while len(got) < len(data):
            got += one.recv(1 << 16)
        sending.join(10)
    assert (got, link.connections, link.cut_connections) == (data, 1, 0)


def test_a_delay_is_of_both_directions(link: Link) -> None:
    link.delay_s = 0.08
    with client(link) as one:
        began = time.monotonic()
        assert answered(one)
        assert time.monotonic() - began >= 0.16
    assert link.delayed_bytes == 10


@pytest.mark.parametrize(("way", "held"), [(TO_BROKER, 5), (FROM_BROKER, 5)])
def test_one_direction_is_held_back_and_goes_on(link: Link, way: str, held: int) -> None:
    link.held = frozenset({way})
    with client(link) as one:
        one.sendall(b"hello")
        until(lambda: link.held_bytes == held, "the bytes to be held back")
        one.settimeout(0.2)
        with pytest.raises(TimeoutError):
            one.recv(5)
        link.mend()
        one.settimeout(20)
        assert one.recv(5) == b"hello"


def test_half_open_connections_stay_and_pass_nothing(link: Link) -> None:
    with client(link, 0.3) as one, client(link) as other:
        assert answered(one)
        assert answered(other)
        link.half_open()
        assert not answered(one)
        link.mend()
        assert not answered(one)
        assert link.swallowed_bytes == 10
        with client(link) as new:
            assert answered(new)


def test_cut_and_refused(link: Link) -> None:
    with client(link) as one:
        assert answered(one)
        link.refuses = True
        link.cut()
        until(lambda: link.cut_connections == 1, "the cut")
        assert not answered(one)
        with client(link) as new:
            assert not answered(new)
    assert link.refused == 1
    link.mend()
    with client(link) as new:
        assert answered(new)


def test_fragile_connections_break_in_the_middle(link: Link) -> None:
    link.fragile = 10_000
    broken = 0
    for _ in range(40):
        with client(link) as one:
            broken += not answered(one, b"x" * 2_000)
    assert 0 < broken < 40
    assert link.cut_connections == broken
