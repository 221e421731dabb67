"""Faults of containers: the commands, against a model of docker that knows networks, pauses and ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.chaos.containers import Command, Container, commands_for, container_of, containers_for
from cutwater.core.chaos.plan import CUT, KILL, OF_COMPOSE, RESTART, STOP, Fault

NAMES = st.dictionaries(st.sampled_from(["p_default", "p_spark"]), st.lists(st.sampled_from("abc"), unique=True))


class Docker:
    """One container, as docker would have it after each command."""

    def __init__(self, container: Container) -> None:
        self.networks = {name: set(names) for name, names in container.networks.items()}
        self.paused, self.starts, self.killed = False, 1, False

    def run(self, command: Command) -> None:
        match command:
            case ("network", "disconnect", "--force", name, _):
                del self.networks[name]
            case ("network", "connect", *words, name, _):
                assert name not in self.networks
                self.networks[name] = set(words[1::2])
            case ("pause", _):
                self.paused = True
            case ("unpause", _):
                self.paused = False
            case ("restart", "--time", _, _):
                self.starts += 1
            case ("exec", _, "sh", "-c", "kill -9 -1"):
                self.killed = True
            case _:
                raise AssertionError(command)


@given(NAMES, st.sampled_from(OF_COMPOSE))
def test_what_is_made_is_undone(networks: dict[str, list[str]], kind: str) -> None:
    container = Container("c1", "driver", True, "then", networks)
    docker, commands = Docker(container), commands_for(Fault(kind, "driver", 0, 5), container)
    for one in commands.make:
        docker.run(one)
    seen = {KILL: docker.killed, RESTART: docker.starts == 2, STOP: docker.paused, CUT: not docker.networks}
    assert [name for name, on in seen.items() if on and (name != CUT or networks)] == (
        [kind] if kind != CUT or networks else []
    )
    for one in commands.undo:
        docker.run(one)
    assert not docker.paused
    assert docker.networks == {name: set(names) for name, names in networks.items()}


def made(service: str, running: bool = True) -> Container:
    return Container(service, service, running, "then")


@pytest.mark.parametrize(
    ("process", "found"),
    [
        ("rehydrator", ["rehydrator-1", "rehydrator-12"]),
        ("driver", ["driver"]),
        ("broker", ["kafka"]),
        ("watch", []),
        ("commit-signal", ["commit-signal"]),
    ],
)
def test_a_process_is_found_by_its_service(process: str, found: list[str]) -> None:
    services = [
        "rehydrator-1",
        "rehydrator-12",
        "rehydrator-old",
        "driver",
        "kafka",
        "commit-signal",
        "spark-worker-1",
    ]
    containers = [*map(made, services), made("watch", running=False)]
    assert [one.service for one in containers_for(process, containers)] == found


def inspected(ports: Any) -> dict[str, Any]:
    """As `docker inspect` prints it, as far as it is read."""
    return {
        "Id": "4f",
        "State": {"Running": True, "StartedAt": "2026-01-01T00:00:00Z"},
        "Config": {"Labels": {"com.docker.compose.service": "kafka", "com.docker.compose.project": "p"}},
        "NetworkSettings": {"Networks": {"p_default": {"Aliases": ["kafka", "4f"]}}, "Ports": ports},
    }


def test_what_docker_says_is_read() -> None:
    places = [{"HostIp": "0.0.0.0", "HostPort": "19094"}, {"HostIp": "::", "HostPort": "19094"}]
    one = container_of(inspected({"9092/tcp": None, "9094/tcp": places}))
    assert (one.service, one.running, one.ports) == ("kafka", True, {9094: "127.0.0.1:19094"})
    assert one.networks == {"p_default": ("kafka", "4f")}
    assert container_of(inspected(None)).ports == {}


def test_a_fault_that_containers_do_not_have_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="full_disk"):
        commands_for(Fault("full_disk", "driver", 0, 5), made("driver"))
