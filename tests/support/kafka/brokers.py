"""Several real brokers of one cluster."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.machine.ports import LOOPBACK

HEAP_MB = 256


@contextmanager
def one_cluster(
    folder: Path, jars: Sequence[Path], count: int, overrides: Mapping[str, str] | None = None
) -> Iterator[dict[int, Broker]]:
    """Brokers 1 to `count`, prepared and not running; the first is the controller, too.

    Their storage is formatted at the first start, which must come within the block: it gives them one identity.
    """
    java, identity, common = find_java(), uuid.uuid4(), dict(overrides or {})
    first = Broker(folder / "1", java, jars, heap_mb=HEAP_MB, overrides=common)
    found = {1: first}
    for number in range(2, count + 1):
        plain = Broker(folder / str(number), java, jars)
        mine = {
            "process.roles": "broker",
            "node.id": str(number),
            "controller.quorum.voters": f"1@{LOOPBACK}:{first.controller_port}",
            "listeners": f"PLAINTEXT://{LOOPBACK}:{plain.port}",
        }
        found[number] = Broker(
            plain.data_dir, java, jars, port=plain.port, overrides=common | mine, heap_mb=HEAP_MB
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cutwater.local.embedded_broker.broker.uuid", SimpleNamespace(uuid4=lambda: identity))
        yield found
