"""A job that an older Spark has run and stopped: its broker's folder, its checkpoint and its job file, packed.

`python -m support.old_spark` writes the archive of the Spark that is installed. It was run once, under 4.1.1.
"""

from __future__ import annotations

import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.jars import jars
from cutwater.local.java import find_java
from cutwater.local.machine.ports import free_ports
from cutwater.local.processes.supervisor import Supervisor
from support.events.all_measures import DECLARED, MEASURES, SCHEMA, events, job_text
from support.harness import Flow

FOLDER = Path(__file__).parents[1] / "golden"
LEFT_OUT = (".lock", "broker.log", "server.properties", "format.properties")
FIRST = 1_500
"""So many of the events were read under the old Spark."""
_NEW = ("variance", "stddev", "derived")
OLD_MEASURES = [one for one in MEASURES if one not in DECLARED and not one.startswith(_NEW)]
"""Those of the archive's job."""


@contextmanager
def old_job(folder: Path) -> Iterator[Flow]:
    """The job on its own broker in `folder`, which may be empty; whatever it starts is gone afterwards."""
    (folder / "job").mkdir(parents=True, exist_ok=True)
    (folder / "job/job.yaml").write_text(job_text("old", "sliding", OLD_MEASURES), encoding="utf-8")
    (folder / "job/event.avsc").write_text(SCHEMA, encoding="utf-8")
    port, controller_port = free_ports(2)
    broker = Broker(folder / "broker", find_java(), jars("kafka"), port=port, controller_port=controller_port)
    with Supervisor([broker.supervised()]) as supervisor:
        supervisor.start(threading.Event())
        job = Flow(broker.cluster, folder / "job/job.yaml", folder / "job")
        try:
            yield job
        finally:
            job.close()


def write_archive(archive: Path) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with old_job(folder) as job:
            job.produce(events()[:FIRST])
            job.signal()
            driver = job.driver()
            job.wait_committed()
            driver.terminate()
            assert driver.wait(60) == 0
        with tarfile.open(archive, "w:xz") as tar:
            tar.add(folder, ".", filter=_kept)


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Nothing of this machine: no logs of processes, no locks, no paths, no owner."""
    path = Path(member.name)
    if path.name in LEFT_OUT or (path.suffix == ".log" and path.parent.name in ("job", "logs")):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def extract(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")


if __name__ == "__main__":
    target = FOLDER / f"spark-{version('pyspark')}.tar.xz"
    write_archive(target)
    print(target, f"{target.stat().st_size:,} bytes")
