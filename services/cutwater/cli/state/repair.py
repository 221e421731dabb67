"""`verify --repair`: rebuilds a view that differs from its changelog."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil

from cutwater.adapters.http.client_options import direct_options
from cutwater.adapters.topics.candidates import working_for
from cutwater.cli.options import JobContext
from cutwater.core.errors import UnavailableError
from cutwater.local.running_file import RunningStack
from cutwater.views.store import rebuild_order
from cutwater.views.store.store import folder_of

READY_S_MAX = 600.0
LOOK_S = 0.2
ASK_S = 5.0
MODULE = "cutwater.rehydrator"


class Repair(NamedTuple):
    """The view's folder, and the stack whose rehydrator serves it."""

    folder: Path
    stack: RunningStack | None

    @classmethod
    def of(cls, place: JobContext) -> Repair:
        job, settings = working_for(place.job, place.settings)
        return cls(folder_of(settings.views_dir, job.name, settings.generation), place.stack)

    @property
    def plan(self) -> str:
        what = f"would rebuild the view in {self.folder} from the changelog, without its snapshots: add --yes"
        return what if self.stack else f"{what}, and start its rehydrator again yourself"

    def run(self) -> str:
        """Order the rebuild, restart this stack's rehydrator to run it, and return what was done.

        Raises MachineError if the order cannot be written, UnavailableError if the view does not follow again in
        time (the rebuild continues).
        """
        rebuild_order.order_rebuild(self.folder)
        if self.stack is None:
            return f"rebuild ordered: start the rehydrator of {self.folder} again to run it"
        for process in _rehydrators(self.stack):
            process.kill()  # the rehydrator is crash-safe, and its next start executes the order
        self._wait(self.stack.api_url)
        return f"the view in {self.folder} was rebuilt; older snapshots of it may have the same errors"

    def _wait(self, api_url: str) -> None:
        deadline = time.monotonic() + READY_S_MAX
        while not (rebuild_order.emptied(self.folder) and _ready(api_url)):
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"the view in {self.folder} is still being rebuilt after {READY_S_MAX:.0f} s: 'cutwater "
                    "status' shows its progress; run 'cutwater verify' again afterwards"
                )
            time.sleep(LOOK_S)


def _rehydrators(stack: RunningStack) -> list[psutil.Process]:
    found = []
    for process in psutil.Process(stack.pid).children(recursive=True):
        try:
            if MODULE in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found


def _ready(api_url: str) -> bool:
    try:
        return httpx.get(f"{api_url}/readyz", timeout=ASK_S, **direct_options(api_url)).status_code == 200
    except httpx.HTTPError:
        return False
