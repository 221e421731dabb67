"""What watch knows and judges: from plain records and moments, in any order of reading, over any restarts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alert_changes import RULES, decide_changes
from cutwater.core.monitoring.alert_rules import Limits
from cutwater.core.monitoring.alerts import Alert
from cutwater.core.monitoring.job_status import Drift, JobStatus, Reader, drift, progress_ms
from cutwater.core.monitoring.job_status_fold import (
    observe_end,
    observe_nothing,
    observe_view,
    take_alert,
    take_published,
    take_signal,
    take_stream,
    take_unreadable,
)
from cutwater.core.monitoring.status_text import status_by_part
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone, Signal
from support.protocol_samples import GENERATION, JOB, barrier, committed, heartbeat, milestone, source_cut, start

S = 1_000
T0 = 1_000_000 * S
LIMITS = Limits(
    silent_ms=60 * S,
    driver_silent_ms=180 * S,
    stuck_ms=120 * S,
    window_ms=300 * S,
    dead_letters=10,
    late=1_000,
    late_share=0.02,
    lateness_ms=3_600 * S,
)
ALERTS = topics.alerts(JOB)


class Story:
    """Writes records as the services would; keeps what watch must be able to rebuild from."""

    def __init__(self) -> None:
        self.state = JobStatus(JOB, GENERATION)
        self.log: list[tuple[Callable[..., JobStatus], str, int, tuple[object, ...]]] = []
        self.now = T0
        self.written: list[Alert] = []
        self.parent: Milestone | None = None

    def _append(self, take: Callable[..., JobStatus], topic: str, *record: object) -> None:
        offset = sum(1 for _, at, _, _ in self.log if at == topic)
        self.log.append((take, topic, offset, record))
        self.state = take(self.state, topic, offset, *record)

    def say(self, signal: Signal) -> None:
        self._append(take_signal, "b", signal)

    def barrier(self, epoch: int, attempt: int = 1, **more: object) -> None:
        self.say(barrier(epoch, attempt, epoch_started_ms=self.now - S, written_ms=self.now, **more))

    def milestone(self, epoch: int, **more: object) -> None:
        when = {"written_ms": self.now, "committed_ms": self.now}
        self.parent = milestone(epoch, self.parent, **{"rejected": 0, **when, **more})
        self._append(take_stream, "m", self.parent)

    def publish(self, sequence: int) -> None:
        self._append(take_published, "p", sequence, self.now)

    def show(self, sequence: int) -> None:
        self.state = observe_view(self.state, sequence, self.now)

    def epoch(self, epoch: int, **more: object) -> None:
        """One that goes the whole way."""
        self.barrier(epoch)
        self.say(committed(epoch, at_ms=self.now))
        self.milestone(epoch, **more)
        self.publish(epoch + 1)

    def tick(self, seconds: float = 0, waiting: int | None = 0) -> list[tuple[str, str, bool]]:
        """(kind, part, on) of what is written now, after so many seconds."""
        self.now += int(seconds * S)
        if waiting is None:
            self.state = observe_nothing(self.state, self.now, 37 * S)
        else:
            cut = self.state.processed.source_cut if self.state.processed else Cut()
            end = Cut.of({place: offset + waiting * (not place.partition) for place, offset in cut})
            self.state = observe_end(self.state, end, self.now, 37 * S)
        found = decide_changes(self.state, LIMITS, self.now)
        for one in found:
            self._append(take_alert, ALERTS, one)
        self.written += found
        return [(one.kind, one.part, one.on) for one in found]

    def restart(self) -> None:
        """Known again from the records alone."""
        state = JobStatus(JOB, GENERATION)
        for take, topic, offset, record in self.log:
            state = take(state, topic, offset, *record)
        self.state = state


def test_a_job_that_runs_raises_nothing() -> None:
    """Epochs go by, are published, and pauses of an idle job are known by its heartbeats."""
    story = Story()
    story.say(start(1, at_ms=T0))
    for epoch in range(20):
        story.epoch(epoch)
        assert story.tick(0.5, waiting=500) == []
    for _ in range(10):
        assert story.tick(60) == []
        story.say(heartbeat(19, story.now))
        assert story.state.idle
    assert drift(story.state).epochs == 0


def test_the_drift_counts_epochs_time_events_and_milestones() -> None:
    """Between the newest barrier and the newest milestone, and between that and the output."""
    story = Story()
    story.epoch(0)
    story.publish(0)
    for epoch in (1, 2, 3):
        story.now += 10 * S
        story.barrier(epoch)
    story.tick(0, waiting=7)
    found = drift(story.state)
    assert (found.epochs, found.ms, found.waiting, found.unpublished) == (3, 30 * S, 7, 1)
    assert found.events == source_cut(3).records_since(source_cut(0))


def test_a_job_that_has_done_nothing_has_no_drift() -> None:
    """Of what waits at its source nothing is known before somebody looks."""
    empty = JobStatus(JOB, GENERATION)
    assert drift(empty) == Drift(0, 0, 0, None, 0)
    assert drift(replace(empty, waiting=7)) == Drift(0, 0, 0, 7, 0)


def test_a_job_whose_every_epoch_has_its_milestone_has_no_drift() -> None:
    """Nor where the stream is read ahead of the barriers, or the output's position ahead of the stream."""
    done = replace(JobStatus(JOB, GENERATION), processed=barrier(3), committed=milestone(3), publisher=Reader(1))
    assert drift(done) == Drift(0, 0, 0, None, 0)
    assert drift(replace(done, processed=barrier(2))) == Drift(0, 0, 0, None, 0)
    assert drift(replace(done, publisher=Reader(9))).unpublished == 0


def test_a_drift_is_never_negative() -> None:
    """An epoch that read nothing new, by a driver whose clock is behind the one before."""
    done = replace(JobStatus(JOB, GENERATION), committed=milestone(3))
    late = replace(done, processed=barrier(4, source_cut=source_cut(3), written_ms=5))
    assert drift(late) == Drift(1, 0, 0, None, 1)


def test_an_epoch_that_spark_does_not_commit_is_stuck_until_the_next_barrier() -> None:
    """A restart of the driver alone is no sign that the epoch is done."""
    story = Story()
    story.epoch(0)
    story.barrier(1)
    assert story.tick(119, waiting=None) == []
    assert story.tick(2, waiting=None) == [("stuck-epoch", "driver", True)]
    story.say(start(2, at_ms=story.now))
    assert story.tick(1, waiting=None) == []
    story.barrier(1, attempt=2)
    assert story.tick(1, waiting=None) == [("stuck-epoch", "driver", False)]


def test_events_that_wait_without_a_barrier_are_a_stuck_epoch() -> None:
    """Not where nothing waits: then the job is idle."""
    story = Story()
    story.epoch(0)
    assert story.tick(170, waiting=0) == []
    assert story.tick(1, waiting=5) == []
    story.say(heartbeat(0, story.now))
    assert story.tick(121, waiting=5) == [("stuck-epoch", "driver", True)]
    assert story.tick(1, waiting=0) == [("stuck-epoch", "driver", False)]


def test_a_driver_without_a_word_is_silent_until_it_speaks() -> None:
    """Bounded by more than the longest pause of an idle job; before the first start there is nobody to miss."""
    story = Story()
    assert story.tick(10_000) == []
    story.epoch(0)
    assert story.tick(179) == []
    assert story.tick(2) == [("silent", "driver", True)]
    assert story.tick(500) == []
    story.say(start(2, at_ms=story.now))
    assert story.tick(0) == [("silent", "driver", False)]


def test_commit_signal_is_silent_when_committed_epochs_have_no_milestone() -> None:
    """However many barriers come meanwhile; the drift grows with them."""
    story = Story()
    story.epoch(0)
    raised = []
    for epoch in range(1, 200):
        story.barrier(epoch)
        raised += story.tick(2, waiting=0)
    assert raised == [("silent", "commit-signal", True), ("growing-drift", "commit-signal", True)]
    for epoch in range(1, 199):
        story.milestone(epoch)
        story.publish(epoch + 1)
    assert sorted(story.tick(1)) == [("growing-drift", "commit-signal", False), ("silent", "commit-signal", False)]


@pytest.mark.parametrize("part", ["publisher", "view"])
def test_readers_of_the_commit_stream_are_silent_when_behind_and_not_moving(part: str) -> None:
    """Slow is not silent: as long as it moves nothing is raised."""
    story = Story()
    story.show(0)

    def move(sequence: int) -> None:
        if part == "publisher":
            story.publish(sequence)
            story.show(story.state.sequence)
        else:
            story.show(sequence)
            story.publish(story.state.sequence)

    for epoch in range(10):
        story.barrier(epoch)
        story.milestone(epoch)
        move(min(epoch + 1, 5))
    assert story.tick(59) == []
    move(6)
    assert story.tick(59) == []
    assert story.tick(2, waiting=None) == [("silent", part, True)]
    story.now += S
    move(7)
    assert story.tick(1, waiting=None) == [("silent", part, False)]


def test_a_reader_that_had_everything_gets_its_time_from_the_next_milestone_on() -> None:
    """After an idle night nobody is silent the moment that work comes."""
    story = Story()
    story.show(0)
    story.epoch(0)
    story.show(1)
    story.tick(100)
    story.say(heartbeat(0, story.now))
    story.barrier(1)
    story.milestone(1)
    assert story.tick(59, waiting=None) == []
    assert [key[:2] for key in story.tick(2, waiting=None)] == [("silent", "publisher"), ("silent", "view")]


def test_an_alert_that_comes_again_on_a_clock_set_back_is_later_than_the_one_before() -> None:
    """Else its record would count as an old one, and it would be raised at every look."""
    story = Story()
    for _ in range(3):
        story.say(start(1, at_ms=story.now))
        assert story.tick(200) == [("silent", "driver", True)]
        story.say(start(1, at_ms=story.now))
        assert story.tick(0) == [("silent", "driver", False)]
        story.now -= 200 * S
        story.state = replace(story.state, spoke_ms=story.now)


def test_waiting_events_that_get_more_and_more_are_a_growing_drift() -> None:
    """Levels that go up and down are not; half of what was there when it was raised ends it."""
    story = Story()
    found = []
    for epoch in range(60):
        story.epoch(epoch)
        found += story.tick(15, waiting=2_000 + 500 * (epoch % 2))
    assert found == []
    for epoch in range(60, 90):
        story.epoch(epoch)
        found += story.tick(15, waiting=1_000 * (epoch - 58))
    assert found == [("growing-drift", "driver", True)]
    story.epoch(90)
    assert story.tick(15, waiting=900) == [("growing-drift", "driver", False)]


def test_dead_letters_of_the_window_raise_and_a_clean_window_resolves() -> None:
    """Nine are too few, the tenth is not; it stays on while any are in the window."""
    story = Story()
    story.epoch(0, rejected=9)
    assert story.tick(1) == []
    story.epoch(1, rejected=1)
    assert story.tick(1) == [("dead-letters", "source", True)]
    found = [each for epoch in range(2, 40) for each in (story.epoch(epoch, rejected=0), story.tick(10))[1]]
    assert found == [("dead-letters", "source", False)]


def test_deletions_of_a_compacted_topic_raise_nothing() -> None:
    """They are dead letters, and nobody's mistake; what else is among them counts."""
    story = Story()
    story.epoch(0, events=5_000, rejected=1_000, no_value=1_000)
    assert story.tick(1) == []
    story.epoch(1, events=5_000, rejected=1_010, no_value=1_000)
    assert story.tick(1) == [("dead-letters", "source", True)]


def test_a_driver_that_was_killed_is_not_called_idle_while_events_wait() -> None:
    """Its last word was that nothing is new; what it did not take since, and for how long, is told."""
    story = Story()
    story.epoch(0)
    story.say(heartbeat(0, story.now))
    story.tick(1, waiting=0)
    assert status_by_part(story.state, LIMITS, story.now)["driver"] == "idle"
    story.tick(1, waiting=9_000)
    assert status_by_part(story.state, LIMITS, story.now)["driver"] == "beginning"
    story.tick(8, waiting=9_000)
    told = status_by_part(story.state, LIMITS, story.now)["driver"]
    assert told == "nothing heard for 10 s, 9,000 events wait: has it been killed?"


def test_a_driver_is_not_called_idle_behind_an_open_transaction() -> None:
    """Nothing waits that it could read: committed events stand behind one that has not ended."""
    story = Story()
    story.epoch(0)
    story.say(heartbeat(0, story.now))
    story.tick(1, waiting=0)
    story.state = replace(story.state, hidden=21)
    told = status_by_part(story.state, LIMITS, story.now)["driver"]
    assert told == "has read all committed events; 21 offsets are after the start of an open transaction"


def test_a_driver_that_works_off_a_backlog_says_how_long_that_takes() -> None:
    """By the rate of its newest epoch; before the first one nobody knows."""
    story = Story()
    story.say(start(1, at_ms=story.now))
    story.tick(3)
    story.state = replace(story.state, waiting=500)
    told = status_by_part(story.state, LIMITS, story.now)["driver"]
    assert told == "at epoch 0: nothing heard for 3 s, 500 events wait"
    story.barrier(0, events=100)
    story.state = replace(story.state, waiting=500)
    told = status_by_part(story.state, LIMITS, story.now)["driver"]
    assert told.endswith("500 events wait, 100 events/s before: about 5 s left")


def test_events_that_are_all_late_raise_by_their_share() -> None:
    """The finding: one event far ahead, and each of the next 5,000 is late; nine of nine would be too few."""
    story = Story()
    story.epoch(0, events=9, late=9, rejected=0)
    assert story.tick(1) == []
    story.epoch(1, events=500, late=499, rejected=0)
    assert story.tick(1) == [("late-events", "source", True)]
    assert "508 of 509 events" in story.state.alerts["late-events", "source"].text


@pytest.mark.parametrize(("late", "raised"), [(19, False), (20, True)])
def test_the_share_is_of_usable_events(late: int, raised: bool) -> None:
    """Of 1,000 events one in fifty is 20; dead letters do not count."""
    story = Story()
    story.epoch(0, events=1_009, rejected=9, late=late)
    assert (("late-events", "source", True) in story.tick(1)) is raised


@pytest.mark.parametrize(("late", "raised"), [(999, False), (1_000, True)])
def test_very_many_late_events_raise_whatever_their_share(late: int, raised: bool) -> None:
    """A busy job may lose thousands of events within one in fifty."""
    story = Story()
    story.epoch(0, events=10**7, rejected=0, late=late)
    assert (story.tick(1) == [("late-events", "source", True)]) is raised


def test_late_events_are_over_once_events_come_in_time_again() -> None:
    """A source that rests says nothing, and a share just below the bound does not make the alert flicker."""
    story = Story()
    story.epoch(0, events=100, rejected=0, late=100)
    assert story.tick(1) == [("late-events", "source", True)]
    assert ("late-events", "source", False) not in story.tick(900)
    story.epoch(1, events=1_000, rejected=0, late=15)
    assert ("late-events", "source", False) not in story.tick(1)
    story.now += 900 * S
    story.epoch(2, events=1_000, rejected=0, late=9)
    assert ("late-events", "source", False) in story.tick(1)


def test_skew_above_the_lateness_raises_and_one_quiet_epoch_does_not_resolve() -> None:
    """An epoch that reads one partition only has no skew to tell of."""
    story = Story()
    story.epoch(0, skew_ms=3_600 * S + 1)
    assert story.tick(1) == [("skew", "source", True)]
    story.epoch(1, skew_ms=0)
    assert story.tick(1) == []
    story.epoch(2, skew_ms=0)
    assert ("skew", "source", False) in story.tick(400)


def test_a_driver_that_writes_behind_a_newer_start_is_a_fenced_writer() -> None:
    """What it says is not heard: neither its barrier nor its sign of life."""
    story = Story()
    story.epoch(0)
    story.say(start(2, at_ms=story.now))
    story.barrier(1, attempt=1)
    assert story.state.processed is not None
    assert story.state.processed.epoch == 0
    assert story.tick(1) == [("fenced-writer", "barriers", True)]
    assert ("fenced-writer", "barriers", False) not in story.tick(299, waiting=None)
    assert story.tick(1, waiting=None)[-1:] == [("fenced-writer", "barriers", False)]
    assert not any(kind == "fenced-writer" for kind, _, _ in story.tick(10))


def test_what_a_service_told_before_it_left_is_resolved_by_its_progress() -> None:
    """A divergence stays on for as long as the part stands where it stood."""
    story = Story()
    story.epoch(0)
    told = Alert(JOB, GENERATION, alerts.DIVERGENCE, alerts.PUBLISHER, "publisher", story.now, None, 1, 0, "rows")
    story.state = take_alert(story.state, ALERTS, 0, told)
    story.now += S
    assert story.tick(1) == []
    story.restart()
    story.state = take_alert(story.state, ALERTS, 0, told)
    story.publish(2)
    assert story.tick(1) == [("divergence", "publisher", False)]


ONE = st.builds(
    lambda kind, raised, end: Alert(
        JOB, GENERATION, kind, "driver", "watch", raised, end and raised + end, 0, end or 0, ""
    ),
    st.sampled_from(alerts.KINDS[:2]),
    st.integers(0, 5),
    st.none() | st.integers(1, 3),
)


@given(st.lists(ONE, max_size=12), st.randoms())
def test_alerts_are_the_same_in_whatever_order_they_are_read(records: list[Alert], rng: random.Random) -> None:
    """Twice, late or backwards: so a watch may write and read them at once."""
    mixed = records + rng.choices(records, k=3) if records else []
    rng.shuffle(mixed)
    assert alerts.fold(mixed) == alerts.fold(records)


class Chaos(Story):
    """A story whose every act is allowed at any time."""

    next, attempt, done = 0, 1, -1

    def act(self, name: str) -> None:
        getattr(self, f"act_{name}")()

    def act_barrier(self) -> None:
        self.barrier(self.next, self.attempt)
        self.next += 1

    def act_milestone(self, **more: object) -> None:
        if self.done < self.next - 1:
            self.done += 1
            self.milestone(self.done, **more)

    def act_bad(self) -> None:
        self.act_barrier()
        self.act_milestone(rejected=50, skew_ms=10**8)

    def act_publish(self) -> None:
        self.publish(self.done + 1)

    def act_beat(self) -> None:
        self.say(heartbeat(self.next - 1, self.now, self.attempt))

    def act_start(self) -> None:
        self.attempt += 1
        self.say(start(self.attempt, at_ms=self.now))

    def act_zombie(self) -> None:
        self.barrier(self.next, self.attempt - 1)

    def act_back(self) -> None:
        self.now -= 50 * S

    def act_nothing(self) -> None:
        pass

    def act_restart(self) -> None:
        before = self.state.alerts
        self.restart()
        assert self.state.alerts == before


ACTS = st.sampled_from([name.removeprefix("act_") for name in vars(Chaos) if name.startswith("act_")])


@settings(max_examples=300)
@given(st.lists(st.tuples(ACTS, st.sampled_from([0, 1, 30, 100, 400]), st.booleans()), max_size=40))
def test_over_any_history_alerts_alternate_and_a_restart_repeats_none(
    history: list[tuple[str, int, bool]],
) -> None:
    """Per kind and part: raised, resolved, raised, … in growing time; what is on is what the topic says."""
    story = Chaos()
    for act, seconds, blind in history:
        story.act(act)
        story.tick(seconds, waiting=None if blind else 10 * (seconds == 100))
    for key in RULES:
        mine = [one for one in story.written if one.key == key]
        assert [one.on for one in mine] == [number % 2 == 0 for number in range(len(mine))]
        raised = [one.raised_ms for one in mine if one.on]
        assert raised == sorted(set(raised))
    assert alerts.fold(story.written) == story.state.alerts


@given(st.lists(st.integers(0, 5), max_size=20))
def test_a_topic_read_again_changes_nothing(again: list[int]) -> None:
    """Faust delivers at least once, and a second look reads what Faust is about to bring."""
    story = Story()
    for epoch in range(4):
        story.epoch(epoch)
    known = story.state
    for number in again:
        take, topic, offset, record = story.log[number % len(story.log)]
        story.state = take(story.state, topic, offset, *record)
    assert story.state == known
    assert replace(known, reads={}) != known


def test_records_that_nobody_can_read_are_counted_once_each() -> None:
    """Read again they are known; what follows is taken."""
    state = JobStatus(JOB, GENERATION)
    for offset in (0, 1, 1, 0):
        state = take_unreadable(state, "b", offset)
    assert (state.unreadable, state.reads["b"]) == (2, 2)


def test_one_step_behind_is_in_step() -> None:
    """One epoch, and one milestone, is always under way; two are told."""
    story = Story()
    story.show(0)
    story.epoch(0)
    story.barrier(1)
    told = status_by_part(story.state, LIMITS, story.now)
    assert (told["commit-signal"], told["view"], told["publisher"]) == ("in step", "in step", "in step")
    story.barrier(2)
    story.milestone(1)
    story.barrier(3)
    told = status_by_part(story.state, LIMITS, story.now)
    assert told["commit-signal"] == "2 epochs behind"
    assert told["view"] == "2 milestones behind"
    assert told["publisher"] == "in step"


def test_a_writer_that_said_itself_that_it_was_fenced_is_resolved_after_the_window() -> None:
    """It has stopped and says nothing more; progress of its successor is none of its own."""
    story = Story()
    story.epoch(0)
    told = Alert(JOB, GENERATION, alerts.FENCED_WRITER, alerts.PUBLISHER, "publisher", T0, None, 1, 0, "fenced")
    story.state = take_alert(story.state, ALERTS, 0, told)
    for after_ms, ends in ((LIMITS.window_ms - 1, []), (LIMITS.window_ms, [(told.key, False)])):
        found = decide_changes(story.state, LIMITS, T0 + after_ms)
        assert [(one.key, one.on) for one in found if one.kind == alerts.FENCED_WRITER] == ends


def test_of_two_ends_of_an_alert_the_later_counts() -> None:
    """By the number, of however many digits."""
    first = Alert(JOB, GENERATION, alerts.DIVERGENCE, alerts.PUBLISHER, "watch", 5, 9, 1, 0, "")
    second = replace(first, resolved_ms=10)
    assert alerts.newer(first, second) == alerts.newer(second, first) == second


def test_an_alert_on_a_clock_set_back_is_one_moment_later_than_the_one_before() -> None:
    before = Alert(JOB, GENERATION, alerts.DIVERGENCE, alerts.PUBLISHER, "watch", 5, 9, 1, 0, "")
    assert [alerts.next_raised_ms(before, now_ms) for now_ms in (4, 5, 6, 7)] == [6, 6, 6, 7]
    assert alerts.next_raised_ms(None, 4) == 4


def test_what_nothing_is_known_of_has_no_progress_and_is_not_idle() -> None:
    """A view that is not polled, too."""
    empty = JobStatus(JOB, GENERATION)
    parts = (alerts.DRIVER, alerts.SIGNAL, alerts.PUBLISHER, alerts.VIEW)
    assert [progress_ms(empty, part) for part in parts] == [0, 0, 0, 0]
    assert not empty.idle
