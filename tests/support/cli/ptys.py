"""A terminal of some width, as a program sees it, and what was written to it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
import threading
from typing import TextIO


class Pty:
    """`file` is a terminal; `text` closes it and tells what was written. Used once."""

    def __init__(self, columns: int = 80) -> None:
        self._reading, writing = pty.openpty()
        fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.file: TextIO = open(writing, "w", encoding="utf-8")  # noqa: SIM115
        self._parts: list[bytes] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        self.file.close()
        self._reader.join(10)
        return b"".join(self._parts).decode().replace("\r\n", "\n")

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._reading, 65_536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            self._parts.append(part)
        os.close(self._reading)
