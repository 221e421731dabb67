"""A rehydrator as a process of its own, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from cutwater.adapters.http.client_options import no_authorities
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.local.machine.ports import free_ports

SWITCH_POINTS = ("generation-ended", "generation-built", "generation-shown", "generation-set-aside")
"""Where a rehydrator may die while it changes over to another generation."""


class Process:
    """`python -m cutwater.rehydrator JOBFILE` with its own folder and port."""

    def __init__(self, cluster: Cluster, job_file: Path, folder: Path, prefix: str = "", **env: str) -> None:
        settings = {
            "CUTWATER_BOOTSTRAP_SERVERS": cluster.bootstrap,
            "CUTWATER_DATA_DIR": str(folder),
            "CUTWATER_PORT": str(free_ports(1)[0]),
            "CUTWATER_WAIT_MS": "20000",
        } | env
        self.port = int(settings["CUTWATER_PORT"])
        token = settings.get("CUTWATER_API_TOKEN")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.log = folder / "rehydrator.log"
        folder.mkdir(parents=True, exist_ok=True)
        code = f"{prefix}\nimport sys; from cutwater.rehydrator.service import main; sys.exit(main())"
        command = ["-c", code] if prefix else ["-m", "cutwater.rehydrator"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command, str(job_file)],
                env={**os.environ, **settings},
                stdout=log,
                stderr=log,
            )

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self._ask("GET", path, query)

    def post(self, path: str) -> httpx.Response:
        return self._ask("POST", path)

    def _ask(self, method: str, path: str, query: dict[str, Any] | None = None) -> httpx.Response:
        url = f"http://127.0.0.1:{self.port}{path}"
        return httpx.request(method, url, params=query, headers=self.headers, timeout=40, verify=no_authorities())

    def answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.get("/healthz").status_code == 200
        except httpx.HTTPError:
            return False

    def shown(self) -> int:
        answer = self.get("/v1/milestone")
        return int(answer.json()["sequence"]) if answer.is_success else 0

    def pieces(self, key: str) -> list[int]:
        return [row["pieces"] for row in self.get(f"/v1/state/{key}").json()["rows"]]

    def ended(self, patience_s: float = 60.0) -> tuple[int, str]:
        """Exit code, and the last line of the log."""
        code = self.process.wait(patience_s)
        lines = [line for line in self.log.read_text().splitlines() if "cutwater rehydrator: " in line]
        return code, lines[-1] if lines else ""


@contextmanager
def running(*arguments: Any, **options: Any) -> Iterator[Process]:
    one = Process(*arguments, **options)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.wait(20)
