"""Structured logs: readable on standard error by default, or JSON lines on standard output."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog

from cutwater.adapters.runtime import kafka_client_log


def configure(service: str, json_lines: bool = False) -> structlog.stdlib.BoundLogger:
    """Set up logging for this process; every line names the service."""
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer() if json_lines else structlog.dev.ConsoleRenderer(colors=False)
    )
    lines = _Lossy(sys.stdout if json_lines else sys.stderr)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, lines)),
        cache_logger_on_first_use=True,
    )
    logger: structlog.stdlib.BoundLogger = structlog.get_logger().bind(service=service)
    _let_out(kafka_client_log.NAME, logger)
    return logger


class _Lossy:
    """A text stream that drops lines on errors: a full disk must not end a service because of its log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def _let_out(name: str, logger: structlog.stdlib.BoundLogger) -> None:
    inner = logging.getLogger(name)
    for old in [one for one in inner.handlers if isinstance(one, _Through)]:
        inner.removeHandler(old)  # from an earlier call
    inner.addHandler(_Through(logger))
    inner.setLevel(logging.INFO)
    inner.propagate = False


class _Through(logging.Handler):
    def __init__(self, logger: structlog.stdlib.BoundLogger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        try:
            said = {name: value for name, value in vars(record).get("kafka", {}).items() if value}
            self._logger.log(record.levelno, "kafka" if said else record.getMessage(), **said)
        except Exception:  # raised, it would leave a client's poll and end the service because of a log line
            self.handleError(record)
