"""A driver that dies by kill -9 after an epoch's late events were listed and before its barrier.

python -m support.crashing_driver JOBFILE; the first time only: the file `crashed` beside the job file says which
epoch.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from cutwater.core.protocol.records import Barrier, Signal
from cutwater_spark import driver
from cutwater_spark.epoch.barriers import BarrierLog

write = BarrierLog.write


def write_or_die(self: BarrierLog, one: Signal) -> None:
    mark = Path(sys.argv[1]).parent / "crashed"
    if isinstance(one, Barrier) and one.late and one.rejected and not mark.exists():
        mark.write_text(f"{one.attempt} {one.epoch}")
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, one)


if __name__ == "__main__":
    BarrierLog.write = write_or_die  # type: ignore[method-assign]
    sys.exit(driver.main())
