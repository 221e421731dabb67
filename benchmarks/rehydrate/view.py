"""Cutwater: the rehydrator's own process, from an empty folder to the newest milestone, with all its proofs."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx

from benchmarks.harness.measurement import Sampler
from benchmarks.rehydrate.contest import (
    PATIENCE_S,
    RECORDS_PER_S_MIN,
    STOP_S,
    Contents,
    Contest,
    Moments,
    Wrong,
    settled,
)
from benchmarks.rehydrate.log import GENERATION, Log
from benchmarks.rehydrate.workloads import group_name
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.hashing import rows_hash
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import PLAIN_KEY_SCHEMA
from cutwater.core.util.timestamps import iso
from cutwater.local.machine.ports import free_ports
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy
from cutwater.views.bulk.loader import workers_by_default
from cutwater.views.changelog.record_reader import KeyReader
from cutwater.views.query.presenter import Presenter
from cutwater.views.store.folders import folder_of
from cutwater.views.store.key_layout import WINDOWS_END, Window, parse, segment_prefix
from cutwater.views.store.store import Store

_SPENT = re.compile(r"^cutwater_view_(?:apply_seconds_sum|snapshot_restore_seconds) (\S+)$", re.MULTILINE)
NATIVE = "cutwater-native"
"""The contender that may use the optional module."""
PROCESS_MB, ROWS_MB, NATIVE_MB = 75.0, 400.0, 250.0
"""docs/OPERATING.md, "How long a restore takes": of each process, and of what all workers hold."""
_PIECE_ROWS = 50_000
_WAIT_MS = 30_000


class ViewContest(Contest):
    @property
    def memory_mb_bound(self) -> float:
        return PROCESS_MB * (1 + workers_by_default()) + (NATIVE_MB if self.contender == NATIVE else ROWS_MB)

    def child(self) -> Child:
        self._port = free_ports(1)[0]
        env = {
            "CUTWATER_BOOTSTRAP_SERVERS": self.stage.cluster.bootstrap,
            "CUTWATER_DATA_DIR": str(self.folder / "state"),
            "CUTWATER_REGION": GENERATION.region,
            "CUTWATER_PORT": str(self._port),
            "CUTWATER_SNAPSHOTS": str(self.log.snapshots or ""),
            "CUTWATER_SNAPSHOT_EVERY_MS": "86400000",
            "CUTWATER_NATIVE": str(self.contender == NATIVE),
        }
        argv = [sys.executable, "-m", "cutwater.rehydrator", str(self.log.job_file)]
        return Child(self.name, argv, env, self.folder / "log.txt", RestartPolicy(), terminate_leader_only=True)

    def first_read(self, child: Child) -> Moments:
        """The restore's own seconds are those that the rehydrator counts; a read's are added."""
        with self._api() as api:
            found = self._ask(api, child)
            read_s, asked = time.time(), time.monotonic()
            self._rows(api)
            one_read_s = time.monotonic() - asked
            spent = _SPENT.findall(api.get("/metrics").text)
        if not spent:
            raise UnavailableError(f"{self.name} tells no time of its restore")
        moments = Moments(read_s - sum(map(float, spent)) - one_read_s, read_s)
        if found != (expected := _expected(self.log)):
            raise Wrong(moments, f"the first read gave {found} instead of {expected}")
        return moments

    def take_snapshot(self, place: Path) -> None:
        """Restore the log as it is now, and leave a snapshot of it in that folder."""
        self.log.snapshots = place
        child = self.child()
        try:
            with Sampler(child.pids, waited=True) as sampler, self._api() as api:
                child.start()
                self._deadline = time.monotonic() + PATIENCE_S + self.log.records / RECORDS_PER_S_MIN
                self._ask(api, child)
                settled(sampler)  # a snapshot of a view that has served for long, and owes nothing
                token = api.post("/v1/snapshots").raise_for_status().json()["token"]
                assert token == str(self.log.last.token)
            while not list(place.rglob("manifests/*.json")):
                self.waiting(child, "the snapshot")
        finally:
            child.stop(STOP_S)
            self.log.snapshots = None

    def contents(self, child: Child) -> Contents:
        """Of the store, opened once its process has ended: it must be at the log's last milestone, whole."""
        child.stop(STOP_S)
        return contents_at(self.log, self.folder / "state")

    def _api(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://127.0.0.1:{self._port}", timeout=2 * _WAIT_MS / 1000)

    def _ask(self, api: httpx.Client, child: Child) -> Any:
        """The rows of the probe, as soon as the log's last milestone is shown: the API itself waits for it."""
        while True:
            try:
                answer = self._rows(api, at_least=str(self.log.last.token), wait_ms=_WAIT_MS)
            except httpx.TransportError:
                pass  # it does not listen yet
            else:
                if answer.is_success:
                    return answer.json()["rows"]
            self.waiting(child, "the first read")

    def _rows(self, api: httpx.Client, **query: Any) -> httpx.Response:
        return api.get(f"/v1/state/{group_name(0)}", params=query)


def _expected(log: Log) -> list[dict[str, Any]]:
    """The probe's rows as the API shows them."""
    keys, presenter = KeyReader(), Presenter(log.job)
    rows = sorted((keys.window(key), value) for key, value in log.probe.items())
    return [
        {**presenter.row(at, value), "window_start": iso(at.start_ms), "window_end": iso(at.end_ms)}
        for at, value in rows
    ]


def contents_at(log: Log, data_dir: Path) -> Contents:
    """Of a view whose process has ended; nothing, if it is not at the log's last milestone."""
    job = log.job
    store = Store(folder_of(data_dir, job.name, GENERATION), job, GENERATION)
    try:
        if store.applying or store.applied is None or store.applied.milestone != log.last:
            return Contents(0, 0)
        return _contents(store.pin().rows(segment_prefix(-(1 << 63)), WINDOWS_END, _PIECE_ROWS))
    finally:
        store.close()


def _contents(rows: Iterator[tuple[bytes, bytes]]) -> Contents:
    """The digest is that of the changelog's keys, so that it can be compared with any other store's."""
    count, digest, key = 0, 0, _KeyWriter()
    while piece := list(islice(rows, _PIECE_ROWS)):
        count += len(piece)
        digest ^= rows_hash((key.bytes(parse(at)) for at, _ in piece), (value for _, value in piece))
    return Contents(count, digest)


class _KeyWriter:
    """Keys of the changelog, made from windows: there are few of these, and many groups."""

    def __init__(self) -> None:
        self._codec = Codec(PLAIN_KEY_SCHEMA)
        self._known: dict[tuple[int, int, int], tuple[bytes, bytes]] = {}

    def bytes(self, window: Window) -> bytes:
        place = (len(window.key), window.start_ms, window.end_ms)
        if place not in self._known:
            whole = self._codec.encode({"key": window.key, "window_start": place[1], "window_end": place[2]})
            before, after = whole.split(window.key.encode(), 1)
            self._known[place] = (before, after)
        before, after = self._known[place]
        return before + window.key.encode() + after
