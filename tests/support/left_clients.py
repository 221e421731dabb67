"""Kafka clients that tests have left behind.

Each has threads, which look twenty times a second for brokers that are gone. A hundred of them take a whole core
from the tests that follow.
"""

from __future__ import annotations

import gc
import os

import psutil
from confluent_kafka import KafkaException

from cutwater.core.errors import CutwaterError

OPEN_FILES_MAX = 400
"""Above 1,024 files, Spark's callbacks are unheard: py4j waits for them with `select`."""
THREADS_MAX = 40


class LeftClients:
    """Ends the clients of one process of the tests."""

    def __init__(self) -> None:
        self._threads_max = THREADS_MAX

    def collect(self) -> None:
        """End clients in reference cycles, if there are many threads or open files. Takes a third of a second."""
        if psutil.Process().num_threads() <= self._threads_max and len(os.listdir("/dev/fd")) <= OPEN_FILES_MAX:
            return
        gc.collect()
        self._threads_max = max(THREADS_MAX, psutil.Process().num_threads() + THREADS_MAX // 2)

    def release(self) -> None:
        """End those of a module's tests that the client library keeps: it never frees the error of a client that
        was fenced, whose frames hold that client."""
        self.collect()
        if psutil.Process().num_threads() <= THREADS_MAX:
            return
        for one in gc.get_objects():
            if isinstance(one, KafkaException | CutwaterError):
                one.__traceback__ = None
        gc.collect()
        self._threads_max = THREADS_MAX
