"""The console: one port with the pages and their data. The composition root of the service.

It follows the jobs of one stack. It writes only what a page's action asks for, with a token that has a role.
`cutwater console` and `cutwater up` start it.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable, Sequence
from uuid import uuid4

from prometheus_client import CollectorRegistry

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.http.access import open_to_others
from cutwater.adapters.http.server import HttpMetrics, HttpServer, listen
from cutwater.adapters.runtime.clock import now_ms
from cutwater.console.actions.kafka_operator import KafkaOperator
from cutwater.console.actions.page_actions import Actions
from cutwater.console.app import create_app
from cutwater.console.follower import JobFollower
from cutwater.console.jobs import Jobs
from cutwater.console.kafka_reader import KafkaReader
from cutwater.console.ports import JobOperator, JobPlace, RunningJob
from cutwater.console.security import secured
from cutwater.console.static_files import StaticFiles
from cutwater.console.view_client import ViewClient
from cutwater.core.errors import MachineError
from cutwater.core.util.connection_limits import Bounds
from cutwater.operations.job_status import limits_of

CONSOLE_BOUNDS = Bounds(every=256, by_address=192, working=96, working_by_address=80)
STOP_S = 3.0


class Console:
    """The service. `running`: returns the jobs that run now; may raise CutwaterError."""

    def __init__(
        self,
        settings: Settings,
        host: str,
        port: int,
        running: Callable[[], Sequence[RunningJob]],
        follow: Callable[[JobPlace], JobFollower] | None = None,
        clock_ms: Callable[[], int] = now_ms,
        operate: Callable[[JobPlace], JobOperator] = KafkaOperator,
    ) -> None:
        """Bind the port. `follow`: makes the follower of a job. `operate`: acts on one. Raises MachineError if the
        port is in use."""
        self._listener = _bind(host, port)
        address = self._listener.getsockname()[0]
        token = settings.api_token.get_secret_value()
        self.open_to_network = open_to_others(address, token)
        self._jobs = Jobs(running, follow or follow_place)
        registry = CollectorRegistry()
        app = secured(
            create_app(self._jobs, clock_ms, registry, Actions(operate, clock_ms, lambda: uuid4().hex)),
            StaticFiles(),
            address,
            settings.access,
            settings.api_names,
            settings.metrics_token.get_secret_value(),
        )
        self._server = HttpServer(app, self._listener, CONSOLE_BOUNDS, HttpMetrics(registry))
        self._stop = threading.Event()

    @property
    def url(self) -> str:
        host, port = self._listener.getsockname()[:2]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def stop(self, *_signal: object) -> None:
        """End `run` within a few seconds."""
        self._stop.set()

    def run(self) -> None:
        """Serve until stopped. Raises MachineError if the server ends by itself."""
        serving = threading.Thread(target=self._serve, name="http", daemon=True)
        serving.start()
        while not self._stop.wait(1.0):
            if not serving.is_alive():
                raise MachineError("the console's port stopped unexpectedly; see the log above")
        self._server.stop()
        self._jobs.close()
        serving.join(STOP_S)

    def _serve(self) -> None:
        self._server.run()


def follow_place(place: JobPlace) -> JobFollower:
    """Return the follower of a job, on its brokers and its rehydrator. Raises UsageError for a wrong job file."""
    reader = KafkaReader(place)
    return JobFollower(
        reader, ViewClient(place.api_url, place.settings), limits_of(reader.job, place.settings), now_ms
    )


def _bind(host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be bound ({error.strerror})"
        raise MachineError(f"{host}:{port} {why}: choose another --port (0 picks a free one)") from None
