"""Log lines of librdkafka, passed to Python's logging: one line of each kind every ten seconds.

Without a logger librdkafka prints to standard error in its own format. With one, its lines go to the logger
`cutwater.kafka`, which `log_setup.configure` formats like the service's other lines. A program that uses the
client library sees them in its own logging configuration.

A client with a logger keeps its lines until it is polled. Its queue has no bound, and an unreachable broker causes
up to twenty lines a second. So a client that may be idle for long gets `QUIET`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from cutwater.core.util.log_throttle import LogThrottle, shape

NAME = "cutwater.kafka"
QUIET: Mapping[str, Any] = {"log_level": 2}
"""Settings of a client that logs critical lines only; its errors are raised to the caller."""
TEXT_CHARACTERS_MAX = 1_000


class ClientLog:
    """The `logger` of confluent-kafka's clients. They call `log` from the thread that polls them."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic, secrets: tuple[str, ...] = ()) -> None:
        self._clock_s = clock_s
        self._secrets = tuple(one for one in secrets if one)
        self._rarely = LogThrottle()
        self._lock = threading.Lock()
        self._out = logging.getLogger(NAME)

    def log(self, level: int, _form: str, facility: str, client: str, text: str) -> None:
        """Log one line; `_form` is confluent-kafka's format string and not used."""
        with self._lock:
            left_out = self._rarely.admit(f"{facility} {shape(text)}", self._clock_s())
        if left_out is None:
            return
        text = self._without_secrets(text)[:TEXT_CHARACTERS_MAX]
        known = {"client": client, "facility": facility, "text": text, "left_out": left_out}
        more = f" ({left_out} like it left out)" if left_out else ""
        self._out.log(level, "%s: %s: %s%s", client, facility, text, more, extra={"kafka": known})

    def _without_secrets(self, text: str) -> str:
        # librdkafka prints no secrets today. This covers a broker's text or a later release.
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text
