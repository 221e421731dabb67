"""The verification: chooses a milestone, reads it from every place, and compares."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics import commit_stream
from cutwater.core.checks.state_comparison import (
    CHANGELOG,
    OUTPUT,
    STATE,
    VIEW,
    Answer,
    PlaceRow,
    RowComparison,
    RowDifference,
    RowTotals,
    Scope,
    Verdict,
    differing_shards,
    scope_of,
    side_by_side,
    sum_by_shard,
    total,
)
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry
from cutwater.core.state.selection import Selection
from cutwater.verify.places import (
    NotHeld,
    NotYet,
    Output,
    fill_from_changelog,
    fill_from_view,
    shown_by,
    windows_in,
)
from cutwater.verify.scratch import Report, Scratch, held_hash
from cutwater.verify.state import fill_from_state
from cutwater.views.changelog.proof import Overtaken
from cutwater.views.changelog.range_reader import Ranges

TRIES = 3
"""Milestones to try if a place does not hold one separately."""
OUTPUT_S = 30.0
NEWEST = 1_000
"""Newest milestones that are searched first."""
_LOOK_S = 0.5


@dataclass(frozen=True)
class Request:
    job: Job
    job_file: Path
    cluster: Cluster
    generation: Generation
    places: Sequence[str]
    """Some of `core.checks.state_comparison.PLACES`, always with the changelog."""
    at: Token | None = None
    """The milestone; None for the newest that the places hold."""
    limit: int = 20
    """Number of differing rows to show."""
    rows_max: int = 5_000_000
    """Limit of rows per place."""
    wait_s: float = OUTPUT_S
    """How long to wait until the output reaches the milestone."""
    api_url: str = ""
    api_headers: dict[str, str] = field(default_factory=dict)
    spark_env: Callable[[], dict[str, str]] = dict
    """Return the environment of a Spark process; called only if one is started."""


@dataclass(frozen=True)
class Result:
    milestone: Milestone
    answers: list[Answer]
    differences: list[RowDifference]
    differing_rows: int
    """Number of all differing rows; `differences` holds the first of them."""


class NotComparableError(Exception):
    """This milestone cannot be compared, but a later one may be."""


def verify(request: Request, report: Report = lambda _place, _rows: None) -> Result:
    """Compare the places at one milestone.

    Raises UsageError for a token that the stream does not hold, or more rows than the limit; UnavailableError if
    brokers do not answer or no milestone can be compared. A place that cannot be read is an answer, not an error.
    """
    problem = ""
    for _ in range(TRIES if request.at is None else 1):
        with (
            tempfile.TemporaryDirectory(prefix="cutwater-verify-") as folder,
            Scratch(Path(folder), request.job.shards, request.rows_max, report) as scratch,
        ):
            try:
                return _Verification(request, Path(folder), scratch).run()
            except NotComparableError as again:
                problem = str(again)
    raise UnavailableError(
        f"no milestone can be compared: {problem}. Try again, or name other places with --place"
    )


class _Verification:
    def __init__(self, request: Request, folder: Path, scratch: Scratch) -> None:
        self._request = request
        self._job = request.job
        self._folder = folder
        self._scratch = scratch
        self._output = Output(request.job, request.cluster)
        self._refused: dict[str, Answer] = {}
        """Places that are not compared, with the reason."""
        self._problems: dict[str, str] = {}
        """Problems of a place without comparison."""
        self._view_shards: frozenset[int] | None = None
        """Shards that the view holds; None for all."""
        self._view_lower_ms: int | None = None
        """The view holds only windows that end above it; None for all."""
        self._view_selection: Selection | None = None

    def run(self) -> Result:
        shown = self._view() if VIEW in self._request.places else None
        entry, before = self._entry(self._request.at or shown)
        milestone = entry.milestone
        if shown and shown != milestone.token:
            self._refuse(VIEW, Verdict.UNKNOWN, f"it shows {shown} now")
        self._changelog(entry, before)
        if OUTPUT in self._request.places:
            self._published(milestone)
        if STATE in self._request.places:
            self._state(milestone)
        return self._compared(milestone)

    def _refuse(self, place: str, verdict: Verdict, reason: str) -> None:
        self._refused[place] = Answer(place, verdict, reason=reason)

    def _view(self) -> Token | None:
        try:
            request = self._request
            shown = fill_from_view(self._job, request.api_url, request.api_headers, self._scratch[VIEW])
        except UnavailableError as error:
            self._refuse(VIEW, Verdict.UNKNOWN, str(error))
            return None
        if shown.partitions is not None:
            owned = map(self._job.shards.shards_of_partition, shown.partitions)
            self._view_shards = frozenset(chain.from_iterable(owned))
        self._view_lower_ms = shown.lower_ms
        self._view_selection = shown.selection
        return shown.token

    def _entry(self, token: Token | None) -> tuple[Entry, Cut]:
        """Return the milestone, and the changelog cut of the one before it."""
        request = self._request
        if token is None and OUTPUT in request.places and self._job.output.mode != "none":
            token = commit_stream.published(request.cluster, self._job.name)
        for newest in (NEWEST, None):  # read a long stream completely only for an old token
            found = commit_stream.milestones(request.cluster, self._job.name, newest)
            own = [pair for pair in found if pair[0].generation == request.generation]
            places = [number for number, (one, _) in enumerate(own) if token in (None, one.token)]
            # The milestone before it is needed too, unless it is the oldest one kept.
            if places and (places[-1] > 0 or newest is None or len(found) < newest):
                (milestone, record), at = own[places[-1]], places[-1]
                return Entry(milestone, record, 0), own[at - 1][0].changelog_cut if at else Cut()
        raise UsageError(f"the commit stream of {self._job.name} does not hold {token or 'any milestone'}")

    def _changelog(self, entry: Entry, before: Cut) -> None:
        topic = topics.changelog(self._job.name, self._request.generation)
        ranges = Ranges(self._request.cluster, topic)
        try:
            wrong = fill_from_changelog(self._job, ranges, entry, before, self._scratch[CHANGELOG], now_ms)
        except Overtaken:
            raise NotComparableError(
                f"compaction may have removed values of {entry.milestone.token} from {topic}"
            ) from None
        finally:
            ranges.close()
        if wrong:
            self._problems[CHANGELOG] = wrong

    def _published(self, milestone: Milestone) -> None:
        if self._job.output.mode == "none":
            self._refuse(OUTPUT, Verdict.SKIPPED, "the job has no output (output.mode: none)")
            return
        try:
            self._wait_for_publisher(milestone)
            self._output.fill(milestone, self._scratch[OUTPUT])
        except NotHeld as error:
            if self._request.at is None:
                raise NotComparableError(str(error)) from None
            self._refuse(OUTPUT, Verdict.UNKNOWN, str(error))
        except NotYet as error:
            self._refuse(OUTPUT, Verdict.UNKNOWN, str(error))
        if self._output.problems:
            self._problems[OUTPUT] = "; ".join(self._output.problems[:3])

    def _wait_for_publisher(self, milestone: Milestone) -> None:
        deadline = time.monotonic() + self._request.wait_s
        while (token := commit_stream.published(self._request.cluster, self._job.name)) is None or (
            token.sequence < milestone.sequence
        ):
            if time.monotonic() > deadline:
                raise NotYet(f"the publisher is at {token}, and has not published {milestone.token}")
            time.sleep(_LOOK_S)

    def _state(self, milestone: Milestone) -> None:
        request = self._request
        if self._job.attached:
            self._refuse(STATE, Verdict.SKIPPED, "the query is your own, so the form of its state is unknown")
            return
        try:
            env = request.spark_env()
            table = self._scratch[STATE]
            fill_from_state(request.job_file, milestone, self._folder, request.rows_max, env, table)
        except UsageError:
            raise
        except CutwaterError as error:
            self._refuse(STATE, Verdict.UNKNOWN, str(error))

    def _compared(self, milestone: Milestone) -> Result:
        mode = self._job.output.mode
        places = [CHANGELOG, *(one for one in self._request.places if one not in (CHANGELOG, *self._refused))]
        shown_above_ms = self._job.shown_above_ms
        scopes = {place: scope_of(place, milestone, mode, shown_above_ms) for place in places}
        if VIEW in scopes:
            scopes[VIEW] = scopes[VIEW].narrowed(self._view_shards, self._view_lower_ms, self._view_selection)
        forgetful = [OUTPUT] if self._output.is_truncated else []
        judge = RowComparison(scopes, shown_by(self._job), forgetful=forgetful)
        sums = {place: self._sums(place, scopes[place], judge) for place in places}
        shards: set[int] = set()
        for found, expected in sums.values():
            shards |= differing_shards(found, expected)
        differences, suspected, rows = self._rows(places, frozenset(shards), judge)
        answers = [
            self._refused.get(place) or self._answer(place, *sums[place], suspected.get(place, 0))
            for place in dict.fromkeys((CHANGELOG, *self._request.places))
        ]
        return Result(milestone, answers, differences, rows)

    def _sums(
        self, place: str, scope: Scope, judge: RowComparison
    ) -> tuple[dict[int, RowTotals], dict[int, RowTotals]]:
        """Return the place's sums within its scope by shard, and those that the changelog requires."""
        mine = (row for row in self._windows_of(place) if scope.holds(row.shard, row.name))
        theirs = (row for row in self._windows_of(CHANGELOG) if scope.holds(row.shard, row.name))
        if place == OUTPUT:
            theirs = (PlaceRow(row.shard, row.name, judge.presented_value(row.value)) for row in theirs)
        return sum_by_shard(mine, held_hash), sum_by_shard(theirs, held_hash)

    def _windows_of(self, place: str, shards: frozenset[int] | None = None) -> Iterator[PlaceRow]:
        """Return the windows of a place: changelog and state hold panes, if the job's windows overlap."""
        rows = self._scratch[place].rows(shards)
        return windows_in(self._job, rows) if place in (CHANGELOG, STATE) else rows

    def _rows(
        self, places: Sequence[str], shards: frozenset[int], judge: RowComparison
    ) -> tuple[list[RowDifference], dict[str, int], int]:
        """Return the first differing rows, the number suspected by place, and the number of all."""
        first: list[RowDifference] = []
        suspected: dict[str, int] = {}
        rows = 0
        for found in side_by_side({place: self._windows_of(place, shards) for place in places}):
            difference = judge.difference(*found)
            if difference is None:
                continue
            rows += 1
            for place in difference.suspects:
                suspected[place] = suspected.get(place, 0) + 1
            if len(first) < self._request.limit:
                first.append(difference)
        return first, suspected, rows

    def _answer(
        self, place: str, found: dict[int, RowTotals], expected: dict[int, RowTotals], suspected: int
    ) -> Answer:
        problem = self._problems.get(place, "")
        verdict = Verdict.DIFFERENT if suspected or problem else Verdict.EQUAL
        return Answer(place, verdict, total(found), total(expected), suspected, problem)
