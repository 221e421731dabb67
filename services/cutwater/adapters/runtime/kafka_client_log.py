"""What Kafka's client library says of itself, handed to Python's logging: a line of a kind every ten seconds.

librdkafka prints to standard error where it is given no logger, in a form of its own. Its lines go to the logger
`cutwater.kafka`; `log_setup.configure` lets them out in the form of the service's other lines. In a program that
uses the client library nothing is configured: there they go where that program sends its logs.

With a logger a client keeps its lines until it is polled. One that may lie idle for long is given `QUIET`, for its
queue has no bound, and while a broker is away there are up to twenty lines a second.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from cutwater.core.util.log_throttle import Rarely, shape

NAME = "cutwater.kafka"
QUIET: Mapping[str, Any] = {"log_level": 2}
"""Settings of a client that says nothing but what is critical: its errors are raised to who uses it."""
TEXT_CHARACTERS_MAX = 1_000


class ClientLog:
    """The `logger` of clients of confluent-kafka, which call `log` from whatever thread polls them."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic, secrets: tuple[str, ...] = ()) -> None:
        self._clock_s = clock_s
        self._secrets = tuple(one for one in secrets if one)
        self._rarely = Rarely()
        self._lock = threading.Lock()
        self._out = logging.getLogger(NAME)

    def log(self, level: int, _form: str, facility: str, client: str, text: str) -> None:
        """One line; `_form` is how confluent-kafka would put the others together."""
        with self._lock:
            left_out = self._rarely.take(f"{facility} {shape(text)}", self._clock_s())
        if left_out is None:
            return
        text = self._without_secrets(text)[:TEXT_CHARACTERS_MAX]
        known = {"client": client, "facility": facility, "text": text, "left_out": left_out}
        more = f" ({left_out} like it left out)" if left_out else ""
        self._out.log(level, "%s: %s: %s%s", client, facility, text, more, extra={"kafka": known})

    def _without_secrets(self, text: str) -> str:
        """librdkafka prints none today; should a broker's text hold one, or a later release, it ends here."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text
