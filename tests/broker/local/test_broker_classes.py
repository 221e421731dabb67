"""The archive of the classes that a broker loads: written once, used where it fits, and nobody needs it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.embedded_broker.classes import write_classes
from cutwater.local.java import find_java
from cutwater.local.processes.supervisor import Supervisor


def option_of(broker: Broker) -> list[str]:
    return [one for one in broker.child().argv if "SharedArchiveFile" in one]


def test_a_broker_takes_an_archive_that_exists(
    tmp_path: Path, kafka_jars: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one that is missing, nor that of another Java or of other jars, which has another name."""
    monkeypatch.setenv("CUTWATER_CACHE_DIR", str(tmp_path / "cache"))
    broker = Broker(tmp_path / "data", find_java(), kafka_jars)
    assert option_of(broker) == []
    broker.archive.parent.mkdir(parents=True)
    broker.archive.write_bytes(b"classes")
    assert option_of(broker) == [f"-XX:SharedArchiveFile={broker.archive}"]
    assert Broker(tmp_path / "other", find_java(), kafka_jars[1:]).archive != broker.archive


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False], ids=["archive", "damaged"])
def test_a_brokers_classes_come_from_the_archive(tmp_path: Path, kafka_jars: list[Path], whole: bool) -> None:
    """By the JVM's own log. A file that is no archive is passed over."""
    log = tmp_path / "classes.txt"
    broker = Broker(tmp_path / "data", find_java(), kafka_jars, options=[f"-Xlog:class+load:file={log}"])
    broker.archive = tmp_path / "classes.jsa"
    if whole:
        write_classes(broker.archive)
    else:
        broker.archive.write_bytes(b"no archive")
    with Supervisor([broker.supervised()]) as supervisor:
        supervisor.start(threading.Event())
    loaded = [one for one in log.read_text().splitlines() if "kafka" in one]
    shared = [one for one in loaded if "shared objects file (top)" in one]
    assert len(loaded) > 1_000
    assert (len(shared) > 0.8 * len(loaded)) == whole
