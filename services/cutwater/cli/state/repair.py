"""`verify --repair`: rebuilds a view that differs from its changelog, and has rows of the output corrected."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil

from cutwater.adapters.http.client_options import direct_options
from cutwater.adapters.topics.generation_jobs import working_for
from cutwater.cli.options import JobContext
from cutwater.core.checks.state_comparison import (
    OUTPUT,
    RowName,
    output_can_be_corrected,
    view_can_be_rebuilt,
)
from cutwater.core.errors import UnavailableError
from cutwater.local.running_file import RunningStack
from cutwater.operations.correction_order import CorrectionOrders
from cutwater.verify.run import Result
from cutwater.views.store import rebuild_order
from cutwater.views.store.folders import folder_of

READY_S_MAX = 600.0
CORRECTED_S_MAX = 60.0
"""How long to wait for the publisher's next milestone; an idle job may write none."""
LOOK_S = 0.2
ASK_S = 5.0
MODULE = "cutwater.rehydrator"


class ViewRepair(NamedTuple):
    """The view's folder, and the stack whose rehydrator serves it."""

    folder: Path
    stack: RunningStack | None

    @classmethod
    def of(cls, place: JobContext) -> ViewRepair:
        job, settings = working_for(place.job, place.settings)
        return cls(folder_of(settings.views_dir, job.name, settings.generation), place.stack)

    @property
    def doing(self) -> str:
        return "rebuilding the view"

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


class OutputRepair(NamedTuple):
    """The rows of the output that differ, and the order that the job's publisher executes."""

    orders: CorrectionOrders
    rows: Sequence[RowName]
    stack: RunningStack | None

    @classmethod
    def of(cls, place: JobContext, result: Result) -> OutputRepair:
        wrong = [one.name for one in result.differences if OUTPUT in one.suspects]
        return cls(CorrectionOrders(place.settings.data_dir, place.job.name), wrong, place.stack)

    @property
    def doing(self) -> str:
        return "waiting for the publisher's next milestone"

    @property
    def plan(self) -> str:
        what = f"would publish corrections of {len(self.rows):,} rows of the output"
        return f"{what}, in the transaction of the publisher's next milestone: add --yes"

    def run(self) -> str:
        """Order the corrections, wait for this stack's publisher, and return what was done. Raises MachineError
        if the order cannot be written."""
        path = self.orders.write(self.rows)
        ordered = f"corrections of {len(self.rows):,} rows are ordered in {path}"
        if self.stack is None:
            return f"{ordered}: the publisher that has this data folder publishes them with its next milestone"
        deadline = time.monotonic() + CORRECTED_S_MAX
        while path.exists():
            if time.monotonic() > deadline:
                return f"{ordered}: the publisher has had no milestone since, and publishes them with the next one"
            time.sleep(LOOK_S)
        return f"corrections of {len(self.rows):,} rows of the output were published"


Repair = ViewRepair | OutputRepair


def repairs_of(place: JobContext, result: Result) -> list[Repair]:
    """Return the repairs that a comparison calls for."""
    found: list[Repair] = [ViewRepair.of(place)] if view_can_be_rebuilt(result.answers) else []
    return [*found, OutputRepair.of(place, result)] if output_can_be_corrected(result.answers) else found


def _rehydrators(stack: RunningStack) -> list[psutil.Process]:
    """Return those of this job alone: the process of a stack may run several."""
    found = []
    for process in psutil.Process(stack.pid).children(recursive=True):
        try:
            if {MODULE, stack.job_file} <= set(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def _ready(api_url: str) -> bool:
    try:
        return httpx.get(f"{api_url}/readyz", timeout=ASK_S, **direct_options(api_url)).status_code == 200
    except httpx.HTTPError:
        return False
