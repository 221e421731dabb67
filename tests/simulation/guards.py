"""The guards of the commit protocol: what each keeps away, and the history that shows it once it is gone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from cutwater.adapters.topics.own_writes import OwnLog
from cutwater.commit_signal.signaller import CommitSignal
from cutwater.core.driver import attempt_start
from cutwater.core.driver.commit_hints import CommitHints
from cutwater.core.driver.epoch import Epochs
from cutwater.core.driver.tombstone_gc import Collector
from cutwater.core.output.milestone_assembly import Grouping
from cutwater.core.protocol import commit, topics
from cutwater.core.protocol.commit import SignalState
from cutwater.publisher import transaction as output_writer
from cutwater.views.changelog.range_reader import Range, Ranges
from cutwater.views.query.view import View
from cutwater.views.store.store import Store
from cutwater_spark.epoch import row_proof
from cutwater_spark.epoch.row_proof import ProvedRows
from simulation.checker import (
    ABORTED_READ,
    DIVERGENCE,
    FALSE_ALARM,
    GAP,
    INVERSION,
    LOST_WRITE,
    PARTIAL,
    STALE,
    STUCK,
    UNNOTICED,
)
from simulation.histories import Climate
from simulation.holes import (
    Hole,
    age_by_any_heartbeat,
    any_end,
    any_writer,
    at_the_barrier,
    behind_the_last_record,
    bound_falls,
    bound_forgotten,
    by_the_watermark,
    end_alone,
    ends_alone,
    ends_early,
    everything,
    fresh_behind_a_barrier,
    no_containment,
    no_hashes,
    nobody_later,
    of_now,
    off,
    own_ids,
    position_first,
    read_once,
    two_transactions,
    unfenced_drivers,
    unflushed,
)
from simulation.job import JOB
from simulation.scenes import (
    Scene,
    beat_behind_a_barrier,
    clock_ahead,
    events_while_it_looked,
    grown_again,
    half_applied,
    half_of_a_transaction,
    late_row,
    lost_row,
    old_barrier,
    repeated_rows,
    source_grown_again,
    source_lost_while_away,
    two_tellings,
    written_on,
)


@dataclass(frozen=True)
class Guard:
    name: str
    keeps_away: str
    invariant: str
    hole: Hole
    way: Climate | Callable[[int], Scene]
    """Histories from seeds in a climate in which it shows soon, or a scene where chance seldom comes."""
    anomalies: frozenset[str]
    """What the checker may call it, once the guard is gone."""
    beside: Hole = nullcontext
    """What is taken away with it and without it: another guard, which alone keeps the same away."""


_ZOMBIES = {"zombies": True, "differs": False}
_CRASHING = {"kill:view": 8.0, "lose-view": 1.0}
_LOSING_OUTPUT = {f"lose-tail:{topics.output(JOB.name)}": 2.0, f"lose-tail:{topics.published(JOB.name)}": 1.0}
_WRONG = frozenset({LOST_WRITE, ABORTED_READ, PARTIAL})

GUARDS = (
    Guard(
        "proof of rows",
        "a zombie's row below the cut of a milestone",
        "I1",
        off(row_proof, "foreign_rows", lambda *_args: []),
        late_row,
        _WRONG,
    ),
    Guard(
        "rows are the counted ones",
        "a milestone that nobody can prove: a task ran twice, and its last rows are not the counted ones",
        "I2",
        off(ProvedRows, "_require_counted"),
        Climate({"retries": True}),
        frozenset({FALSE_ALARM}),
    ),
    Guard(
        "a clock beside the brokers' clocks",
        "a milestone that compaction has passed, and that looks young because the driver's clock was ahead",
        "I2",
        off(Epochs, "_require_clock"),
        clock_ahead,
        _WRONG,
    ),
    Guard(
        "comparison at a start",
        "a checkpoint that was rolled back or lost",
        "I3",
        off(attempt_start, "require_match"),
        Climate({"differs": False}, {"roll-back": 2.0}),
        frozenset({FALSE_ALARM, LOST_WRITE, GAP, ABORTED_READ, DIVERGENCE}),
    ),
    Guard(
        "foreign rows at a start",
        "a new attempt over rows that do not belong there",
        "I1",
        off(ProvedRows, "check_start"),
        Climate(_ZOMBIES, {"late-row": 4.0, "kill:driver": 5.0}),
        frozenset({UNNOTICED}),
    ),
    Guard(
        "foreign rows at a heartbeat",
        "calling an idle job fresh while somebody else writes to it",
        "I1",
        off(ProvedRows, "check_idle"),
        Climate(_ZOMBIES, {"late-row": 4.0, "leap": 5.0, "events": 2.0}),
        frozenset({UNNOTICED}),
    ),
    Guard(
        "fencing of drivers",
        "barriers of an attempt that has lost the generation",
        "I3",
        unfenced_drivers,
        old_barrier,
        frozenset({*_WRONG, GAP, FALSE_ALARM}),
    ),
    Guard(
        "refusal of another telling",
        "an epoch that is told differently after its milestone",
        "I2",
        off(commit, "_refuse_another_telling"),
        two_tellings,
        _WRONG,
    ),
    Guard(
        "a milestone only after Spark's commit",
        "milestones of epochs that a crash takes back",
        "I1",
        at_the_barrier,
        Climate(),
        frozenset({ABORTED_READ, FALSE_ALARM}),
    ),
    Guard(
        "position of the oldest barrier still needed",
        "forgetting a prepared epoch in a restart of commit-signal",
        "I4",
        off(SignalState, "position", property(behind_the_last_record)),
        Climate({}, {"kill:signal": 6.0}),
        frozenset({FALSE_ALARM, STUCK, LOST_WRITE}),
    ),
    Guard(
        "fencing of signallers",
        "two signallers that write one stream",
        "I3",
        own_ids("signal_id"),
        Climate({}, {"stall:signal": 4.0, "wake:signal": 10.0}),
        frozenset({INVERSION, FALSE_ALARM}),
    ),
    Guard(
        "reading the stream again after fencing",
        "a milestone that the fenced signaller wrote last",
        "I3",
        off(CommitSignal, "_read_state", read_once),
        Climate({}, {"stall:signal": 4.0, "wake:signal": 10.0}),
        frozenset({INVERSION, FALSE_ALARM}),
    ),
    Guard(
        "nothing newer under way",
        "calling a milestone fresh behind the barrier of the next epoch, once drivers are not fenced",
        "I1",
        off(commit, "_heartbeat", fresh_behind_a_barrier),
        beat_behind_a_barrier,
        frozenset({STALE}),
        unfenced_drivers,
    ),
    Guard(
        "a heartbeat is of its epoch",
        "calling what is shown as fresh as what is still to be read",
        "I1",
        off(View, "age_ms", age_by_any_heartbeat),
        Climate({}, {"leap": 3.0}),
        frozenset({STALE}),
    ),
    Guard(
        "a heartbeat at the end of the source only",
        "calling a job idle while events wait",
        "I1",
        off(CommitHints, "_at_end", lambda *_args: True),
        Climate({}, {"leap": 4.0, "events": 10.0}),
        frozenset({STALE}),
    ),
    Guard(
        "a heartbeat is of the time before it looked",
        "calling a job idle at a time when events had come, by a driver that stood still",
        "I1",
        off(CommitHints, "_write", of_now),
        events_while_it_looked,
        frozenset({STALE}),
    ),
    Guard(
        "cut bound of the view",
        "rows above the milestone that is shown",
        "I1",
        off(Range, "_below", everything),
        Climate({}, _CRASHING),
        frozenset({ABORTED_READ, FALSE_ALARM}),
    ),
    Guard(
        "an end below the cut means wait",
        "a restore that ends too early",
        "I1",
        off(Range, "_is_done", ends_early),
        Climate(),
        frozenset({*_WRONG, FALSE_ALARM}),
    ),
    Guard(
        "only the milestone's attempt",
        "rows of another attempt within the range of a step",
        "I1",
        any_writer,
        repeated_rows,
        frozenset({*_WRONG, FALSE_ALARM}),
    ),
    Guard(
        "containment",
        "a milestone that compaction has overtaken",
        "I2",
        no_containment,
        Climate({}, {"leap": 5.0, "compact": 8.0, "lose-view": 2.0, "forget": 2.0}),
        frozenset({*_WRONG, FALSE_ALARM}),
    ),
    Guard(
        "horizon bound of the clearing",
        "a tombstone for a window that is still shown",
        "I1",
        off(Collector, "collect", by_the_watermark),
        Climate({}, {"age": 4.0, "lose-view": 2.0}),
        frozenset({*_WRONG, FALSE_ALARM}),
    ),
    Guard(
        "a tombstone below the horizon is no foreign row",
        "the end of a generation for what changes nothing",
        "I1",
        off(row_proof, "is_garbage", lambda *_args: False),
        Climate({}, {"age": 6.0, "kill:driver": 6.0, "late-row": 4.0, "roll-back": 0.0}),
        frozenset({FALSE_ALARM, UNNOTICED}),
    ),
    Guard(
        "position in the same batch",
        "a position ahead of its rows",
        "I4",
        off(Store, "commit", position_first),
        Climate({}, _CRASHING),
        _WRONG,
    ),
    Guard(
        "lower bound in the same batch",
        "a view that has evicted windows and says that none are missing",
        "I2",
        off(Store, "commit", bound_forgotten),
        Climate({"evicts": True}, {"kill:view": 6.0, "events": 20.0, "lose-view": 0.0}),
        frozenset({INVERSION, LOST_WRITE, PARTIAL}),
    ),
    Guard(
        "a lower bound that never falls",
        "a view that says of windows it has evicted that they are there",
        "I2",
        off(Store, "commit", bound_falls),
        Climate({"evicts": True}, {"events": 20.0, "lose-view": 0.0}),
        frozenset({INVERSION}),
    ),
    Guard(
        "mark of a milestone that is being applied",
        "half a milestone after a crash between two chunks",
        "I1",
        off(Store, "begin"),
        half_applied,
        _WRONG,
    ),
    Guard(
        "flush before the position",
        "rows of a restore that a crash takes away",
        "I4",
        off(Store, "commit", unflushed),
        Climate({"chunk_rows": 2}, {"kill:view": 8.0, "lose-view": 3.0}),
        _WRONG,
    ),
    Guard(
        "position in the publisher's transaction",
        "a milestone that is published again",
        "I4",
        two_transactions,
        Climate({}, {"kill:publisher": 8.0}),
        frozenset({INVERSION, FALSE_ALARM}),
    ),
    Guard(
        "fencing of publishers",
        "two publishers that write one output",
        "I4",
        own_ids("publisher_id"),
        Climate({}, {"stall:publisher": 4.0, "wake:publisher": 10.0}),
        frozenset({INVERSION, FALSE_ALARM, PARTIAL}),
    ),
    Guard(
        "wait for all end markers",
        "a milestone of which a partition is still to come",
        "I1",
        off(Grouping, "next_complete", any_end),
        Climate(),
        frozenset({PARTIAL, *_WRONG}),
    ),
    Guard(
        "no row of whoever came later",
        "a jump to a milestone below whose cut rows are lost, and later ones stand in their place",
        "I2",
        nobody_later,
        written_on,
        _WRONG,
    ),
    Guard(
        "leaders at a jump",
        "a jump to a milestone below whose cut rows are lost, and earlier ones stand in their place",
        "I2",
        off(Ranges, "require_kept"),
        grown_again,
        _WRONG,
    ),
    Guard(
        "leaders at a start",
        "an attempt that begins behind a loss",
        "I2",
        off(ProvedRows, "_kept_ends", ends_alone),
        source_lost_while_away,
        frozenset({UNNOTICED}),
    ),
    Guard(
        "leaders at each epoch",
        "epochs that go on behind a loss, and hide it",
        "I2",
        off(ProvedRows, "_require_kept"),
        source_grown_again,
        frozenset({UNNOTICED}),
    ),
    Guard(
        "agreement of output and position",
        "a gap in the output, or a milestone that is published again",
        "I4",
        off(output_writer, "require_agreement"),
        Climate({}, _LOSING_OUTPUT),
        frozenset({GAP, INVERSION, PARTIAL, FALSE_ALARM, STUCK}),
    ),
    Guard(
        "rows in front of the last end marker",
        "a transaction of the output whose beginning is lost, and its end marker is not",
        "I4",
        off(output_writer, "tail_of", end_alone),
        half_of_a_transaction,
        frozenset({PARTIAL}),
    ),
    Guard(
        "leaders of the output",
        "a gap in the output that its last milestone hides",
        "I4",
        off(OwnLog, "require"),
        Climate({}, _LOSING_OUTPUT),
        frozenset({GAP, INVERSION, PARTIAL, FALSE_ALARM, STUCK}),
    ),
    Guard(
        "count and digest",
        "rows that the log has lost or changed",
        "I2",
        no_hashes,
        lost_row,
        _WRONG,
    ),
)
