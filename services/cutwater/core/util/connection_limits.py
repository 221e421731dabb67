"""Limits on the connections of an HTTP port, in total and by address.

A connection waits (for a request head, or for the next request) or works. A request beyond the limit on working
connections is refused at once. At the limit on open connections, each new one closes a waiting one: of the address
with the most waiting connections, first those that never had an answer. So incomplete requests never block new
clients.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

_NEIGHBOURS = 64
"""Bits of an IPv6 address that identify one customer, who may have all addresses behind them."""


class _Bounds(NamedTuple):
    every: int
    by_address: int
    working: int
    working_by_address: int


class Bounds(_Bounds):
    """Limits of one port: open connections, of one address, working ones, and working ones of one address."""

    def __new__(cls, every: int, by_address: int, working: int, working_by_address: int) -> Bounds:
        """Raise ValueError if all open connections could be working, so that none could be closed."""
        if not (0 < working_by_address <= working < every and working_by_address < by_address <= every):
            raise ValueError("more must be connected than at work, in all and by address")
        return super().__new__(cls, every, by_address, working, working_by_address)


One = TypeVar("One", bound=Hashable)


@dataclass
class _Address(Generic[One]):
    unanswered: dict[One, None] = field(default_factory=dict)
    idle: dict[One, None] = field(default_factory=dict)
    """Connections that had an answer, and wait for the next request."""
    working: set[One] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.unanswered) + len(self.idle) + len(self.working)

    @property
    def weight(self) -> tuple[int, int]:
        """The order in which addresses must close a connection, the largest first."""
        return len(self.unanswered), len(self.idle)

    @property
    def first_to_go(self) -> One:
        return next(iter(self.unanswered or self.idle))

    def forget(self, one: One) -> None:
        self.unanswered.pop(one, None)
        self.idle.pop(one, None)
        self.working.discard(one)


class Connections(Generic[One]):
    """The connections of one port. Not thread-safe."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._addresses: dict[str, _Address[One]] = {}
        self._address_of: dict[One, str] = {}
        self._working = 0

    def __len__(self) -> int:
        return len(self._address_of)

    @property
    def working_count(self) -> int:
        return self._working

    def opened(self, one: One, host: str) -> One | None:
        """Add a connection. Return the one to close for it, which is removed here, or None."""
        name = client_of(host)
        cut = self._to_cut(self._addresses.get(name))
        if cut is not None:
            self.remove(cut)
        self._addresses.setdefault(name, _Address()).unanswered[one] = None
        self._address_of[one] = name
        return cut

    def _to_cut(self, its: _Address[One] | None) -> One | None:
        if its is not None and len(its) >= self._bounds.by_address:
            return its.first_to_go
        if len(self) >= self._bounds.every:
            return max(self._addresses.values(), key=lambda other: other.weight).first_to_go
        return None

    def begin_request(self, one: One) -> str:
        """Start a request. Return why it is refused, or an empty text. A refused connection continues to wait."""
        its = self._addresses.get(self._address_of.get(one, ""))
        if its is None:
            return "the connection was closed"
        if self._working >= self._bounds.working:
            return f"{self._bounds.working} requests are in progress already"
        if len(its.working) >= self._bounds.working_by_address:
            return f"{self._bounds.working_by_address} requests of this address are in progress already"
        its.forget(one)
        its.working.add(one)
        self._working += 1
        return ""

    def end_request(self, one: One) -> None:
        its = self._addresses.get(self._address_of.get(one, ""))
        if its is not None and one in its.working:
            its.forget(one)
            its.idle[one] = None
            self._working -= 1

    def remove(self, one: One) -> None:
        """Remove a connection. An unknown one changes nothing."""
        name = self._address_of.pop(one, None)
        if name is None:
            return
        its = self._addresses[name]
        self._working -= one in its.working
        its.forget(one)
        if not len(its):
            del self._addresses[name]


def client_of(host: str) -> str:
    """Return what counts as one client: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _NEIGHBOURS), strict=False))
