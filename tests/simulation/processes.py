"""Processes of the simulated world: fibers that stop at every call to the outside, where they can be killed."""

from __future__ import annotations

from collections.abc import Callable

from greenlet import getcurrent, greenlet

Ready = Callable[[], bool]


class Killed(BaseException):
    """kill -9: nothing that the process does after it reaches anybody."""


class Luck:
    """Small numbers that depend on the step alone: a history with steps taken out keeps those of the others."""

    def __init__(self) -> None:
        self._state = 0

    def set(self, number: int) -> None:
        self._state = number

    def __call__(self) -> int:
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        return self._state >> 33


class Process:
    """One life of a service. `slot` names its part; another life has another object."""

    running: Process
    """The one that moves now: what would be a thread of its own is a fiber of it."""

    def __init__(self, slot: str, luck: Luck) -> None:
        self.slot = slot
        self.luck = luck
        self.alive = True
        self.error: BaseException | None = None
        self.lose_next_answer = False
        self.slept_s = 0.0
        self._outside = getcurrent()
        self._passing: set[greenlet] = set()
        self._fibers: dict[greenlet, Ready | None] = {}

    def spawn(self, run: Callable[[], None], passing: bool = False) -> None:
        """Run something beside what runs already. The process ends with the first that ends, unless passing."""

        def guarded() -> None:
            try:
                run()
            except Killed:
                pass
            except BaseException as error:
                self.error = self.error or error

        fiber = greenlet(guarded, self._outside)
        self._fibers[fiber] = None
        if passing:
            self._passing.add(fiber)

    def pause(self, ready: Ready | None = None) -> None:
        """A call to the outside: others run, and this process may not come back. `ready`: an answer is there."""
        fiber = getcurrent()
        if fiber not in self._fibers:
            if not self.alive:
                raise Killed
            return  # the checker looks in from outside
        self._fibers[fiber] = ready
        self._outside.switch()
        if not self.alive:
            raise Killed

    def sleep(self) -> None:
        """About a second, by its own clock; whoever looks in from outside does not sleep."""
        self.slept_s += 1.0
        if getcurrent() in self._fibers:
            self.pause()

    def unknown_outcome(self) -> None:
        """The transaction is committed, and the answer may be lost on its way."""
        if self.lose_next_answer:
            self.lose_next_answer = False
            from confluent_kafka import KafkaError, KafkaException

            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))

    def run(self) -> bool:
        """Let one fiber go on to its next call; False when none of them has anything to go on with."""
        fibers = [one for one, ready in self._fibers.items() if ready is None or ready()]
        if not fibers:
            return False
        fiber = fibers[self.luck() % len(fibers)] if len(fibers) > 1 else fibers[0]
        Process.running = self
        fiber.switch()
        if fiber.dead and fiber in self._passing:
            self._fibers.pop(fiber)
            self._passing.discard(fiber)
            # Whoever waits for the outside does so for a moment only, and then looks what has become of the job.
            self._fibers = dict.fromkeys(self._fibers)
        elif fiber.dead:
            self.kill()
        return True

    def kill(self) -> None:
        self.alive = False
        for fiber in list(self._fibers):
            if fiber:  # begun, and not ended
                fiber.throw(Killed)
        self._fibers.clear()


class Several:
    """Processes by their slot: those that move, and those that stand still while a successor may begin."""

    def __init__(self) -> None:
        self.luck = Luck()
        self.live: dict[str, Process] = {}
        self.stalled: dict[str, Process] = {}
        self.left: dict[str, str] = {}
        """Those that are never started again, and what they have said."""

    def go(self, where: dict[str, Process], slot: str, most: int) -> None:
        """Let one make so many calls at most; where it is to live and does not, it begins."""
        if where is self.live and slot not in where and self.begins(slot):
            self.start(slot)
        process = where.get(slot)
        for _ in range(most):
            if process is None or not process.run():
                return
            if not process.alive:
                del where[slot]
                self.ended(slot, process.error, where is self.stalled)
                return

    def begins(self, slot: str) -> bool:
        """May it be started, when it is to run and does not? What somebody asks for is asked once."""
        return not slot.startswith("ask")

    def start(self, slot: str) -> None:
        """Put a process of the slot among those that live."""
        raise NotImplementedError

    def ended(self, slot: str, error: BaseException | None, was_stalled: bool) -> None:
        """One has ended by itself: may it?"""
        raise NotImplementedError


class SimFuture:
    """What a job in the background has come to."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._error: BaseException | None = None
        self._done = False

    def run(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Killed:
            raise
        except BaseException as error:
            self._error = error
        self._done = True

    def done(self) -> bool:
        return self._done

    def result(self) -> None:
        while not self._done:
            self._process.pause(self.done)
        if self._error is not None:
            raise self._error


class SimExecutor:
    """A thread of a process that runs jobs, as a fiber."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._last: SimFuture | None = None

    def submit(self, job: Callable[[], None]) -> SimFuture:
        future = self._last = SimFuture(self._process)
        self._process.spawn(lambda: future.run(job), passing=True)
        return future

    def shutdown(self, wait: bool) -> None:
        while wait and self._last is not None and not self._last.done():
            self._process.pause(self._last.done)


class SimLock:
    """A lock between the fibers of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._held = False

    def acquire(self, blocking: bool = True) -> bool:
        while self._held:
            if not blocking:
                return False
            self._process.pause(lambda: not self._held)
        self._held = True
        return True

    def release(self) -> None:
        self._held = False


class SimEvent:
    """A `threading.Event` whose waiting is a pause."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def is_set(self) -> bool:
        return False

    def set(self) -> None:
        raise AssertionError("nobody stops a simulated process in peace")

    def wait(self, timeout: float | None = None) -> bool:
        self._process.pause()
        return False
