"""`committed()`: a job's complete milestones, from its output or its changelog."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.client.values import CommittedMilestone
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Token

ROWS_MAX = 2_000_000
"""The default bound on the rows of a milestone, which are held in memory until it is complete."""
SOURCES = ("output", "changelog")
THREAD = "committed"


def committed(
    job: Job | Path | str,
    cluster: Cluster | None = None,
    *,
    source: Literal["output", "changelog"] = "output",
    after: Token | str | None = None,
    stop: Callable[[], bool] = lambda: False,
    idle_s: float | None = None,
    rows_max: int = ROWS_MAX,
) -> Iterator[CommittedMilestone]:
    """Iterate over a job's milestones in order. Each is complete when it is yielded, with its changed rows.

    `job`: the job, or the path of its file. `cluster`: by default that of the environment's settings.
    `source`: `output` (written by the publisher), or `changelog` (needs no publisher; of sliding windows it has
    panes, to be merged). A changelog is of one generation: the token's, else that of CUTWATER_GENERATION, else the
    promoted one.
    `after`: the token of the last milestone that the caller has processed. None starts at the oldest one kept (on
    the changelog: with the whole state as one milestone).
    `stop`: polled a few times a second; True ends the iterator. `idle_s`: end after this many seconds without a
    new milestone; None waits for ever. `rows_max`: the bound on a milestone's rows, and on those that
    are read before an earlier milestone is complete.

    Raises UsageError for another source, an unknown or pruned token, or more rows than `rows_max`;
    UnavailableError if the brokers or the schema registry (for Confluent framing) do not answer;
    DivergenceError if records are missing; FencedError after the last milestone of a changelog whose generation
    was replaced: start again without a token.
    """
    if source not in SOURCES:
        raise UsageError(f"source is {source!r:.60}; allowed: {', '.join(SOURCES)}")
    job = job if isinstance(job, Job) else load_job(Path(job))
    cluster = cluster or load_settings().cluster
    token = Token.parse(after) if isinstance(after, str) else after
    if source == "output":
        if job.output.mode == "none":
            raise UsageError(f"job {job.name} has no output (output.mode: none); read source='changelog'")
        from cutwater.client.from_output import from_output  # each source imports much that the other needs not

        return from_output(job, cluster, token, stop, idle_s, rows_max)
    from cutwater.client.from_changelog import from_changelog

    return from_changelog(job, cluster, token.generation if token else None, token, stop, idle_s, rows_max)


async def committed_async(
    job: Job | Path | str,
    cluster: Cluster | None = None,
    *,
    source: Literal["output", "changelog"] = "output",
    after: Token | str | None = None,
    idle_s: float | None = None,
    rows_max: int = ROWS_MAX,
) -> AsyncIterator[CommittedMilestone]:
    """`committed` for asyncio: waits in a thread, so that the event loop continues. Cancelling ends it.

    The thread belongs to the iterator and ends with it: readers that wait for hours do not occupy the few threads
    of the event loop's default executor.
    """
    ended = False
    milestones = committed(
        job, cluster, source=source, after=after, stop=lambda: ended, idle_s=idle_s, rows_max=rows_max
    )
    loop, own = asyncio.get_running_loop(), ThreadPoolExecutor(1, THREAD)
    waiting: asyncio.Future[CommittedMilestone | None] | None = None
    try:
        while True:
            waiting = loop.run_in_executor(own, next, milestones, None)
            milestone = await asyncio.shield(waiting)
            if milestone is None:
                return
            yield milestone
    finally:
        ended = True  # the thread polls this a few times a second
        try:
            if waiting is not None and not waiting.done():
                await asyncio.wait([waiting])
            if isinstance(milestones, Generator):
                await loop.run_in_executor(own, milestones.close)  # closes the consumer now
        finally:
            own.shutdown(wait=False)
