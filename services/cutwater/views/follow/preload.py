"""Loading a candidate's rows before its promotion, so that showing or comparing them has little left to read.

The rows are neither shown nor proved. They are an interrupted load, which the next user of the store continues and
proves completely: its milestone's rows are above the loaded ones, or were counted for that epoch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.kafka_client_log import QUIET
from cutwater.adapters.topics.candidates import candidacy, parent_of
from cutwater.adapters.topics.commit_stream import Tail
from cutwater.core.errors import DivergenceError, MachineError, UsageError
from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.job.job import Job
from cutwater.core.pacing.reader_loads import GIVEN_UP, LOADED, LOADING
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.bulk_load import BULK_RECORDS, Done, Slice, remaining_slices
from cutwater.core.state.partition_share import Partitions
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.changelog.proof import require_schema
from cutwater.views.changelog.range_reader import Stopped
from cutwater.views.store.store import Store

LOOK_S = 2.0
RETRY_S = 20.0
MORE = 10
"""A further load needs at least the least number of records divided by this."""
WORKERS = 1
NICENESS = 10
"""Of the process that loads: behind the drivers, as readers wait for them. 'cutwater generation promote' waits for
the load."""

Report = Callable[[Generation, str, int], None]
"""Tells a candidate, the state of its load (`ReaderLoad.state`), and the epoch of its milestone."""


def watch(
    cluster: Cluster,
    job: str,
    stop: threading.Event,
    look: Callable[[Candidates], None],
    log: Any,
    look_s: float = LOOK_S,
) -> None:
    """Call `look` with the candidates every `look_s` seconds until stopped. Errors are logged, and retried."""
    said = ""
    while not stop.is_set():
        try:
            _follow(cluster, job, stop, look, look_s)
        except Exception as error:  # the service does not depend on the preload
            if str(error) != said:
                said = str(error)
                log.warning("candidates cannot be read", error=said)
            stop.wait(RETRY_S)


def _follow(
    cluster: Cluster, job: str, stop: threading.Event, look: Callable[[Candidates], None], look_s: float
) -> None:
    topic, known = topics.candidates(job), Candidates()
    partition_count(cluster, topic)
    # Polled every few seconds, and idle nearly always.
    with closing(Tail(cluster, topic, **{**QUIET, "fetch.wait.max.ms": 500})) as tail:
        while not stop.wait(look_s):
            for record in tail.to_end():
                known = known.after(candidacy(record))
            look(known)


class CandidateChoice:
    """Choice of the candidate to preload. Only one at a time, to bound the disk it takes."""

    def __init__(
        self,
        changed: Callable[[Generation | None], None],
        load: Callable[[Candidate, Milestone], None],
        log: Any,
        report: Report | None = None,
    ) -> None:
        """`changed`: deletes other candidates' preloaded rows. `load`: loads a candidate up to a milestone.
        `report`: told when the first load of a candidate begins, and how it ends."""
        self._changed, self._load, self._log = changed, load, log
        self._report, self._reported = report, ""
        self._told = False
        self._generation: Generation | None = None
        self._given_up: set[Generation] = set()

    def load_next(self, known: Candidates, behind: Milestone) -> None:
        """Load the new rows of the candidate that will likely follow `behind`."""
        chosen = known.likely_next(behind, parent_of, self._generation, self._given_up)
        self._change(chosen.claim.generation if chosen else None)
        if chosen is None or chosen.newest is None:
            return
        self._report_state(LOADING, chosen.newest)
        try:
            self._load(chosen, chosen.newest)
        except Stopped:
            return
        except (DivergenceError, UsageError, MachineError) as error:
            # Whatever takes the candidate over meets the same error, or has the room by then.
            self._log.warning("a candidate is not preloaded", generation=str(self._generation), error=str(error))
            self._report_state(GIVEN_UP, chosen.newest)
            self.give_up()
        else:
            self._report_state(LOADED, chosen.newest)

    def _report_state(self, state: str, newest: Milestone) -> None:
        """Report a state once. Loads of what is written later are not reported."""
        if self._report is None or state == self._reported or (state, self._reported) == (LOADING, LOADED):
            return
        self._reported = state
        self._report(newest.generation, state, newest.epoch)

    def give_up(self) -> None:
        """Stop preloading the chosen candidate, and delete its rows."""
        if self._generation is not None:
            self._given_up.add(self._generation)
            self._change(None)

    def _change(self, generation: Generation | None) -> None:
        if not self._told or generation != self._generation:
            self._changed(generation)
            self._told, self._generation, self._reported = True, generation, ""


class Preloader:
    """The store of one generation without a milestone."""

    def __init__(
        self,
        job: Job,
        generation: Generation,
        open_store: Callable[[], Store],
        make_bulk: Callable[[Store, str], BulkLoader],
        log: Any,
        least_records: int = BULK_RECORDS,
    ) -> None:
        """`open_store`: called once there is anything to load. `make_bulk`: creates the loader of a store and a
        changelog. `least_records`: fewer records are not preloaded, since reading them later takes no longer."""
        self._job, self._generation, self._log = job, generation, log
        self._open_store, self._make_bulk = open_store, make_bulk
        self._least_records = least_records
        self._store: Store | None = None
        self._done = Done({})

    @property
    def store(self) -> Store | None:
        """The open store; None while there is nothing in it."""
        return self._store

    def up_to(
        self,
        milestone: Milestone,
        partitions: Partitions | None = None,
        floor_ms: int | None = None,
        however_little: bool = False,
    ) -> bool:
        """Load everything below the milestone's cut, if that is much more than is loaded; return whether all is
        loaded. `partitions`: those that are held; None for all. `floor_ms`: as of `BulkLoader.load`. Raises as
        `BulkLoader.load` does."""
        cut, began_s = milestone.changelog_cut, time.monotonic()
        slices = [
            Slice(place.partition, 0, end)
            for place, end in cut
            if partitions is None or place.partition in partitions
        ]
        rest = remaining_slices(slices, self._done)
        every, more = (sum(one.records_max for one in some) for some in (slices, rest))
        least = 1 if however_little else max(1, self._least_records // MORE)
        if every < self._least_records or more < least:
            return more == 0
        topic = topics.changelog(self._job.name, self._generation)
        require_schema(topic, milestone, self._job)
        store = self._store = self._store or self._open_store()
        self._done = self._make_bulk(store, topic).load(milestone, slices, floor_ms)
        self._log.info(
            "candidate preloaded",
            generation=str(self._generation),
            epoch=milestone.epoch,
            records=self._done.records,
            seconds=round(time.monotonic() - began_s, 3),
        )
        return True

    def close(self) -> None:
        """Close the store, so that it can be opened elsewhere."""
        store, self._store = self._store, None
        if store is not None:
            with suppress(MachineError):  # the next one to open it gets the error
                store.close()
