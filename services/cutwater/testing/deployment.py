"""A running job for tests: events in, complete milestones and rows out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import httpx

from cutwater.adapters.http.client_options import direct_options
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream
from cutwater.client import CommittedMilestone, EventProducer, committed
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.records import Milestone
from cutwater.core.query.key_path import path_of

WAIT_S = 120.0
_LOOK_S = 0.1
_PAGE = 10_000
_READINGS = 5
_ANSWER_S = 30.0


class Deployment:
    """A job with its processes and its Kafka.

    `logs`: returns the logs or their place, for errors. `check`: raises the error that ended a process for good.
    """

    def __init__(
        self,
        job: Job,
        cluster: Cluster,
        view_url: str,
        logs: Callable[[], str],
        headers: Mapping[str, str] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.job = job
        self.cluster = cluster
        self.view_url = view_url
        self.headers = dict(headers or {})
        self.logs = logs
        self.check = check

    def produce(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Write events to the job's source topic. Return when Kafka has acknowledged all.

        Raises UsageError for an event that does not fit the schema, or if the job is attached (its own query reads
        other events); UnavailableError if no broker answers.
        """
        self._require_source()
        with EventProducer(self.job, self.cluster) as producer:
            for event in events:
                producer.send(event)

    def wait(self, timeout_s: float = WAIT_S) -> str:
        """Return the token of a milestone that covers all current events, when it is published and shown by the
        view.

        Raises UsageError if the source topic is empty, UnavailableError after `timeout_s`, and the error that
        ended a process of the job for good.
        """
        self._require_source()
        end = commit_stream.source_end(self.cluster, self.job.topic)
        if not end.records:
            raise UsageError(
                f"{self.job.topic} holds no event, so there is no milestone to wait for: produce first"
            )
        deadline = time.monotonic() + timeout_s
        while True:
            self.check()
            newest = self._newest()
            if newest and newest.source_cut.covers(end) and self._shows(str(newest.token)):
                return str(newest.token)
            if time.monotonic() > deadline:
                raise self._late(f"no milestone of all events is published and shown after {timeout_s:g} s")
            time.sleep(_LOOK_S)

    def milestones(
        self, *, after: str | None = None, up_to: str | None = None, timeout_s: float = WAIT_S
    ) -> Iterator[CommittedMilestone]:
        """Yield complete milestones of the output with their changes, oldest first.

        `after`: the token to start after; default: the oldest milestone. `up_to`: the last token; default: the
        newest published. Raises UsageError for an `after` that is not on the output, UnavailableError if `up_to`
        is not published in time.
        """
        newest = self._newest()
        last = Token.parse(up_to) if up_to else newest.token if newest else None
        return self._milestones(after, last, timeout_s)

    def _milestones(self, after: str | None, last: Token | None, timeout_s: float) -> Iterator[CommittedMilestone]:
        if last is None or (after is not None and Token.parse(after).sequence >= last.sequence):
            return
        deadline = time.monotonic() + timeout_s

        def over() -> bool:
            self.check()
            return time.monotonic() > deadline

        for milestone in committed(self.job, self.cluster, after=after, stop=over):
            yield milestone
            if milestone.token.sequence >= last.sequence:
                return
        raise self._late(f"{last} was not on the output after {timeout_s:g} s")

    def rows(self, key: str | None = None) -> list[dict[str, Any]]:
        """Return the view's rows at one milestone: of one key, oldest window first, or of all keys.

        Raises UnavailableError if the view does not answer, or shows a new milestone during each of five reads.
        """
        for _ in range(_READINGS):
            found, tokens = self._read(key)
            if len(tokens) == 1:
                return found
        raise UnavailableError(
            f"{self.view_url} shows new milestones all the time: read while nothing is produced"
        )

    def _read(self, key: str | None) -> tuple[list[dict[str, Any]], set[str]]:
        found: list[dict[str, Any]] = []
        tokens: set[str] = set()
        path, told, asked = (
            ("/v1/state", "next", "after") if key is None
            else (path_of(key), "next_from", "from")
        )  # fmt: skip
        following = None
        while True:
            page = self._get(path, {"limit": _PAGE} | ({asked: following} if following else {}))
            found += page["rows"]
            tokens.add(page["milestone"]["token"])
            following = page[told]
            if following is None:
                return found, tokens

    def _newest(self) -> Milestone | None:
        """Return the newest published milestone; the newest committed one if the job has no output."""
        if self.job.output.mode != "none":
            return commit_stream.published_milestone(self.cluster, self.job.name)
        found = commit_stream.milestones(self.cluster, self.job.name, limit=1)
        return found[0][0] if found else None

    def _require_source(self) -> None:
        if self.job.attached:
            raise UsageError(f"job {self.job.name} is attached: the events are those of its own query")

    def _late(self, problem: str) -> UnavailableError:
        return UnavailableError(f"{self.job.name}: {problem}; {self.logs()}")

    def _shows(self, token: str) -> bool:
        try:
            return self._ask("/v1/milestone", {"at_least": token, "wait_ms": 1_000}).is_success
        except httpx.HTTPError:
            return False

    def _get(self, path: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer = self._ask(path, parameters).raise_for_status()
        except httpx.HTTPError as error:
            self.check()
            raise self._late(f"{self.view_url}{path}: {error}") from None
        return dict(answer.json())

    def _ask(self, path: str, parameters: Mapping[str, Any]) -> httpx.Response:
        url = f"{self.view_url}{path}"
        return httpx.get(
            url, params=dict(parameters), headers=self.headers, timeout=_ANSWER_S, **direct_options(url)
        )
