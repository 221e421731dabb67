"""A started stack, supervised in the background."""

from __future__ import annotations

import threading

from cutwater.local.stack.stack import Stack


class Background:
    """Runs the supervisor in a thread, and keeps the error that ended it."""

    def __init__(self, stack: Stack) -> None:
        self._stop = threading.Event()
        self._stack = stack
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._stack.supervisor.run(self._stop)
        except BaseException as error:  # raised again by `raise_error`
            self._error = error
