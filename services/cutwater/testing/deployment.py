"""One job that runs, as a test sees it: events in, whole milestones and rows out. The same wherever it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

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
_READINGS = 5
_ANSWER_S = 30.0


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
            self.check()
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"{self.job.name}: no milestone of all events is shown after {timeout_s:g} s; {self.look}"
                )
            time.sleep(_LOOK_S)

    def milestones(
        self, *, after: str | None = None, up_to: str | None = None, timeout_s: float = WAIT_S
    ) -> Iterator[CommittedMilestone]:
        """Whole milestones of the output with their changes, oldest first, up to and with the token `up_to`.

        `up_to`: default the newest when called. Raises UnavailableError when it is not published in time.
        """
        last = Token.parse(up_to) if up_to else self._newest()
        if last is None or (after is not None and Token.parse(after).sequence >= last.sequence):
            return
        deadline = time.monotonic() + timeout_s
        for milestone in committed(self.job, self.cluster, after=after, stop=lambda: time.monotonic() > deadline):
            yield milestone
            if milestone.token.sequence >= last.sequence:
                return
        self.check()
        raise UnavailableError(f"{self.job.name}: {last} was not on the output after {timeout_s:g} s; {self.look}")

    def rows(self, key: str | None = None) -> list[dict[str, Any]]:
        """The view's rows at one milestone: of one key, oldest window first, or of all keys.

        Raises UnavailableError when the view does not answer, or moves on during each of several readings.
        """
        for _ in range(_READINGS):
            found, tokens = self._read(key)
            if len(tokens) == 1:
                return found
        raise UnavailableError(
            f"{self.view_url} shows new milestones all the time: read while nothing is produced"
        )

    def _read(self, key: str | None) -> tuple[list[dict[str, Any]], set[str]]:
        """Rows page by page, and the milestones that the pages were of."""
        found: list[dict[str, Any]] = []
        tokens: set[str] = set()
        path, told, asked = (
            ("/v1/state", "next", "after") if key is None
            else (f"/v1/state/{quote(key, safe='')}", "next_from", "from")
        )  # fmt: skip
        following = None
        while True:
            page = self._get(path, {"limit": _PAGE} | ({asked: following} if following else {}))
            found += page["rows"]
            tokens.add(page["milestone"]["token"])
            following = page[told]
            if following is None:
                return found, tokens

    def _newest(self) -> Token | None:
        found = streams.milestones(self.cluster, self.job.name, limit=1)
        return found[0][0].token if found else None

    def _shows(self, token: str) -> bool:
        try:
            return self._ask("/v1/milestone", {"at_least": token, "wait_ms": 1_000}).is_success
        except httpx.HTTPError:
            return False

    def _get(self, path: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer = self._ask(path, parameters).raise_for_status()
        except httpx.HTTPError as error:
            raise UnavailableError(f"{self.view_url}{path}: {error}; {self.look}") from None
        return dict(answer.json())

    def _ask(self, path: str, parameters: Mapping[str, Any]) -> httpx.Response:
        return httpx.get(
            f"{self.view_url}{path}", params=dict(parameters), headers=self.headers, timeout=_ANSWER_S
        )
