"""Who may stay connected to an HTTP port, and who may have work done there: decided from plain values.

A connection waits (for a head, for the next request) or works. Only so many work at a time, of one address
fewer: who comes in addition is refused at once. Whoever waits holds nothing against newcomers. Over the bound on
all, one that waits is cut off for each newcomer: of the address that has most of them, and first who never had an
answer. So half requests, however many, keep nobody out.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

_NEIGHBOURS = 64
"""Bits of an IPv6 address that one customer has for itself: behind them it is one client with many addresses."""


class _Bounds(NamedTuple):
    every: int
    by_address: int
    working: int
    working_by_address: int


class Bounds(_Bounds):
    """Of connections at one port: open ones, of one address, at work, and at work for one address."""

    def __new__(cls, every: int, by_address: int, working: int, working_by_address: int) -> Bounds:
        """Raises ValueError where nobody who waits might be there to make room."""
        if not (0 < working_by_address <= working < every and working_by_address < by_address <= every):
            raise ValueError("more must be connected than at work, in all and by address")
        return super().__new__(cls, every, by_address, working, working_by_address)


One = TypeVar("One", bound=Hashable)


@dataclass
class _Address(Generic[One]):
    """The connections of one client, the oldest first."""

    unanswered: dict[One, None] = field(default_factory=dict)
    idle: dict[One, None] = field(default_factory=dict)
    """They had an answer, and may ask again."""
    working: set[One] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.unanswered) + len(self.idle) + len(self.working)

    @property
    def weight(self) -> tuple[int, int]:
        """Who has most is who makes room."""
        return len(self.unanswered), len(self.idle)

    @property
    def first_to_go(self) -> One:
        return next(iter(self.unanswered or self.idle))

    def forget(self, one: One) -> None:
        self.unanswered.pop(one, None)
        self.idle.pop(one, None)
        self.working.discard(one)


class Connections(Generic[One]):
    """Those of one port. Not for several threads."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._addresses: dict[str, _Address[One]] = {}
        self._address_of: dict[One, str] = {}
        self._working = 0

    def __len__(self) -> int:
        return len(self._address_of)

    @property
    def working(self) -> int:
        """Requests that are worked on."""
        return self._working

    def opened(self, one: One, host: str) -> One | None:
        """A client has connected; returned is whom to cut off for it, and that one is forgotten."""
        name = client_of(host)
        cut = self._to_cut(self._addresses.get(name))
        if cut is not None:
            self.closed(cut)
        self._addresses.setdefault(name, _Address()).unanswered[one] = None
        self._address_of[one] = name
        return cut

    def _to_cut(self, its: _Address[One] | None) -> One | None:
        if its is not None and len(its) >= self._bounds.by_address:
            return its.first_to_go
        if len(self) >= self._bounds.every:
            return max(self._addresses.values(), key=lambda other: other.weight).first_to_go
        return None

    def begun(self, one: One) -> str:
        """It asks for work: why there is none, or empty. Whoever is refused goes on waiting."""
        its = self._addresses.get(self._address_of.get(one, ""))
        if its is None:
            return "the connection was cut off"
        if self._working >= self._bounds.working:
            return f"{self._bounds.working} requests are under way already"
        if len(its.working) >= self._bounds.working_by_address:
            return f"{self._bounds.working_by_address} requests of this address are under way already"
        its.forget(one)
        its.working.add(one)
        self._working += 1
        return ""

    def ended(self, one: One) -> None:
        """Its work is done, and it was answered: it may ask again."""
        its = self._addresses.get(self._address_of.get(one, ""))
        if its is not None and one in its.working:
            its.forget(one)
            its.idle[one] = None
            self._working -= 1

    def closed(self, one: One) -> None:
        """It is not connected any more. Said of one that is unknown, it changes nothing."""
        name = self._address_of.pop(one, None)
        if name is None:
            return
        its = self._addresses[name]
        self._working -= one in its.working
        its.forget(one)
        if not len(its):
            del self._addresses[name]


def client_of(host: str) -> str:
    """What counts as one client: an IPv4 address, or the network of an IPv6 one."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _NEIGHBOURS), strict=False))
