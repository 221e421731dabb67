"""`verify --repair`: a view that differs from its changelog is built anew."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil

from cutwater.adapters.http.client_options import straight
from cutwater.adapters.topics.candidates import working_for
from cutwater.cli.options import Place
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
    def of(cls, place: Place) -> Repair:
        """Of the promoted generation's view."""
        job, settings = working_for(place.job, place.settings)
        return cls(folder_of(settings.views_dir, job.name, settings.generation), place.stack)

    @property
    def plan(self) -> str:
        """What would be done, for people."""
        what = f"would build the view in {self.folder} anew from the changelog, without its snapshots: add --yes"
        return what if self.stack else f"{what}, and start its rehydrator again yourself"

    def run(self) -> str:
        """Order it, and have it done where the rehydrator is this stack's; says what was done.

        Raises MachineError where the order cannot be written, UnavailableError where the view does not follow
        again in time; it goes on being built all the same.
        """
        rebuild_order.give(self.folder)
        if self.stack is None:
            return f"ordered: start the rehydrator of {self.folder} again, and it builds the view anew"
        for process in _rehydrators(self.stack):
            process.kill()  # the order stands, and a start obeys it: it is built to lose nothing by that
        self._wait(self.stack.api_url)
        return f"the view in {self.folder} was built anew; snapshots that were taken of it before may be as wrong"

    def _wait(self, api_url: str) -> None:
        deadline = time.monotonic() + READY_S_MAX
        while not (rebuild_order.emptied(self.folder) and _ready(api_url)):
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"the view in {self.folder} is still being built after {READY_S_MAX:.0f} s: 'cutwater status' "
                    "says how far it is; then run 'cutwater verify' again"
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
        return httpx.get(f"{api_url}/readyz", timeout=ASK_S, **straight(api_url)).status_code == 200
    except httpx.HTTPError:
        return False
