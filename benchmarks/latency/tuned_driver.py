"""The driver with other Spark settings than ours: to find out what a setting gains, in pairs with ours.

python -m benchmarks.latency.tuned_driver spark.some.setting=value ... JOBFILE

An empty value takes the setting away. `java.options=...` is put behind the driver's options of the JVM.
With `progress=FILE` what Spark tells of its epochs' phases is kept there.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.core.job.job import Job
from cutwater_spark import attempt, session
from cutwater_spark.driver import main

JAVA, PROGRESS = "java.options", "progress"
_JAVA_SETTING = "spark.driver.extraJavaOptions"
_LOOK_S = 15.0


def tune(conf: dict[str, str], wanted: dict[str, str]) -> dict[str, str]:
    """Our settings with those wanted in their place."""
    changed = conf | {name: value for name, value in wanted.items() if name.startswith("spark.")}
    if JAVA in wanted:
        changed[_JAVA_SETTING] = f"{changed.get(_JAVA_SETTING, '')} {wanted[JAVA]}".strip()
    return {name: value for name, value in changed.items() if value}


def keep_progress(query: Any, path: Path) -> None:
    """Write the durations of the newest epochs' phases every few seconds, while the query runs."""
    phases: dict[int, Any] = {}
    while query.isActive:
        time.sleep(_LOOK_S)
        phases |= {one["batchId"]: one["durationMs"] for one in map(_plain, query.recentProgress)}
        path.write_text(json.dumps(phases), encoding="utf-8")


def _plain(progress: Any) -> dict[str, Any]:
    return dict(json.loads(progress.json))


def apply(wanted: dict[str, str]) -> None:
    """Change what the driver is about to use."""
    ours, run_queries = session.configuration, attempt.Attempt._run_queries

    def configuration(job: Job, settings: Settings, checkpoint: str) -> dict[str, str]:
        return tune(ours(job, settings, checkpoint), wanted)

    def watched(self: Any, start: Any, *rest: Any) -> None:
        def start_and_watch(epochs: Any, decoding: Any) -> Any:
            query = start(epochs, decoding)
            path = Path(wanted[PROGRESS])
            threading.Thread(target=keep_progress, args=(query, path), daemon=True).start()
            return query

        run_queries(self, start_and_watch, *rest)

    session.configuration = configuration
    if PROGRESS in wanted:
        attempt.Attempt._run_queries = watched  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    apply(dict(one.split("=", 1) for one in sys.argv[1:-1]))
    sys.argv = [sys.argv[0], sys.argv[-1]]
    sys.exit(main())
