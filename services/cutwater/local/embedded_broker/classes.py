"""The archive of the classes that a broker loads: with it a broker answers after two seconds instead of four.

`python -m cutwater.local.embedded_broker.classes` writes it into the cache. It runs a broker in a temporary
folder, with a transaction as Cutwater's services make them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from pathlib import Path

from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.core.errors import CutwaterError, MachineError
from cutwater.core.protocol.topics import TopicSpec
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.jars import jars
from cutwater.local.java import find_java
from cutwater.local.processes.class_archives import SILENT
from cutwater.local.processes.supervisor import Supervised, Supervisor

STOP_SECONDS_MAX = 120.0
TOPIC = "classes"


def write_classes(archive: Path | None = None) -> None:
    """Write the archive, by default where `Broker` looks for it. Raise MachineError if Java writes none."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "fresh.jsa"
        options = (f"-XX:ArchiveClassesAtExit={fresh}", *SILENT)
        broker = Broker(Path(folder) / "broker", find_java(), jars("kafka"), options=options)
        archive, broker.archive = archive or broker.archive, fresh  # Java writes none while it uses one
        with Supervisor([Supervised(broker.child(), broker.ready, grace_seconds=STOP_SECONDS_MAX)]) as supervisor:
            supervisor.start(threading.Event())
            ensure_topics(broker.cluster, [TopicSpec(TOPIC, 4, ())])
            writer = TransactionalWriter(broker.cluster, TOPIC)
            writer.initialise()
            writer.write(TOPIC, [b"value"])
        if not fresh.is_file():
            raise MachineError(f"Java wrote no archive of the broker's classes to {fresh}")
        _publish(fresh, archive)


def _publish(fresh: Path, archive: Path) -> None:
    """Move the file, perhaps from another file system; nobody sees a part of it."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    copied = archive.with_suffix(f".{os.getpid()}.fresh")
    try:
        copied.write_bytes(fresh.read_bytes())
        copied.replace(archive)
    finally:
        copied.unlink(missing_ok=True)


if __name__ == "__main__":
    try:
        write_classes(Path(sys.argv[1]).absolute() if sys.argv[1:] else None)
    except CutwaterError as error:
        sys.exit(f"error: {error}")
