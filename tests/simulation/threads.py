"""What the mirror does in threads of its own, as fibers of the simulated process that does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from cutwater.mirror import copier, looking, service
from simulation.processes import Killed, Process, SimEvent


class _Job:
    """What was submitted to a pool."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._done = False

    def run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Killed:
            raise
        except BaseException as error:
            self._error = error
        self._done = True

    def exception(self, _timeout: float) -> BaseException | None:
        while not self._done:
            Process.running.pause(lambda: self._done)
        return self._error


class _Pool:
    def __init__(self, _threads: int, _name: str) -> None:
        """Each job gets a fiber."""

    def submit(self, work: Callable[..., object], *args: Any) -> _Job:
        job = _Job()
        Process.running.spawn(lambda: job.run(lambda: work(*args)), passing=True)
        return job

    def map(self, work: Callable[[Any], object], several: Iterable[Any]) -> Iterator[None]:
        for job in [self.submit(work, one) for one in several]:
            if (error := job.exception(0)) is not None:
                raise error
            yield

    def shutdown(self, cancel_futures: bool) -> None:
        """Whatever runs ends with the process."""


class _Thread:
    def __init__(self, target: Callable[..., None], args: Sequence[Any], **_named: object) -> None:
        self._run = lambda: target(*args)

    def start(self) -> None:
        Process.running.spawn(self._run, passing=True)


def _wait(futures: Sequence[Future[Any]], _timeout_s: float) -> None:
    while not all(one.done() for one in futures):
        Process.running.pause(lambda: all(one.done() for one in futures))


@contextmanager
def fibers() -> Iterator[None]:
    """Inside, the mirror's own classes run without a thread."""
    with ExitStack() as held:
        for owner, name, instead in (
            (copier, "ThreadPoolExecutor", _Pool),
            (looking, "threading", SimpleNamespace(Thread=_Thread)),
            (looking, "wait", _wait),
            (service, "threading", SimpleNamespace(Event=lambda: SimEvent(Process.running))),
            (service, "rare_collections", nullcontext),
        ):
            held.enter_context(patch.object(owner, name, instead))
        yield
