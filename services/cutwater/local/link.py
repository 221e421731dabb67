"""A way between two regions that can be broken: a TCP proxy in front of a broker's second listener.

It counts everything that it does wrong, so that a test can see that its fault has happened.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import MachineError
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.machine.ports import LOOPBACK, free_ports

CHUNK = 64 * 1024
QUEUED = 1_000
"""Chunks of a connection under way in one direction; a sender beyond them waits."""
LOOK_S = 0.01
_Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
TO_BROKER, FROM_BROKER = "to the broker", "from the broker"


class Link:
    """From a port of its own to a broker's. Without a fault it passes everything on at once."""

    def __init__(self, port: int, to: int, seed: int = 0) -> None:
        self.port, self._to = port, to
        self._random = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name="link", daemon=True)
        self._connections: set[_Connection] = set()
        self._listens = threading.Event()
        self.connections = self.cut_connections = self.refused = 0
        self.held_bytes = self.swallowed_bytes = self.delayed_bytes = 0
        self.mend()

    def __enter__(self) -> Link:
        self._thread.start()
        if not self._listens.wait(10):
            raise MachineError(f"the link does not listen on port {self.port}")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def mend(self) -> None:
        """No fault any more: what was held back goes on. Connections that are half open stay so."""
        self.delay_s = 0.0
        """Of every byte, in each direction."""
        self.held: frozenset[str] = frozenset()
        """Directions in which nothing passes."""
        self.refuses = False
        """Are new connections ended at once?"""
        self.fragile = 0
        """Connections break in the middle of a chunk, after so many bytes on the average; 0 for never."""

    def cut(self) -> None:
        """End every connection."""
        self._loop.call_soon_threadsafe(self._cut)

    def leads_to(self, port: int) -> None:
        """New connections go to another broker's port; those that there are stay."""
        self._to = port

    def half_open(self) -> None:
        """Both ends of each connection that there is believe in it, and nothing arrives; new ones work."""
        for one in list(self._connections):
            one.dead = True

    # From here on: in the thread.

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, LOOPBACK, self.port))
        self._listens.set()
        try:
            self._loop.run_forever()
        finally:
            server.close()
            self._cut()
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0.05))
            self._loop.close()

    def _cut(self) -> None:
        for one in list(self._connections):
            self.end(one)

    def end(self, one: _Connection) -> None:
        if one in self._connections:
            self._connections.discard(one)
            self.cut_connections += 1
            one.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            self.refused += 1
            writer.transport.abort()
            return
        try:
            there = await asyncio.open_connection(LOOPBACK, self._to)
        except OSError:
            writer.transport.abort()
            return
        self.connections += 1
        one = _Connection(self, (reader, writer), there)
        self._connections.add(one)
        await one.run()
        self._connections.discard(one)

    async def passed(self, one: _Connection, way: str, chunk: bytes, came_s: float) -> bool:
        """Wait until a chunk may go on; False where it never does."""
        if self.delay_s:
            self.delayed_bytes += len(chunk)
            await asyncio.sleep(max(0.0, came_s + self.delay_s - self._loop.time()))
        if way in self.held:
            self.held_bytes += len(chunk)
        while way in self.held:
            await asyncio.sleep(LOOK_S)
        if one.dead:
            self.swallowed_bytes += len(chunk)
        return not one.dead

    def breaks(self, chunk: bytes) -> bool:
        """Does its connection break in the middle of this chunk?"""
        return self.fragile > 0 and self._random.random() * self.fragile < len(chunk)


class _Connection:
    """One connection of a client, and the one to the broker that belongs to it."""

    def __init__(self, link: Link, client: _Ends, broker: _Ends) -> None:
        self._link, self._client, self._broker = link, client, broker
        self.dead = False

    def abort(self) -> None:
        for _, writer in (self._client, self._broker):
            writer.transport.abort()

    async def run(self) -> None:
        """Until one end closes. Whoever holds a dead one finds out by himself, or never."""
        ways = [(TO_BROKER, self._client[0], self._broker[1]), (FROM_BROKER, self._broker[0], self._client[1])]
        pumps = [asyncio.create_task(self._pump(*way)) for way in ways]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            if self.dead:
                await asyncio.wait(pumps)
        finally:
            for one in pumps:
                one.cancel()
            self.abort()

    async def _pump(self, way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        queue: asyncio.Queue[tuple[bytes, float]] = asyncio.Queue(QUEUED)
        writing = asyncio.create_task(self._write(way, queue, writer))
        try:
            with suppress(OSError):
                chunk = b"-"
                while chunk and not writing.done():
                    chunk = await reader.read(CHUNK)
                    await queue.put((chunk, asyncio.get_running_loop().time()))
                await writing
        finally:  # a pump is cancelled, too, when the other way has ended
            writing.cancel()

    async def _write(
        self, way: str, queue: asyncio.Queue[tuple[bytes, float]], writer: asyncio.StreamWriter
    ) -> None:
        while True:
            chunk, came_s = await queue.get()
            if not chunk:
                return
            if not await self._link.passed(self, way, chunk, came_s):
                continue
            if self._link.breaks(chunk):
                writer.write(chunk[: len(chunk) // 2])
                self._link.end(self)
                return
            writer.write(chunk)
            await writer.drain()


class LinkedBroker:
    """An embedded broker with a second listener, which clients reach over the link and nothing but it.

    `seed`: of the link. Raises MachineError as `Broker`.
    """

    def __init__(self, folder: Path, java: Path, jar_paths: Sequence[Path], seed: int = 0, **options: Any) -> None:
        """`options`: further ones of `Broker`."""
        port, controller, behind, link_port = free_ports(4)
        overrides = {
            "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller},"
            f"LINK://{LOOPBACK}:{behind}",
            "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port},LINK://{LOOPBACK}:{link_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LINK:PLAINTEXT",
        }
        self.broker = Broker(
            folder, java, jar_paths, port=port, controller_port=controller, overrides=overrides, **options
        )
        self.link = Link(link_port, behind, seed)
        self.far = Cluster(f"{LOOPBACK}:{link_port}")
        """Over the link: the broker tells its clients the link's address."""
