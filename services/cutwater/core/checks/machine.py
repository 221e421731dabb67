"""Checks of this machine: values in, findings out. `cutwater.local.machine_probes` reads the values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cutwater.core.checks.findings import Finding, error, ok, warning

MB = 1024 * 1024
PYTHON_FIRST, PYTHON_LAST = (3, 11), (3, 13)
JAVA_MIN = 17
JAVA_SPARK_MAX = 21
"""The newest Java that Spark 4.1 supports."""
SERVICE_BYTES = 300 * MB
"""The bound of commit-signal, rehydrator and the driver's Python each, which a test checks."""
BROKER_BYTES = 1_100 * MB
"""The embedded broker: 768 MB of heap, and the JVM around it."""
JVM_OVERHEAD_BYTES = 450 * MB
"""The driver's JVM beside its heap and its state: code, threads, buffers."""
FREE_BYTES_MIN = 256 * MB


@dataclass(frozen=True)
class Machine:
    python: tuple[int, int]
    java: str | None
    """The path, and how it was found; None if there is none."""
    java_version: int | None
    java_advice: str
    vector_module: bool
    """Whether that Java has jdk.incubator.vector, which Spark requests."""
    memory_free_bytes: int
    data_dir: str
    data_dir_problem: str
    """Why the data folder cannot be written; empty if it can."""
    disk_free_bytes: int
    jars_present: bool


@dataclass(frozen=True)
class Need:
    driver_heap_bytes: int
    state_bytes: int
    """RocksDB's memory."""
    embedded_broker: bool

    @property
    def disk_bytes(self) -> int:
        """Disk space at the start, for logs, checkpoint, view and broker segments. It grows with the input."""
        return 2_000 * MB if self.embedded_broker else 1_000 * MB

    @property
    def memory_bytes(self) -> int:
        broker = BROKER_BYTES if self.embedded_broker else 0
        jvm = self.driver_heap_bytes + self.state_bytes + JVM_OVERHEAD_BYTES
        return jvm + 3 * SERVICE_BYTES + broker


def check_machine(machine: Machine, need: Need) -> Iterator[Finding]:
    yield _python(machine)
    yield from _java(machine)
    yield _memory(machine, need)
    yield _disk(machine, need)
    if machine.jars_present:
        yield ok("jars", "all connectors are in the cache")
    else:
        yield warning(
            "jars",
            "not in the cache yet",
            "'cutwater up' downloads them; docs/INSTALLING.md explains offline use",
        )


def check_spark(master: str, authenticates: bool, lacks_secret: bool) -> Iterator[Finding]:
    """Check that a Spark cluster requires authentication. A local driver has no findings."""
    if master.startswith("local"):
        return
    if lacks_secret:
        yield error("Spark", f"no secret for {master}", "set CUTWATER_SPARK_SECRET; docs/SECURITY.md")
    elif not authenticates:
        yield warning(
            "Spark",
            f"CUTWATER_SPARK_AUTHENTICATE is false for {master}",
            "anyone with access to driver or executors can run code there, unless spark-defaults.conf prevents it",
        )
    else:
        yield ok("Spark", f"{master} is used with authentication and encryption")


def _python(machine: Machine) -> Finding:
    said = ".".join(map(str, machine.python))
    if PYTHON_FIRST <= machine.python <= PYTHON_LAST:
        return ok("Python", said)
    return error("Python", f"{said} runs this", "install Python 3.11, 3.12 or 3.13")


def _java(machine: Machine) -> Iterator[Finding]:
    if machine.java is None or machine.java_version is None:
        yield error("Java", machine.java_advice, f"install OpenJDK {JAVA_MIN}, or set JAVA_HOME")
        return
    said = f"{machine.java_version} ({machine.java})"
    if machine.java_version > JAVA_SPARK_MAX:
        yield warning(
            "Java",
            f"{said}: newer than Spark 4.1 supports",
            f"set JAVA_HOME to Java {JAVA_MIN} or {JAVA_SPARK_MAX}",
        )
    else:
        yield ok("Java", said)
    if machine.vector_module:
        yield ok("Java for Spark", "has jdk.incubator.vector")
    else:
        yield ok("Java for Spark", "has no jdk.incubator.vector: Spark starts without asking for it")


def _memory(machine: Machine, need: Need) -> Finding:
    free, wanted = machine.memory_free_bytes, need.memory_bytes
    said = f"{free // MB:,} MB free, {wanted // MB:,} MB needed"
    if free >= wanted:
        return ok("memory", said)
    remedy = "close other programs, or lower CUTWATER_SPARK_DRIVER_MEMORY"
    # Half of it is room for growth: a stack starts with less, and is killed later.
    return error("memory", said, remedy) if free < wanted // 2 else warning("memory", said, remedy)


def _disk(machine: Machine, need: Need) -> Finding:
    if machine.data_dir_problem:
        return error("data folder", machine.data_dir_problem, "make it writable, or set CUTWATER_DATA_DIR")
    free, wanted = machine.disk_free_bytes, need.disk_bytes
    said = f"{free // MB:,} MB free at {machine.data_dir}, {wanted // MB:,} MB needed at the start"
    if free < FREE_BYTES_MIN:
        return error("disk", said, "free some space, or set CUTWATER_DATA_DIR")
    if free < wanted:
        return warning("disk", said, "'cutwater plan' shows the growth; choose another CUTWATER_DATA_DIR")
    return ok("disk", said)
