"""What a driver and the process of the Spark application say to each other, over a connection on this machine.

A driver sends one line, the application answers with one. Then nothing is sent: the connection lasts as long as
the driver, and the end of either process closes it.
"""

from __future__ import annotations

import json
import socket
from typing import Any

from cutwater.core.errors import UnavailableError

LINE_BYTES_MAX = 4_096
LINE_SECONDS_MAX = 10.0
DRIVER = "spark.cutwater.driver"
"""The setting of a session that names its driver."""


def send_line(connection: socket.socket, told: dict[str, Any]) -> None:
    connection.sendall(json.dumps(told).encode() + b"\n")


def read_line(connection: socket.socket) -> dict[str, Any]:
    """Return the other side's line. Raise UnavailableError if it is none, or too long; OSError."""
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(LINE_BYTES_MAX)
        line += part
        if not part or len(line) > LINE_BYTES_MAX:
            raise UnavailableError("the other side of the Spark application's port sent no complete line")
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UnavailableError("the other side of the Spark application's port sent no JSON object")
    return found
