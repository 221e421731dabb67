"""The pages' documents: each from what is known of one job, and from what is read when a page asks for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

from cutwater.console.jobs import FollowedJob
from cutwater.core.console import audit_page, generation_tree, hot_keys, recovery_page, region_table, rejected_page
from cutwater.core.console.heat_map import HeatMap
from cutwater.core.console.held_promotions import held_promotions
from cutwater.core.console.key_windows import ROWS_MAX, chart, window_differences
from cutwater.core.console.pipeline import Names, pipeline
from cutwater.core.errors import CutwaterError
from cutwater.core.protocol import topics

SHORT_S, LONG_S = 5.0, 30.0
"""How long an answer is kept: one read from short topics, and one read from lists or an object store."""
NEWEST = 50
TOP_ROWS = 1_000
EXPLORED_MAX = 64
NO_CENSUS = "The rehydrator has not measured its state yet: it does so every CUTWATER_VIEW_CENSUS_MS."
NO_READS = "How often keys and windows are read: cutwater hot-keys, and GET /v1/reads of the rehydrator."
NO_SHARD_LOAD = (
    "A milestone has the rows that it wrote by partition of the changelog, and not by shard. The state's size is "
    "known by shard, from the rehydrator's censuses since this console started."
)


class AskedWindows(NamedTuple):
    """A question about one key. `at`, `against`: tokens or times; None for the view's milestone, and for none."""

    key: str
    start: str | None = None
    end: str | None = None
    at: str | None = None
    against: str | None = None

    @property
    def name(self) -> str:
        """Equal for questions whose answers can be compared."""
        return f"{self.key}\0{self.start or ''}\0{self.end or ''}"


class Pages:
    """Makes the documents. `clock_ms`: the wall clock."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._explored: OrderedDict[tuple[str, str, str], dict[str, Any]] = OrderedDict()
        self._lock = Lock()

    def overview(self, job: FollowedJob) -> dict[str, Any]:
        """Return the pipeline and the active alerts."""
        follower = job.follower
        with follower.reading() as picture:
            status, kept = picture.status, len(picture.timeline)
        of = follower.reader.job
        names = Names(
            of.upstream or of.topic or "the attached query's sources",
            topics.changelog(of.name, status.generation),
            topics.output(of.name) if follower.limits.publishes else "",
        )
        made = pipeline(status, follower.limits, names, self._clock_ms(), job.alerts)
        more = {"reader": follower.standing_json(), "milestones_kept": kept}
        return {**made, **more, "holds": self._holds(job)}

    def milestones(self, job: FollowedJob, from_ms: int | None, to_ms: int | None, columns: int) -> dict[str, Any]:
        """Return the timeline of the milestones, aggregated, and the newest ones."""

        def read() -> dict[str, Any]:
            with job.follower.reading() as picture:
                found = picture.timeline.columns_of(from_ms, to_ms, columns)
                return {**found, "newest": picture.timeline.newest(NEWEST)}

        with job.follower.reading() as picture:
            version = picture.timeline.version
        found = job.kept.get(f"milestones {version} {from_ms} {to_ms} {columns}", LONG_S, read)
        return {**found, "publishes": job.follower.limits.publishes, "holds": self._holds(job)}

    def _holds(self, job: FollowedJob) -> list[dict[str, Any]]:
        with job.follower.reading() as picture:
            known, current = picture.candidates, picture.reigns.current
        return held_promotions(known, current, self._clock_ms())

    def shards(self, job: FollowedJob, of: str, first: int, end: int | None) -> dict[str, Any]:
        """Return a heat map: `writes` by partition, or `state` by shard."""
        with job.follower.reading() as picture:
            shown: HeatMap = picture.state if of == "state" else picture.writes
            found, hottest, version = shown.picture(first, end), shown.hottest(), shown.version
        return {**found, "of": of, "hottest": hottest, "version": version, "lacking": NO_SHARD_LOAD}

    def keys(self, job: FollowedJob) -> dict[str, Any]:
        """Return the hottest keys by events, and the largest ones by bytes."""
        return dict(job.kept.get("keys", SHORT_S, lambda: self._keys(job)))

    def _keys(self, job: FollowedJob) -> dict[str, Any]:
        follower = job.follower
        measure = hot_keys.ranking_measure(follower.reader.job)
        census, why = None, ""
        try:
            census = follower.view.census()
        except CutwaterError as error:
            why = f"{NO_CENSUS} ({error})"
        top = follower.view.top(measure, TOP_ROWS) if measure else None
        return {
            "measure": measure,
            "milestones": top["milestones"] if top else [],
            "ranked": hot_keys.ranked(top["rows"], measure) if top and measure else [],
            "rows_ranked": TOP_ROWS,
            "no_ranking": "" if measure else hot_keys.NO_COUNT,
            "census": hot_keys.largest(census),
            "no_census": why,
            "lacking": NO_READS,
        }

    def generations(self, job: FollowedJob) -> dict[str, Any]:
        """Return the tree of generations with their claims."""

        def read() -> dict[str, Any]:
            found, parents = job.follower.reader.generations()
            with job.follower.reading() as picture:
                reigns = dict(picture.reigns.by_id)
            return generation_tree.tree(reigns, found, parents, self._clock_ms())

        return dict(job.kept.get("generations", SHORT_S, read))

    def regions(self, job: FollowedJob) -> dict[str, Any]:
        """Return what is copied to this region."""

        def read() -> dict[str, Any]:
            found = region_table.regions(*job.follower.reader.regions())
            return {**found, "empty": "" if found["replicas"] else region_table.NO_MIRROR}

        return dict(job.kept.get("regions", SHORT_S, read))

    def recovery(self, job: FollowedJob) -> dict[str, Any]:
        """Return the recovery trail."""

        def read() -> dict[str, Any]:
            found = recovery_page.trail(job.follower.reader.trail())
            return {"starts": found, "empty": "" if found else recovery_page.NO_TRAIL}

        return dict(job.kept.get("recovery", SHORT_S, read))

    def audit(self, job: FollowedJob) -> dict[str, Any]:
        """Return what operators did."""

        def read() -> dict[str, Any]:
            records = job.follower.reader.actions()
            found = audit_page.actions(records.readable)
            empty = "" if found or records.problem else audit_page.NO_ACTION
            return {"actions": found, "unreadable": records.problem, "empty": empty}

        return dict(job.kept.get("audit", SHORT_S, read))

    def restorable(self, job: FollowedJob) -> dict[str, Any]:
        """Return the milestones that can be restored."""

        def read() -> dict[str, Any]:
            with job.follower.reading() as picture:
                generation = picture.status.generation
            found = job.follower.reader.restorable(generation)
            ranges = recovery_page.ranges(found.milestones)
            return {
                "generation": str(generation),
                "ranges": ranges,
                "snapshots": recovery_page.snapshots(found.snapshots),
                "notes": list(found.notes),
                "empty": "" if ranges else recovery_page.NOT_RESTORABLE,
            }

        return dict(job.kept.get("restorable", LONG_S, read))

    def dead_letters(self, job: FollowedJob) -> dict[str, Any]:
        """Return dead letters by reason, and samples."""
        shown = job.place.settings.show_payloads
        return dict(
            job.kept.get(
                "dead-letters",
                LONG_S,
                lambda: rejected_page.dead_letters_page(job.follower.reader.dead_letters(), shown),
            )
        )

    def late(self, job: FollowedJob) -> dict[str, Any]:
        """Return late events by delay, and samples."""
        return dict(job.kept.get("late", LONG_S, lambda: rejected_page.late_page(job.follower.reader.late())))

    def explore(self, job: FollowedJob, asked: AskedWindows) -> dict[str, Any]:
        """Return the windows of a key, and their differences from another milestone's."""
        found = self._windows(job, asked, asked.at)
        known = {at: one for at, one in self._shown(job, asked) if at != found["milestone"]["token"]}
        document = {**found, "shown_before": list(known), "against": None, "differences": []}
        if not asked.against:
            return document
        before = known.get(asked.against) or self._windows(job, asked, asked.against)
        different = window_differences(before["rows"], found["rows"])
        return {**document, "against": before, "differences": different}

    def _windows(self, job: FollowedJob, asked: AskedWindows, at: str | None) -> dict[str, Any]:
        """Return one answer, and keep it. `at`: a token or a time; None for the view's milestone."""
        follower = job.follower
        if at:
            answer = follower.reader.windows_at(at, asked.key, asked.start, asked.end, ROWS_MAX)
        else:
            answer = follower.view.windows(asked.key, asked.start, asked.end, ROWS_MAX)
        columns = [one.name for one in follower.reader.job.key_columns or ()]
        found: dict[str, Any] = {
            "key": asked.key,
            "at": at,
            "milestone": answer["milestone"],
            **chart(answer["rows"], columns),
            "more": bool(answer.get("next_from") or answer.get("next")),
            "hint": answer.get("hint") or "",
        }
        with self._lock:
            self._explored[job.place.job, asked.name, str(answer["milestone"]["token"])] = found
            while len(self._explored) > EXPLORED_MAX:
                self._explored.popitem(last=False)
        return found

    def _shown(self, job: FollowedJob, asked: AskedWindows) -> list[tuple[str, dict[str, Any]]]:
        with self._lock:
            return [
                (token, one)
                for (of, name, token), one in self._explored.items()
                if (of, name) == (job.place.job, asked.name)
            ]
