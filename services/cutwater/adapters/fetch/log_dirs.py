"""The disks of brokers: free and total bytes of their log folders, by Kafka's DescribeLogDirs, version 4.

Brokers have it since Kafka 3.3; no client library that is used here does. The request names no topic, so an answer
is small. It needs the right DESCRIBE on the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka.errors import KafkaError as ClientError
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int8, Int16, Int32, Int64

from cutwater.adapters.fetch.connection import ReadingClient, close
from cutwater.adapters.fetch.fetch_v13 import Tagged, compact_array
from cutwater.core.errors import UnavailableError

_NO_TOPICS: Sequence[Any] = ()
_UNKNOWN = -1
FOLDERS_MAX = 200


class LogFolder(NamedTuple):
    """One folder of logs of a broker, with the space of its disk."""

    broker: int
    path: str
    free_bytes: int
    total_bytes: int


class LogDirsAnswer(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 35, 4
    SCHEMA = Tagged(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        (
            "results",
            compact_array(
                ("error_code", Int16),
                ("log_dir", CompactString("utf-8")),
                (
                    "topics",
                    compact_array(
                        ("name", CompactString("utf-8")),
                        (
                            "partitions",
                            compact_array(
                                ("partition", Int32), ("size", Int64), ("lag", Int64), ("is_future", Int8)
                            ),
                        ),
                    ),
                ),
                ("total_bytes", Int64),
                ("usable_bytes", Int64),
            ),
        ),
    )


class LogDirsQuestion(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION = 35, 4
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = LogDirsAnswer
    SCHEMA = Tagged(
        ("topics", compact_array(("topic", CompactString("utf-8")), ("partitions", CompactArray(Int32))))
    )


class DescribeLogDirs:
    """The request; aiokafka's client only calls `prepare`."""

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> LogDirsQuestion:
        """Return the request for a broker with these versions. Raises UnavailableError if it is too old."""
        low, high = versions.get(LogDirsQuestion.API_KEY, (0, 0))
        if not low <= LogDirsQuestion.API_VERSION <= high:
            raise UnavailableError("brokers tell the space of their disks since Kafka 3.3")
        return LogDirsQuestion(_NO_TOPICS)


async def read_log_folders(settings: Mapping[str, Any], answer_s: float) -> list[LogFolder]:
    """Return the log folders of all brokers that answer. `settings`: aiokafka's arguments.

    Raises UnavailableError if no broker tells it, with the reason of the last one.
    """
    client = ReadingClient(**settings, client_id="cutwater", request_timeout_ms=int(1_000 * answer_s))
    try:
        async with asyncio.timeout(2 * answer_s):
            await client.bootstrap()
            return await _of_brokers(client)
    except (ClientError, OSError, TimeoutError) as error:
        raise UnavailableError(f"no broker tells the space of its disks: {error!r}") from None
    finally:
        await close(client)


async def _of_brokers(client: ReadingClient) -> list[LogFolder]:
    found: list[LogFolder] = []
    problem = "there is none"
    for broker in client.cluster.brokers():
        try:
            answer = await client.send(broker.nodeId, DescribeLogDirs())
        except (ClientError, OSError, UnavailableError) as error:
            problem = f"broker {broker.nodeId}: {error}"
            continue
        if answer.error_code:
            problem = f"broker {broker.nodeId}: error {answer.error_code}; it needs DESCRIBE on the cluster"
        found += _folders(broker.nodeId, answer)
    if not found:
        raise UnavailableError(f"no broker tells the space of its disks ({problem})")
    return found[:FOLDERS_MAX]


def _folders(broker: int, answer: LogDirsAnswer) -> list[LogFolder]:
    return [
        LogFolder(broker, path, free, total)
        for code, path, _topics, total, free in answer.results
        if not code and _UNKNOWN not in (free, total)
    ]
