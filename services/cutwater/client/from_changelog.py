"""Complete milestones from the changelog and the commit stream, without a publisher."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from confluent_kafka import Message

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.kafka.client import make_consumer, partition_count, search_backwards
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import promoted
from cutwater.client.broker_outage import OUTAGE_S
from cutwater.client.values import Change, CommittedMilestone
from cutwater.core.errors import FencedError, UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Heartbeat, Milestone
from cutwater.core.state.backlog import Backlog, Entry, Jump, Step
from cutwater.core.state.reader_names import CLIENT
from cutwater.views.changelog.milestone_rows import Updates
from cutwater.views.changelog.proof import Overtaken
from cutwater.views.changelog.range_reader import Ranges, Stopped
from cutwater.views.changelog.record_reader import KeyReader
from cutwater.views.follow.milestone_feed import MilestoneFeed
from cutwater.views.query.presenter import Presenter

POLL_S = 0.2


def from_changelog(
    job: Job,
    cluster: Cluster,
    generation: Generation | None,
    after: Token | None,
    stop: Callable[[], bool],
    idle_s: float | None,
    rows_max: int,
    clock: Callable[[], int] = now_ms,
) -> Iterator[CommittedMilestone]:
    """See `committed`. `generation`: None for the settings' or promoted one."""
    generation = generation or _current(job, cluster)
    stream, changelog = topics.milestones(job.name), topics.changelog(job.name, generation)
    for topic in (stream, changelog):
        partition_count(cluster, topic)
    entry = _entry(cluster, stream, after) if after else None
    ranges = Ranges(cluster, changelog, stop)
    backlog = Backlog(generation, entry, reader=CLIENT, hands_over=True)
    reading = _Reading(job, ranges, backlog, entry, rows_max, clock)
    feed: MilestoneFeed | None = None
    waited = time.monotonic()
    try:
        feed = MilestoneFeed(cluster, stream, entry.offset if entry else None, CLIENT)
        while not stop() and (idle_s is None or time.monotonic() - waited < idle_s):
            reading.read(feed)
            while (milestone := reading.next()) is not None:
                yield milestone
                waited = time.monotonic()
    except Stopped:
        return
    finally:
        ranges.close()
        if feed is not None:
            feed.close()


class _Reading:
    def __init__(
        self,
        job: Job,
        ranges: Ranges,
        backlog: Backlog,
        done: Entry | None,
        rows_max: int,
        clock: Callable[[], int],
    ) -> None:
        self._ranges = ranges
        self._backlog = backlog
        self._done = done
        self._rows_max = rows_max
        self._now_ms = clock
        self._updates = Updates(job, ranges, clock)
        self._keys = KeyReader()
        self._answered = time.monotonic()
        self._job, self._presenter = job, Presenter(job)

    def read(self, feed: MilestoneFeed) -> None:
        for record in feed.poll(0.0 if self._backlog.full else POLL_S):
            if not isinstance(record, Heartbeat):
                self._backlog.add(record)
        if not feed.trouble:
            self._answered = time.monotonic()
        elif time.monotonic() - self._answered > OUTAGE_S:
            raise UnavailableError(f"{feed.topic}: {feed.trouble}; check that the brokers run and can be reached")
        if feed.at_end:
            self._backlog.end_of_stream()

    def next(self) -> CommittedMilestone | None:
        """Return the next milestone with its changes; None if there is nothing to read yet. Raises FencedError
        behind the last one of a generation that was replaced."""
        while (plan := self._backlog.plan(self._now_ms())) is not None:
            try:
                changes = self._changes(plan)
            except Overtaken as overtaken:
                self._backlog.mark_overtaken(plan.to, overtaken.looked)
                continue
            first = self._done.milestone.sequence + 1 if self._done else 1
            milestone, self._done = plan.to.milestone, plan.to
            self._backlog.mark_applied(plan.to)
            return CommittedMilestone(
                milestone.token, first, milestone.watermark_ms, milestone.committed_ms, tuple(changes.values())
            )
        if self._backlog.successor is not None and self._backlog.over(self._now_ms()):
            to = self._backlog.successor.token
            raise FencedError(
                f"{to.generation} was promoted at sequence {to.sequence}, and this reader follows the "
                f"changelog of the generation before: {CLIENT.anew}"
            )
        return None

    def _changes(self, plan: Step | Jump) -> dict[bytes, Change]:
        since = self._done.milestone.changelog_cut if self._done else Cut()
        horizon_ms = plan.to.milestone.horizon_ms
        changes: dict[bytes, Change] = {}
        for key, value in self._updates.rows(plan, since):
            window = self._keys.window(key)
            if window.end_ms <= horizon_ms:
                continue  # not part of the state
            values, columns = self._presenter.values(value), self._job.key_values(window.key)
            changes[key] = Change(window.key, window.start_ms, window.end_ms, "update", values, columns)
            if len(changes) > self._rows_max:
                raise UsageError(
                    f"{self._ranges.topic}: milestone {plan.to.milestone.token} has more than {self._rows_max:,} "
                    "rows: pass a larger rows_max, or query the API"
                )
        return changes


def _current(job: Job, cluster: Cluster) -> Generation:
    """Return the settings' generation if they name one, else the promoted one, else the first."""
    settings = load_settings()
    named = "generation" in settings.model_fields_set
    last = None if named else promoted(cluster, job.name)
    return last.generation if last else settings.generation


def _entry(cluster: Cluster, stream: str, token: Token) -> Entry:
    """Return the milestone of a token from the commit stream. Raise UsageError if it is not there."""

    def find(messages: Iterator[Message]) -> Entry | None:
        for message in messages:
            value = bytes(message.value())
            record = protocol_records.decode(value)
            if isinstance(record, Milestone) and record.sequence > token.sequence:
                return None
            if isinstance(record, Milestone) and record.token == token:
                return Entry(record, value, message.offset())
        return None

    consumer = make_consumer(cluster)
    try:
        found = search_backwards(consumer, stream, 0, find)
    finally:
        consumer.close()
    if found is None:
        raise UsageError(
            f"{stream} does not hold {token}: it is pruned, of another generation, or not written yet"
        )
    return found
