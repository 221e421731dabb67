"""Ports on the loopback address."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from cutwater.core.errors import MachineError

LOOPBACK = "127.0.0.1"
FIRST_PORT, LAST_PORT = 20_000, 32_767
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int, rng: random.Random | None = None) -> list[int]:
    """Return `count` different free ports.

    They are below the kernel's range for outgoing connections: otherwise a client that retries a stopped broker
    could eventually be given the broker's port. Raise MachineError if fewer than `count` are free.
    """
    ports = list(range(FIRST_PORT, min(LAST_PORT, max(_first_ephemeral() - 1, FIRST_PORT + 1_000)) + 1))
    (rng or random.Random()).shuffle(ports)
    found: list[int] = []
    for port in ports:
        if is_free(port):
            found.append(port)
            if len(found) == count:
                return found
    raise MachineError(
        f"Only {len(found)} of {count} needed ports are free: end programs that listen on {LOOPBACK}"
    )


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections in TIME_WAIT are no reason to refuse.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def require_free(port: int, purpose: str) -> None:
    """Raise MachineError if a port cannot be used. `purpose`: its user, such as "the broker"."""
    if not 1 <= port <= 65_535:
        raise MachineError(f"Port {port} for {purpose} is not between 1 and 65535: choose another")
    if not is_free(port):
        raise MachineError(
            f"Port {port} on {LOOPBACK}, wanted for {purpose}, is in use or not allowed: "
            f"end the program that listens there, or choose another port"
        )


def _first_ephemeral() -> int:
    try:
        return int(_EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return LAST_PORT + 1
