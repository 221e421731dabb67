"""One job that runs, as a test sees it: events in, whole milestones and rows out. The same wherever it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import httpx

from cutwater.adapters import streams
from cutwater.adapters.cluster import Cluster
from cutwater.client import CommittedMilestone, EventProducer, committed
from cutwater.core.errors import UnavailableError
from cutwater.core.generations import Token
from cutwater.core.job import Job

WAIT_S = 120.0
_LOOK_S = 0.1
_PAGE = 10_000


class Deployment:
    """A job with its processes and its Kafka.

    `look` says where the logs are; `check` raises what ended a part of it, if anything did.
    """

    def __init__(
        self,
        job: Job,
        cluster: Cluster,
        view_url: str,
        look: str,
        headers: Mapping[str, str] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.job = job
        self.cluster = cluster
        self.view_url = view_url
        self.headers = dict(headers or {})
        self.look = look
        self.check = check

    def produce(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Write events to the job's source topic; returns once Kafka has them all.

        Raises UsageError for an event that does not fit the schema, UnavailableError when no broker answers.
        """
        with EventProducer(self.job, self.cluster) as producer:
            for event in events:
                producer.send(event)

    def wait(self, timeout_s: float = WAIT_S) -> str:
        """The token of a milestone that holds all that is on the source topic now, once the view shows it.

        Raises UnavailableError when it takes longer, and the error that ended a part of the job.
        """
        end = streams.source_end(self.cluster, self.job.topic)
        deadline = time.monotonic() + timeout_s
        while True:
            found = streams.milestones(self.cluster, self.job.name, limit=1)
            if found and found[0][0].source_cut.covers(end) and self._shows(str(found[0][0].token)):
                return str(found[0][0].token)
            self._still(deadline, f"no milestone of all events is shown after {timeout_s:g} s")

    def milestones(
        self, *, after: str | None = None, up_to: str | None = None, timeout_s: float = WAIT_S
    ) -> Iterator[CommittedMilestone]:
        """Whole milestones of the output with their changes, oldest first, up to and with the token `up_to`.

        `up_to`: default the newest when called. Raises UnavailableError when it is not published in time.
        """
        last = Token.parse(up_to) if up_to else self._newest()
        began, over = time.monotonic(), False

        def late() -> bool:
            nonlocal over
            over = time.monotonic() - began > timeout_s
            return over

        if last is not None and (after is None or Token.parse(after).sequence < last.sequence):
            for milestone in committed(self.job, self.cluster, after=after, stop=late):
                yield milestone
                if milestone.token.sequence >= last.sequence:
                    return
            self._still(began, f"milestone {last} was not on the output after {timeout_s:g} s")

    def rows(self, key: str | None = None) -> list[dict[str, Any]]:
        """The view's rows of one key, oldest window first, or of all keys.

        Raises UnavailableError when the view does not answer.
        """
        found: list[dict[str, Any]] = []
        path, cursor = ("/v1/state", "next") if key is None else (f"/v1/state/{key}", "next_from")
        following, parameter = None, "after" if key is None else "from"
        while True:
            page = self._get(path, {"limit": _PAGE} | ({parameter: following} if following else {}))
            found += page["rows"]
            following = page[cursor]
            if following is None:
                return found

    def _newest(self) -> Token | None:
        found = streams.milestones(self.cluster, self.job.name, limit=1)
        return found[0][0].token if found else None

    def _shows(self, token: str) -> bool:
        try:
            answer = httpx.get(f"{self.view_url}/v1/milestone", params={"at_least": token}, headers=self.headers)
            return answer.is_success
        except httpx.HTTPError:
            return False

    def _get(self, path: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer = httpx.get(f"{self.view_url}{path}", params=dict(parameters), headers=self.headers)
            answer.raise_for_status()
        except httpx.HTTPError as error:
            raise UnavailableError(f"{self.view_url}{path}: {error}; {self.look}") from None
        return dict(answer.json())

    def _still(self, deadline: float, problem: str) -> None:
        self.check()
        if time.monotonic() > deadline:
            raise UnavailableError(f"{self.job.name}: {problem}; {self.look}")
        time.sleep(_LOOK_S)
