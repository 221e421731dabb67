"""A link to another region: a TCP proxy that hands on every byte half a round trip later.

python -m benchmarks.mirror.link PORT TARGET_PORT ROUND_TRIP_MS
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

from cutwater.local.machine.ports import LOOPBACK

PIECE, PIECES_MAX = 65_536, 1_024
"""Bytes read at a time, and how many such pieces are under way in one direction of one connection."""


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Hand on one direction, in order, until it ends."""
    loop = asyncio.get_running_loop()
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(PIECES_MAX)

    async def take() -> None:
        piece = b"-"
        while piece:
            try:
                piece = await reader.read(PIECE)
            except OSError:  # a reset is an end, too
                piece = b""
            await under_way.put((loop.time() + delay_s, piece))

    taking = asyncio.create_task(take())
    try:
        while True:
            due_s, piece = await under_way.get()
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            if not piece:
                writer.write_eof()
                return
            writer.write(piece)
            await writer.drain()
    finally:
        taking.cancel()


async def serve(port: int, target_port: int, delay_s: float) -> None:
    """Connections to one port become connections to the other; for ever."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(LOOPBACK, target_port)
        except OSError:
            writer.close()
            return
        try:
            with contextlib.suppress(OSError):
                await asyncio.gather(carry(reader, far_writer, delay_s), carry(far_reader, writer, delay_s))
        finally:
            writer.close()
            far_writer.close()

    async with await asyncio.start_server(accept, LOOPBACK, port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    listening, target, round_trip_ms = (int(one) for one in sys.argv[1:])
    asyncio.run(serve(listening, target, round_trip_ms / 2_000))
