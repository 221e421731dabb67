"""What is true where generations compute different things: an oracle that knows job files, and none of the code.

A milestone's rows are what its generation has of its parent's rows, and the events that it has read since. From
window X on they are what all events say that were ever read, counted as the newest job file says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Milestone
from simulation.changing.definitions import Definition, State
from simulation.checker import (
    ABORTED_READ,
    DIVERGENCE,
    FINALS,
    INCOMPLETE,
    LOST_WRITE,
    ROWS,
    SAID_AGAIN,
    Anomaly,
    Checker,
    Truth,
)
from simulation.disk import Disk
from simulation.job import GENERATION
from simulation.log import Log
from simulation.spark import Event

GONE: Any = "gone"
"""Of a window that was deleted."""


class ChangingChecker(Checker):
    def __init__(self, log: Log, disk: Disk, first: Definition) -> None:
        super().__init__(log, disk, differs=False, job=first.job)
        self.definitions = {GENERATION: first}
        self.complete_from_ms: dict[Generation, int] = {}
        """Window X of each claim."""
        self.reads: dict[str, Definition] = {}
        """The job file that each client has."""
        self.starts_over = lambda: False
        """May a hand-over write each row again, since the windows of the old rows are others?"""
        self._events: dict[tuple[Generation, int], Sequence[Event]] = {}
        """All that a milestone counts, by generation and epoch."""

    def begin_as(self, generation: Generation, disk: Disk, claim: Claim, of: Definition, from_ms: int) -> None:
        """A generation was claimed with this definition."""
        self.begin(generation, disk, claim)
        self.definitions[generation] = of
        self.complete_from_ms[generation] = from_ms

    # --- what is true

    def _truth(self, milestone: Milestone) -> Truth:
        generation, disk = milestone.generation, self.disks[milestone.generation]
        definition = self.definitions[generation]
        if milestone.definition != definition.job.fingerprint:
            raise Anomaly(DIVERGENCE, f"{milestone.token} does not name the definition of {generation}")
        before = self.truths[-1].in_rows if self.truths else None
        if before is None or before.milestone.generation == generation:
            read = disk.fetched[milestone.epoch, milestone.source_cut]
            state = dict(before.everything) if before else {}
        else:  # its first milestone is of any epoch
            before = self.truths[self.parent_of(generation).sequence - 1].in_rows
            epochs = range(milestone.epoch + 1)
            read = [event for one in epochs for event in disk.fetched[one, disk.plans[one].source_cut]]
            state = definition.taken_over(self.definitions[before.milestone.generation], before.everything)
        changed = frozenset(definition.add(state, read))
        known = self._events[before.milestone.generation, before.milestone.epoch] if before else ()
        self._events[generation, milestone.epoch] = (*known, *read)
        live = {one: found for one, found in state.items() if one[2] > milestone.horizon_ms}
        rows = Truth(milestone, live, changed, state, milestone.horizon_ms, definition.pane_ms)
        found = self._in_windows(rows)
        self._require_complete(found, definition)
        return found

    def _in_windows(self, rows: Truth) -> Truth:
        """As readers see it: windows of panes, and values of no event."""
        generation = rows.milestone.generation
        definition = self.definitions[generation]
        shown = {one: definition.shown(of) for one, of in definition.windows(rows.everything).items()}
        above_ms = definition.job.shown_above_ms(rows.horizon_ms)
        changed = {
            (key, at_ms, at_ms + definition.size_ms)
            for key, start_ms, end_ms in rows.changed
            for at_ms in definition.starts(start_ms, end_ms)
        }
        live = {one: of for one, of in shown.items() if one[2] > above_ms}
        of_rows = rows._replace(state={one: definition.shown(of) for one, of in rows.state.items()})
        return Truth(rows.milestone, live, frozenset(changed), shown, above_ms, definition.size_ms, of_rows)

    def _require_complete(self, truth: Truth, definition: Definition) -> None:
        """Windows from X on count every event there ever was."""
        generation = truth.milestone.generation
        from_ms = self.complete_from_ms.get(generation, 0)
        if not from_ms:
            return
        panes: State = {}
        definition.add(panes, self._events[generation, truth.milestone.epoch])
        whole = {one: definition.shown(of) for one, of in definition.windows(panes).items()}
        wrong = {
            one: (truth.everything.get(one), whole.get(one))
            for one in {*truth.everything, *whole}
            if one[1] >= from_ms and truth.everything.get(one) != whole.get(one)
        }
        if wrong:
            raise Anomaly(
                INCOMPLETE, f"{truth.milestone.token} from {from_ms}: (taken over, of all events) {wrong}"
            )

    # --- readers

    def look_at_bound(self, who: str, milestone: Milestone, lower_ms: int | None) -> None:
        self._job = self.definitions[milestone.generation].job
        super().look_at_bound(who, milestone, lower_ms)

    def _compare_changes(self, who: str, before: int, rows: Any, truths: list[Truth], of: str) -> None:
        if of == ROWS:
            last = truths[-1].in_rows
            shown = {one: self._row(last, found) for one, found in last.everything.items()}
            super()._compare_changes(who, before, rows, [*truths[:-1], last._replace(everything=shown)], of)
        elif truths[-1].milestone.generation == (
            truths[before - 1].milestone.generation if before else GENERATION
        ):
            last = truths[-1]
            as_read = last._replace(everything=self._as_read(who, last))
            super()._compare_changes(who, before, rows, [*truths[:-1], as_read], of)
        else:
            self._compare_hand_over(who, truths[before - 1] if before else None, truths[-1], rows, of)

    def _row(self, truth: Truth, values: Any) -> Any:
        return self.definitions[truth.milestone.generation].shown(values)

    def _as_read(self, who: str, truth: Truth) -> Any:
        """With the measures of the client's job file; one that a row does not have is as of no event."""
        reader, definition = self.reads[who], self.definitions[truth.milestone.generation]
        names = dict(reader.names_in(definition, back=True))
        return {
            one: reader.shown({name: values[of] if of else None for name, of in names.items()})
            for one, values in truth.everything.items()
        }

    def _compare_hand_over(
        self, who: str, before: Truth | None, last: Truth, rows: Mapping[Any, Any], of: str
    ) -> None:
        """What differs between two generations is told, once, and what is as it was is not."""
        name = f"{who} at sequence {last.milestone.sequence}, of another generation"
        target, within = self._as_read(who, last), last.closed if of == FINALS else last.everything
        target = {one: row for one, row in target.items() if one in within}
        published = (before.closed if of == FINALS else before.everything) if before else {}
        as_before = self._as_before(before, last, published.keys() & target.keys())
        open_ms = before.milestone.watermark_ms if before else 0
        for one, row in rows.items():
            if row != target.get(one, GONE):
                raise Anomaly(ABORTED_READ, f"{name}: {one} is {row}, not {target.get(one, 'gone')}")
            if one in as_before and one[2] > open_ms and not self.may_repeat() and not self.starts_over():
                raise Anomaly(SAID_AGAIN, f"{name}: {one} is {row} as before")
        due = {one: row for one, row in target.items() if one not in as_before or one in rows}
        known_ms = before.horizon_ms if before else 0
        leaves = self.starts_over()
        gone = published.keys() - target.keys()
        due |= {one: GONE for one in gone if one in rows or (one[2] > known_ms and not leaves)}
        wrong = {
            one: (rows.get(one), due.get(one))
            for one in {*rows, *due}
            if rows.get(one) != due.get(one) and one[2] > last.horizon_ms
        }
        if wrong:
            raise Anomaly(LOST_WRITE, f"{name}: (shown, true) {wrong}")

    def _as_before(self, before: Truth | None, last: Truth, both: Iterable[Any]) -> set[Any]:
        """Windows of which the published row says the same: what both have is equal, and nothing else is new."""
        if before is None:
            return set()
        old, new = (self.definitions[one.milestone.generation] for one in (before, last))
        names = dict(new.names_in(old))
        empty = new.shown(dict.fromkeys(names))

        def same(was: Any, now: Any) -> bool:
            return all(now[name] == (was[of] if of else empty[name]) for name, of in names.items())

        return {one for one in both if same(before.everything[one], last.everything[one])}
