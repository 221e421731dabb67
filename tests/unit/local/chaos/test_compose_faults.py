"""Faults of containers, by a program that stands in for the docker client: what was made is undone."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from cutwater.core.chaos.plan import STOP, ChaosPlan, Fault
from cutwater.core.errors import UnavailableError
from cutwater.local.chaos.compose_project import ComposeProject
from cutwater.local.chaos.span import Span

DOCKER = """#!/bin/sh
echo "$*" >> "{folder}/said"
case "$1" in
  ps) printf 'kafka-1\\nkafka-2\\nkafka-3\\n' ;;
  inspect) cat "{folder}/inspected" ;;
esac
if [ "$*" = "{fails}" ]; then echo "Container $2 is not running" >&2; exit 1; fi
"""
"""Writes down what it is asked, and fails at one command."""


def containers() -> str:
    return json.dumps(
        [
            {
                "Id": f"kafka-{number}",
                "Config": {"Labels": {"com.docker.compose.service": f"kafka-{number}"}},
                "State": {"Running": True, "StartedAt": "2026-01-01T00:00:00Z"},
                "NetworkSettings": {"Networks": {}, "Ports": {}},
            }
            for number in (1, 2, 3)
        ]
    )


@pytest.mark.parametrize(
    ("fails", "undone"),
    [
        ("unpause kafka-1", ["unpause kafka-1", "unpause kafka-2", "unpause kafka-3"]),
        ("pause kafka-3", ["unpause kafka-1", "unpause kafka-2", "unpause kafka-3"]),
        ("pause kafka-2", ["unpause kafka-1", "unpause kafka-2"]),
    ],
)
def test_a_command_that_fails_leaves_no_other_container_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, undone: list[str]
) -> None:
    """A container that ended while it was paused cannot go on; the others must."""
    docker = tmp_path / "docker"
    docker.write_text(DOCKER.format(folder=tmp_path, fails=fails))
    docker.chmod(0o700)
    (tmp_path / "inspected").write_text(containers())
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    fault = Fault(STOP, "broker", 0, 0.1)
    make = ComposeProject("some").faults(ChaosPlan(1, 1, 1, [fault]))
    with pytest.raises(UnavailableError, match=f"docker {fails} failed"):
        make(fault, Span(time.monotonic() + 0.1, threading.Event()))
    said = (tmp_path / "said").read_text().splitlines()
    assert sorted(one for one in said if one.startswith("unpause")) == undone
