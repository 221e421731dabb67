"""What the mirror does in threads of its own, as fibers of the simulated process that does it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from cutwater.adapters.kafka import admin, client, offsets
from cutwater.adapters.kafka.writers import transactional_writer
from cutwater.mirror import copier, service
from cutwater.mirror.topics import background, preflight
from simulation.processes import Killed, Process, SimEvent


class _Pool:
    def __init__(self, _threads: int, _name: str) -> None:
        """Each job gets a fiber."""

    def submit(self, work: Callable[..., object], *args: Any) -> Future[Any]:
        job: Future[Any] = Future()

        def run() -> None:
            try:
                job.set_result(work(*args))
            except Killed:
                raise
            except BaseException as error:
                job.set_exception(error)

        Process.running.spawn(run, passing=True)
        return job

    def map(self, work: Callable[[Any], object], several: Iterable[Any]) -> Iterator[Any]:
        for job in [self.submit(work, one) for one in several]:
            while not job.done():
                Process.running.pause(job.done)
            yield job.result(0)

    def shutdown(self, cancel_futures: bool) -> None:
        """Whatever runs ends with the process."""


class _Thread:
    def __init__(self, target: Callable[[], None], **_named: object) -> None:
        self._run = target

    def start(self) -> None:
        Process.running.spawn(self._run, passing=True)


class _Condition:
    """Its waiting is a pause: what is waited for may come meanwhile, or not."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_error: object) -> None: ...

    def wait_for(self, ready: Callable[[], bool], _timeout_s: float) -> bool:
        if not ready():
            Process.running.pause()
        return ready()


def _wait(futures: Collection[Future[Any]], timeout_s: float) -> Any:
    """A short time may be over at once, a long one never is."""

    def ended() -> bool:
        return all(one.done() for one in futures)

    if timeout_s <= copier.WAIT_S and not ended():
        Process.running.pause()
    while timeout_s > copier.WAIT_S and not ended():
        Process.running.pause(ended)
    return SimpleNamespace(
        done=[one for one in futures if one.done()], not_done=[one for one in futures if not one.done()]
    )


class _Clock:
    """What a process that asks again and again has for a clock: it goes on while it sleeps."""

    def monotonic(self) -> float:
        return Process.running.slept_s

    def sleep(self, _seconds: float) -> None:
        Process.running.sleep()


@contextmanager
def fibers() -> Iterator[None]:
    """Inside, the mirror's own classes run without a thread."""
    with ExitStack() as held:
        for owner, name, instead in (
            (admin, "time", _Clock()),
            (client, "time", _Clock()),
            (transactional_writer, "time", _Clock()),
            (
                offsets,
                "threading",
                SimpleNamespace(Lock=nullcontext),
            ),  # the simulated client takes several at once
            (copier, "ThreadPoolExecutor", _Pool),
            (copier, "wait", _wait),
            (background, "threading", SimpleNamespace(Thread=_Thread)),
            (preflight, "threading", SimpleNamespace(Condition=_Condition)),
            (preflight, "wait", _wait),
            (service, "threading", SimpleNamespace(Event=lambda: SimEvent(Process.running))),
            (service, "rare_collections", nullcontext),
        ):
            held.enter_context(patch.object(owner, name, instead))
        yield
