"""Faults of containers as commands of the docker client: what makes each, and what undoes it. Pure.

A kill is by a process inside of the container, as the kernel's would be: a container that `docker kill` has ended
is one that its operator wants ended, and docker does not restart it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cutwater.core.chaos.plan import BROKER, CUT, KILL, RESTART, STOP, Fault

PROJECT_LABEL = "com.docker.compose.project"
SERVICE_LABEL = "com.docker.compose.service"
GRACE_S = 20
"""Of a restart, as `stop_grace_period` in docker-compose.yml."""
_SERVICES = {BROKER: "kafka"}
"""Services of the compose file whose names are not those of a plan."""
_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - what docker prints, no address to listen on
Command = tuple[str, ...]
"""Arguments of `docker`."""


@dataclass(frozen=True)
class Container:
    """What docker says of one container."""

    id: str
    service: str
    running: bool
    started: str
    """The time of its newest start."""
    networks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Its names in each network."""
    ports: Mapping[int, str] = field(default_factory=dict)
    """Port of the container → host:port that it is published at."""


class Commands(NamedTuple):
    make: Sequence[Command]
    undo: Sequence[Command]


def container_of(inspected: Mapping[str, Any]) -> Container:
    """Read one element of `docker inspect`."""
    networks = inspected["NetworkSettings"]["Networks"] or {}
    published = inspected["NetworkSettings"]["Ports"] or {}
    return Container(
        id=inspected["Id"],
        service=inspected["Config"]["Labels"].get(SERVICE_LABEL, ""),
        running=inspected["State"]["Running"],
        started=inspected["State"]["StartedAt"],
        networks={name: tuple(one["Aliases"] or ()) for name, one in networks.items()},
        ports={int(port.partition("/")[0]): _place(to[0]) for port, to in published.items() if to},
    )


def _place(published: Mapping[str, str]) -> str:
    host = "127.0.0.1" if published["HostIp"] in _EVERYWHERE else published["HostIp"]
    return f"{host}:{published['HostPort']}"


def containers_for(process: str, containers: Iterable[Container]) -> list[Container]:
    """Return the running containers of a plan's process. A numbered service is one of several for it."""
    service = _SERVICES.get(process, process)
    return [one for one in containers if one.running and _is_of(one.service, service)]


def _is_of(named: str, service: str) -> bool:
    first, _, number = named.rpartition("-")
    return named == service or (first == service and number.isdigit())


def commands_for(fault: Fault, container: Container) -> Commands:
    """Return what makes the fault on a container, and what undoes it."""
    one = container.id
    if fault.kind == KILL:
        # Every process of the container's user but the first, whose end follows.
        return Commands([("exec", one, "sh", "-c", "kill -9 -1")], [])
    if fault.kind == RESTART:
        return Commands([("restart", "--time", str(GRACE_S), one)], [])
    if fault.kind == STOP:
        return Commands([("pause", one)], [("unpause", one)])
    if fault.kind == CUT:
        cut = [("network", "disconnect", "--force", name, one) for name in container.networks]
        return Commands(cut, [_connect(one, name, names) for name, names in container.networks.items()])
    raise ValueError(f"no fault of containers: {fault.kind}")


def _connect(container: str, network: str, names: Sequence[str]) -> Command:
    aliases = [word for name in names for word in ("--alias", name)]
    return ("network", "connect", *aliases, network, container)
