"""Point reads at a steady rate, over connections that stay: a process of its own.

A request is *due* at `start + number / rate`, and its time counts from that moment, however late it is sent: a
server that stands still makes the next requests wait, and a load that waited with it would hide that.

python -m benchmarks.reading.load PORT RATE SECONDS WARM_SECONDS GROUPS SEED RESULT
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.rehydrate.workloads import WINDOWS, group_name

CONNECTIONS = 32
CHECKED_EVERY = 25
"""Of so many answers one is looked into; of all the status."""
ANSWER_S_MAX = 60.0
_STEP_S = 0.0005
_HEAD_END = b"\r\n\r\n"


def choices(groups: int, count: int, seed: int) -> NDArray[np.int64]:
    """Which group is asked for: a few of them most of the time, as 1/rank."""
    shares = 1 / np.arange(1, groups + 1)
    return np.random.default_rng(seed).choice(groups, size=count, p=shares / shares.sum())


class Reading:
    """One run."""

    def __init__(self, port: int, wanted: Sequence[int], rate: int) -> None:
        self._port = port
        self._asks = [f"GET /v1/state/{group_name(one)} HTTP/1.1\r\nHost: view\r\n\r\n".encode() for one in wanted]
        self._names = [group_name(one) for one in wanted]
        self._rate = rate
        self._free: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()
        self._due: deque[int] = deque()
        self.waited_s = np.zeros(len(wanted))
        """From the moment that a request was due until its whole answer is here."""
        self.served_s = np.zeros(len(wanted))
        """From the moment that it was sent."""
        self.faults: list[str] = []
        self.sequences: set[int] = set()
        self._start_s = 0.0
        self._done = 0

    async def run(self) -> None:
        """Raises TimeoutError when answers stay away."""
        for _ in range(CONNECTIONS):
            self._free.append(await asyncio.open_connection("127.0.0.1", self._port))
        self._start_s = time.perf_counter()
        tasks: set[asyncio.Task[None]] = set()
        number, count = 0, len(self._asks)
        while number < count or self._due:
            due = min(count, int((time.perf_counter() - self._start_s) * self._rate) + 1)
            self._due.extend(range(number, due))
            number = due
            while self._due and self._free:
                task = asyncio.create_task(self._ask(self._due.popleft(), *self._free.popleft()))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await asyncio.sleep(_STEP_S)
        await asyncio.wait_for(asyncio.gather(*tasks), ANSWER_S_MAX)
        for _, writer in self._free:
            writer.close()

    async def _ask(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = time.perf_counter()
        writer.write(self._asks[number])
        head = await reader.readuntil(_HEAD_END)
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        now = time.perf_counter()
        self.waited_s[number], self.served_s[number] = now - self._start_s - number / self._rate, now - sent
        self._free.append((reader, writer))
        if not head.startswith(b"HTTP/1.1 200 "):
            self._fault(f"{head[:40]!r}: {body[:200]!r}")
        elif number % CHECKED_EVERY == 0:
            self._look(number, body)

    def _look(self, number: int, body: bytes) -> None:
        answer = json.loads(body)
        self.sequences.add(answer["milestone"]["sequence"])
        if answer["key"] != self._names[number] or len(answer["rows"]) != WINDOWS:
            self._fault(f"{self._names[number]}: {len(answer['rows'])} rows of {answer['key']}")

    def _fault(self, text: str) -> None:
        if len(self.faults) < 5:
            self.faults.append(text)


def main(arguments: Sequence[str]) -> None:
    port, rate, seconds, warm_s, groups, seed = map(int, arguments[:6])
    wanted = choices(groups, rate * (warm_s + seconds), seed)
    reading = Reading(port, wanted.tolist(), rate)
    asyncio.run(reading.run())
    measured = slice(rate * warm_s, None)
    np.savez(
        Path(arguments[6]),
        waited_s=reading.waited_s[measured],
        served_s=reading.served_s[measured],
        faults=np.array(reading.faults, dtype=str),
        sequences=np.array(sorted(reading.sequences)),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
