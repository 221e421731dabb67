"""A broker that answers for a moment as one that is just back may: that there are no brokers, itself included.

A TCP proxy in front of a real broker, which takes the list of brokers out of its Metadata answers. It counts them.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cutwater.adapters.kafka.api_versions import exactly
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.machine.ports import LOOPBACK, free_ports
from cutwater.local.processes.supervisor import Supervisor

_METADATA, _FLEXIBLE = 3, 9
"""The question's number, and from which version on its answer is in the compact form."""


class Forgetful:
    """From a port of its own to a broker's."""

    def __init__(self, port: int, to: int) -> None:
        self.cluster = Cluster(f"{LOOPBACK}:{port}")
        self.forgets = False
        """Are answers told without brokers?"""
        self.told = 0
        """How many were."""
        self._away = False
        self._open: set[socket.socket] = set()
        self._to = to
        self._listening = socket.create_server((LOOPBACK, port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Every connection ends, and so does every new one. The first answers afterwards name no brokers."""
        self._away = True
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        yield
        self.forgets, self._away = True, False

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self._away:
                    client.close()
                    continue
                self._open.add(client)
                broker = socket.create_connection((LOOPBACK, self._to))
                asked: dict[int, int] = {}
                for work in (self._questions, self._answers):
                    threading.Thread(target=work, args=(client, broker, asked), daemon=True).start()

    def _questions(self, client: socket.socket, broker: socket.socket, asked: dict[int, int]) -> None:
        for frame in _frames(client, broker):
            key, version, number = struct.unpack(">hhi", frame[:8])
            if key == _METADATA:
                asked[number] = version
            with suppress(OSError):
                _send(broker, frame)

    def _answers(self, client: socket.socket, broker: socket.socket, asked: dict[int, int]) -> None:
        for frame in _frames(broker, client):
            version = asked.pop(struct.unpack(">i", frame[:4])[0], None)
            forgets = version is not None and self.forgets
            if forgets:
                assert version >= _FLEXIBLE, version
                self.told += 1
            with suppress(OSError):
                _send(client, _without_brokers(frame) if forgets else frame)


def _without_brokers(frame: bytes) -> bytes:
    """Correlation id, tags and throttle time, then an array of (node, host, port, rack, tags)."""
    brokers = 4 + 1 + 4
    at, count = _number(frame, brokers)
    for _ in range(count - 1):
        at += 4
        at, length = _number(frame, at)
        at += length - 1 + 4
        at, length = _number(frame, at)
        at += max(0, length - 1) + 1
    return frame[:brokers] + b"\x01" + frame[at:]


def _number(frame: bytes, at: int) -> tuple[int, int]:
    """A varint: where it ends, and what it is."""
    value = shift = 0
    while True:
        value |= (frame[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not frame[at - 1] & 0x80:
            return at, value


def _frames(of: socket.socket, other: socket.socket) -> Iterator[bytes]:
    """Until either side is gone; then the other one is, too."""
    with suppress(OSError), of, other:
        while True:
            yield exactly(of, struct.unpack(">i", exactly(of, 4))[0])


def _send(to: socket.socket, frame: bytes) -> None:
    to.sendall(struct.pack(">i", len(frame)) + frame)


@contextmanager
def forgetful_broker(folder: Path, kafka_jars: list[Path]) -> Iterator[Forgetful]:
    """A broker of one's own that clients reach through the proxy only."""
    port, controller, through = free_ports(3)
    overrides = {"advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{through}"}
    broker = Broker(folder, find_java(), kafka_jars, port=port, controller_port=controller, overrides=overrides)
    between = Forgetful(through, port)
    try:
        with Supervisor([broker.supervised()]) as supervisor:
            supervisor.start(threading.Event())
            yield between
    finally:
        between.close()
