"""A keyed read while one client without a token keeps half-sent requests open, beside the same with nobody there.

It asks a rehydrator that runs (`--url`, with CUTWATER_API_TOKEN), in turns: idle, then with the half requests. It
ends with 1 where the median ratio of both p99 is above 2, a read was not answered right, or health was not,
or where the server had ended half requests before the reads were over: then give a smaller `--size`.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import httpx

from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.http.client_options import direct_options
from cutwater.core.query.key_path import path_of

RESULT = Path("build/bench/half_requests.json")
RATIO_MAX = 2.0
WARM_READS = 1_000
HALF = b"GET /v1/milestone HTTP/1.1\r\nHost: localhost\r\nX-Hal"


@contextmanager
def half_requests(url: str, count: int) -> Iterator[list[socket.socket]]:
    """So many that never end, from one address."""
    parts = urlsplit(url)
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            at = (parts.hostname or "127.0.0.1", parts.port or 80)
            made.append(stack.enter_context(socket.create_connection(at, 10)))
            made[-1].sendall(HALF)
        yield made


def still_open(made: list[socket.socket]) -> int:
    """Of the half requests: the server ends one after ten seconds, and says so."""
    told, _, _ = select.select(made, [], [], 0)
    return len(made) - len(told)


def p99_ms(url: str, path: str, reads: int) -> tuple[float, int, int]:
    """Of so many reads; how many were not answered right, and of as many looks at health."""
    with httpx.Client(
        base_url=url, headers=load_settings().api_headers, timeout=30, **direct_options(url)
    ) as client:
        took, wrong, unwell = [], 0, 0
        for _ in range(reads):
            begun_s = time.perf_counter()
            answer = client.get(path)
            took.append((time.perf_counter() - begun_s) * 1000)
            wrong += not answer.is_success or not answer.json()["rows"]
            unwell += client.get("/healthz").status_code != 200
    return sorted(took)[int(len(took) * 0.99) - 1], wrong, unwell


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.reading.half_requests", description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8321")
    parser.add_argument("--key", required=True, help="One that has windows.")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--size", type=int, default=1_000, help="Reads of each half of a pair.")
    parser.add_argument("--half", type=int, default=512, help="Half requests.")
    options = parser.parse_args()
    path = path_of(options.key)
    p99_ms(options.url, path, WARM_READS)
    pairs = []
    for _ in range(options.pairs):
        idle_ms, *_ = p99_ms(options.url, path, options.size)
        with half_requests(options.url, options.half) as made:
            with_ms, wrong, unwell = p99_ms(options.url, path, options.size)
            ended = options.half - still_open(made)
        pairs.append({"idle_p99_ms": idle_ms, "p99_ms": with_ms, "wrong": wrong, "unwell": unwell, "ended": ended})
        print(json.dumps(pairs[-1]), flush=True)
    ratio = median(one["p99_ms"] / one["idle_p99_ms"] for one in pairs)
    wrong = any(one["wrong"] or one["unwell"] or one["ended"] for one in pairs)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps({"half": options.half, "ratio": ratio, "pairs": pairs}, indent=2) + "\n")
    print(f"p99 with {options.half} half requests is {ratio:.2f} times that without; {RATIO_MAX:g} is allowed")
    return int(wrong or ratio > RATIO_MAX)


if __name__ == "__main__":
    sys.exit(main())
