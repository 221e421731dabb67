"""Who steps back where a machine has less to give than its processes want."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

BEHIND = 5
"""A third of the share of those that readers wait for: niceness, in which each step is a quarter."""


def step_back(session: int, niceness: int) -> None:
    """The leader of a session, and whatever it starts from now on, gives way to others. At best: none is harmed.

    `session`: the process that leads it. `niceness`: from 0 to 19, as `nice` says.
    """
    with suppress(OSError):  # it has ended
        os.setpriority(os.PRIO_PROCESS, session, niceness)
    # Linux shares out among sessions first, and niceness counts within one only (sched(7), autogroup).
    with suppress(OSError):
        Path(f"/proc/{session}/autogroup").write_text(str(niceness), encoding="ascii")
