"""The files under deploy/ and docker-compose.yml, as far as they can be judged without an engine."""

from __future__ import annotations

import http.server
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cutwater.adapters.config.settings import Settings
from cutwater_spark.authentication import PROTECTED

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "deploy" / "images"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
SECURED: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "deploy/compose.secured.yml").read_text("utf-8"))[
    "services"
]
BASH = shutil.which("bash", path=f"{os.environ['PATH']}{os.pathsep}{os.defpath}") or "bash"
DOCKERFILES = sorted(IMAGES.glob("*.Dockerfile"))


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_has_no_more_rights_than_it_needs(name: str) -> None:
    """No root file system to write to, no capability, and nothing published beyond this machine."""
    one = SERVICES[name]
    assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"])
    assert one["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "user", "cap_add", "network_mode", "pid", "devices"} & set(one)
    assert all(port.startswith("127.0.0.1:") for port in one.get("ports", []))
    assert one["restart"] == ("no" if name == "mirror" else "on-failure")


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_is_told_documented_settings_only(name: str) -> None:
    """A mistyped setting is no error for the process, so it is one here; and no secret has a value here."""
    environment = SERVICES[name].get("environment", {})
    told = {key.removeprefix("CUTWATER_").lower() for key in environment if key.startswith("CUTWATER_")}
    assert told <= set(Settings.model_fields)
    secret = [key for key in environment if re.search("TOKEN|PASSWORD|SECRET", key)]
    assert all(re.fullmatch(r"\$\{\w+:-\}", environment[key]) for key in secret)


@pytest.mark.parametrize("name", ["driver", "commit-signal"])
def test_who_goes_on_with_a_job_can_be_told_of_another_region(name: str) -> None:
    """By the variables of the mirror; where they are not set nobody is asked."""
    asked = {"CUTWATER_ORIGIN_REGION", "CUTWATER_ORIGIN_BOOTSTRAP_SERVERS", "CUTWATER_GO_ON_BEHIND"}
    asked |= {"CUTWATER_SNAPSHOTS", "CUTWATER_SNAPSHOT_KEY"} if name == "driver" else set()
    environment = SERVICES[name]["environment"]
    assert {key: environment.get(key) for key in asked} == {key: f"${{{key}:-}}" for key in asked}


@pytest.mark.parametrize("name", ["spark-master", "spark-worker-1", "spark-worker-2"])
def test_the_secured_spark_lets_in_who_has_the_secret(name: str) -> None:
    """Master and workers have the very settings of the driver; no secret stands here."""
    environment = SECURED[name]["environment"]
    options = dict(one.removeprefix("-D").split("=", 1) for one in environment["SPARK_DAEMON_JAVA_OPTS"].split())
    spilled = {"spark.io.encryption.enabled"}  # executors have it from the driver
    assert {one: value for one, value in PROTECTED.items() if one not in spilled}.items() <= options.items()
    assert options["spark.master.rest.enabled"] == options["spark.ui.killEnabled"] == "false"
    assert environment["_SPARK_AUTH_SECRET"].startswith("${SPARK_SECRET:?")
    driver = SECURED["driver"]["environment"]
    assert (driver["CUTWATER_SPARK_AUTHENTICATE"], driver["CUTWATER_SPARK_SECRET"]) == (
        "true",
        "${SPARK_SECRET:-}",
    )


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda one: one.stem)
def test_an_image_is_built_from_what_is_there(file: Path) -> None:
    """Nothing is fetched, whoever runs it is nobody, the base is an argument, and its health can be asked for."""
    text = re.sub(r"^#.*$", "", file.read_text("utf-8"), flags=re.MULTILINE)
    assert not re.search(r"\b(apt|apt-get|pip|curl|wget|git|ADD)\b|https?:", text)
    assert re.search(r"^ARG BASE=\S+\nFROM \$\{BASE\}$", text, re.MULTILINE)
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["10001:10001"]
    assert "\nHEALTHCHECK " in text


@pytest.mark.parametrize("script", ["base", "build", "healthy", "kafka/run", "prometheus/files"])
def test_a_script_can_be_read_and_run(script: str) -> None:
    subprocess.run([BASH, "-n", IMAGES / script], check=True, timeout=10)
    assert (IMAGES / script).stat().st_mode & 0o111


@pytest.fixture(name="answering")
def _answering() -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path in {"/healthz", "/metrics"} else 503)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join(10)
    server.server_close()


def healthy(**env: str) -> int:
    return subprocess.run([IMAGES / "healthy"], env=env, capture_output=True, timeout=10, check=False).returncode


def test_healthy_is_what_answers_on_every_port_that_it_is_told(answering: int) -> None:
    """A port that is closed, or that answers anything but 200, is not; what is told of no port is."""
    port = str(answering)
    assert healthy() == 0
    assert healthy(CUTWATER_PORT=port) == healthy(CUTWATER_SIGNAL_PORT=port) == 0
    assert healthy(CUTWATER_PORT=port, CUTWATER_WATCH_PORT=port) == 0
    assert healthy(CUTWATER_PORT=port, CUTWATER_WATCH_PORT="1") != 0
    assert healthy(CUTWATER_PORT=port, HEALTHY=f"{port}/elsewhere") != 0
