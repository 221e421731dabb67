"""A view's start in the recovery log: from the store as found to the first milestone followed."""

from __future__ import annotations

from collections.abc import Callable

from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.recovery_log import StartRecord
from cutwater.views.follow.applier import Applied
from cutwater.views.follow.follower import Observer
from cutwater.views.query.view import State, View
from cutwater.views.snapshots.restore import Restored
from cutwater.views.store.store import Store


class StartReport:
    """Passes on what the follower reports; until it follows for the first time, also records it."""

    def __init__(
        self, account: StartRecord, observer: Observer, view: View, store: Store, wake: Callable[[], None]
    ) -> None:
        """`wake`: wakes the requests that wait for a milestone."""
        self._wake = wake
        self._seen: object = None
        self._account = account
        self._observer = observer
        self._view = view
        shown = store.applied.milestone.token if store.applied else "none"
        broken_off = store.applying.milestone.token if store.applying else "none"
        account.record_facts(milestone=shown, broken_off=broken_off)
        if store.emptied:
            account.record_decision("empty the store: it held another part of the state")
        whole = store.applied is not None and store.applying is None
        account.record_decision(
            f"show milestone {shown} and continue after it" if whole else "restore from the changelog"
        )

    def restored(self, done: Restored) -> None:
        """Record that the empty store was filled from a snapshot."""
        token = Token(done.manifest.generation, done.manifest.sequence)
        self._account.record_facts(snapshot=f"{token} ({done.tier}; newer ones unusable: {done.passed_over})")
        self._account.record_decision(f"restore the snapshot of {token} and continue after it")
        files = f"{len(done.manifest.files)} files, {done.manifest.size} bytes"
        self._account.record_step(f"restoring the snapshot of {token} ({files})", done.seconds)

    def applied(self, milestone: Milestone, done: Applied) -> None:
        self._wake_waiters()
        self._observer.applied(milestone, done)
        self._account.record_step(f"applying milestone {milestone.token} ({done.records} records)", done.seconds)

    def backlog(self, milestones: int) -> None:
        self._wake_waiters()  # a snapshot may be shown, or the stream may name lost tokens
        self._observer.backlog(milestones)
        if not milestones and self._view.status.state is State.FOLLOWING:
            shown = self._view.milestone
            self._account.record_facts(following=shown.token if shown else "none")
            self._account.running()

    def _wake_waiters(self) -> None:
        """Only if something changed: many requests may wait."""
        now = self._view.milestone, self._view.lineage
        if now != self._seen:
            self._seen = now
            self._wake()

    def retried(self) -> None:
        self._observer.retried()

    def diverged(self) -> None:
        self._observer.diverged()
