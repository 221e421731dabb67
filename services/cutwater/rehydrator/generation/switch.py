"""The choice among the generations' applications: a request is answered by one of them.

Rows, milestone and holders in an answer therefore always belong to one generation. The application of the earlier
generation stays for a while: for requests in progress, and for peers that have not switched yet.
"""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from cutwater.rehydrator.cluster.peers import PASSED_ON
from cutwater.rehydrator.http_api.generation_app import GenerationApp


class GenerationRouter:
    """The application of a rehydrator. One thread calls `show` and `drop`; the event loop calls it."""

    def __init__(self, first: GenerationApp) -> None:
        self._apps: tuple[GenerationApp, ...] = (first,)

    @property
    def shown(self) -> GenerationApp:
        """The application of the generation whose milestone readers see."""
        return self._apps[0]

    def show(self, app: GenerationApp) -> None:
        """Send new requests to `app` from now on."""
        self._apps = (app, *self._apps)

    def drop(self, app: GenerationApp) -> None:
        """Remove an application that is not shown and has no request in progress."""
        self._apps = tuple(one for one in self._apps if one is not app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._for(scope)(scope, receive, send)

    def _for(self, scope: Scope) -> GenerationApp:
        """Return the application that is shown; for a peer that divides as an earlier one, that earlier one."""
        apps = self._apps
        marks = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name == PASSED_ON.encode()]
        return next((one for one in apps if one.division in marks), apps[0])
