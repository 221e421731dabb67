"""What tests of watch share: bounds that are soon passed, a driver that only speaks, a look at a metric."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import httpx

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Barrier, Committed, Signal, Start
from support.harness import GENERATION, Flow

QUICK = {
    "CUTWATER_WATCH_TICK_MS": "200",
    "CUTWATER_WATCH_SILENT_MS": "1500",
    "CUTWATER_WATCH_DRIVER_SILENT_MS": "600000",
    "CUTWATER_WATCH_STUCK_MS": "600000",
    "CUTWATER_WATCH_WINDOW_MS": "600000",
}


class SpeakingDriver:
    """Writes barriers as a driver would, with the clock's times; `run` does so until it is stopped."""

    def __init__(self, job: Flow) -> None:
        self._job = job
        self._writer = TransactionalWriter(job.cluster, topics.driver_id(job.job.name, GENERATION))
        self._writer.initialise()
        self.epoch = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.start(1)

    def start(self, attempt: int) -> None:
        self.tell(Start(self._job.job.name, GENERATION, attempt, _now()))

    def tell(self, signal: Signal) -> None:
        self._writer.write(topics.barriers(self._job.job.name), [protocol_records.encode(signal)])

    def write_epoch(self, attempt: int = 1) -> None:
        name, epoch, now = self._job.job.name, self.epoch, _now()
        writer: Any = {"job": name, "generation": GENERATION, "attempt": attempt, "epoch": epoch}
        cuts: Any = {
            "source_cut": Cut.of_topic(self._job.job.topic, [epoch, epoch]),
            "changelog_cut": Cut.of_topic(topics.changelog(name, GENERATION), [epoch, epoch]),
        }
        counts = {"rows": 2, "digest": epoch, "events": 2, "rejected": 0, "late": 0, "skew_ms": 0}
        times = {"watermark_ms": epoch, "horizon_ms": 0, "epoch_started_ms": now - 40, "written_ms": now}
        self.tell(Barrier(**writer, **cuts, schema_fingerprint="ab", definition="cd", **counts, **times))
        self.tell(Committed(name, GENERATION, attempt, epoch, _now()))
        self.epoch += 1

    def _run(self) -> None:
        while not self.stop.wait(0.03):
            self.write_epoch()

    def end(self) -> None:
        self.stop.set()
        if self.thread.is_alive():
            self.thread.join(10)


def _now() -> int:
    return time.time_ns() // 1_000_000


def metric(port: int, name: str) -> float | None:
    try:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=5).text
    except httpx.HTTPError:
        return None
    found = re.search(rf"^cutwater_watch_{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else None
