"""Alerts as HTTP requests. The number of tries is limited; no log line or error contains the URL or the token."""

from __future__ import annotations

import logging
from typing import Any

import httpx
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from cutwater.core.errors import UsageError
from cutwater.core.monitoring.alerts import Alert, plain
from cutwater.watch.metrics import Metrics

ATTEMPTS = 5
ANSWER_S = 5.0
WAIT_S_MAX = 10.0
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})

# httpx logs the URL of each request at INFO.
logging.getLogger("httpx").setLevel(logging.WARNING)


class _Undelivered(Exception):
    """The reason of a failed try, without secrets."""


class _Passing(_Undelivered):
    """A failure after which another try may succeed."""


class Webhook:
    """Sends alerts to one URL. It keeps no queue: alerts wait on the topic."""

    def __init__(self, url: str, token: str, metrics: Metrics, log: Any, wait_s: float = 1.0) -> None:
        """Raise UsageError for an invalid URL. `wait_s`: the wait before the second try; later ones are longer."""
        if not url.startswith(("http://", "https://")):
            raise UsageError("CUTWATER_ALERT_WEBHOOK_URL: it must start with http:// or https://")
        self._url = url
        self._metrics = metrics
        self._log = log
        self._wait_s = wait_s
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.AsyncClient(headers=headers, timeout=ANSWER_S)

    async def post(self, alert: Alert) -> None:
        """Deliver the alert. After `ATTEMPTS` failed tries, count it as undelivered."""
        tries = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(self._wait_s, WAIT_S_MAX),
            retry=retry_if_exception_type(_Passing),
            reraise=True,
        )
        try:
            async for attempt in tries:
                with attempt:
                    await self._once(alert)
            self._metrics.delivered.inc()
        except _Undelivered as error:
            self._metrics.undelivered.inc()
            self._log.warning("an alert was not delivered to the webhook", alert=alert.name, problem=str(error))

    async def close(self) -> None:
        await self._client.aclose()

    async def _once(self, alert: Alert) -> None:
        # Alerts are delivered at least once: the key lets a receiver ignore a repeat.
        key = f"{alert.name}/{'raised' if alert.on else 'resolved'}"
        try:
            answer = await self._client.post(self._url, json=plain(alert), headers={"Idempotency-Key": key})
        except httpx.HTTPError as error:
            raise _Passing(type(error).__name__) from None
        except (httpx.InvalidURL, UnicodeError):
            raise _Undelivered("CUTWATER_ALERT_WEBHOOK_URL is not a valid URL") from None
        if answer.status_code in _TRY_AGAIN:
            raise _Passing(f"the webhook answered {answer.status_code}")
        if not answer.is_success:
            raise _Undelivered(f"the webhook answered {answer.status_code}")
