"""What tests of several folders share: one real broker for the whole run, and names nobody else uses."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

import journal
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.jars import jars
from cutwater.local.java import find_java
from cutwater.local.processes.supervisor import Supervisor
from seconds import Record, TimeLeft, costliest_files_first
from support.harness import Flow
from support.left_clients import LeftClients
from support.naming import unique
from support.shared_spark import SharedSpark
from tiers import QUICK, Tiers, add_options

# Every JVM of the tests lives for seconds: what the optimising compiler would do for it costs a third of all the
# CPU time, and is used by none. What users set stays.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")

# A run in the background hands down that Ctrl-C is ignored, and what is ignored stays so in all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No property is tested against the clock: the machine may be busy.
settings.register_profile("cutwater", deadline=None)
settings.register_profile(QUICK, deadline=None, max_examples=25)
settings.load_profile("cutwater")


class _AtOnce:
    """Says what has failed when it fails: a run takes long, and the end of its output may be cut off."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = " ".join(str(crash.message if crash else report.longrepr).split())[:500]
            terminal.write_line(f"\nFAILED {report.nodeid}: {why}")


class _OneSpark(LoadFileScheduling):
    """One worker has all files whose tests share a Spark session of their process: it takes long to start."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "spark" if _asks_for_spark(path) else path


@cache
def _asks_for_spark(path: str) -> bool:
    return "spark: SparkSession" in (Path(__file__).parents[1] / path).read_text(encoding="utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    return _OneSpark(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    costliest_files_first(items)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)
    journal.add_options(parser)
    parser.addoption("--record", action="store_true", help="write tests/seconds.json from this run")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Tiers(config))
    if config.getoption("--tier") == QUICK:
        settings.load_profile(QUICK)
    passed = journal.begin(config)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_AtOnce(config))
        config.pluginmanager.register(TimeLeft(config))
        if config.getoption("--record"):
            config.pluginmanager.register(Record(passed))


_left = LeftClients()


@pytest.fixture(scope="module", autouse=True)
def _no_clients_of_other_modules() -> Iterator[None]:
    yield
    _left.release()


@pytest.fixture(autouse=True)
def _few_clients() -> Iterator[None]:
    yield
    _left.collect()


@dataclass(frozen=True)
class RunningBroker:
    """The session's broker. Do not stop it: tests that break brokers start their own."""

    cluster: Cluster
    log_path: Path


@pytest.fixture(scope="session")
def kafka_jars() -> list[Path]:
    """The jars of a broker, for tests that start their own."""
    return jars("kafka")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, kafka_jars: list[Path]) -> Iterator[RunningBroker]:
    """One embedded broker for all tests; it dies with the test run, however that ends."""
    embedded = Broker(tmp_path_factory.mktemp("broker"), find_java(), kafka_jars)
    with Supervisor([embedded.supervised()]) as supervisor:
        supervisor.start(threading.Event())
        yield RunningBroker(embedded.cluster, embedded.log_path)


@pytest.fixture(scope="session")
def _shared_application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedSpark]:
    made = SharedSpark(tmp_path_factory.mktemp("spark"))
    yield made
    made.end()


@pytest.fixture
def shared_spark(_shared_application: SharedSpark) -> Iterator[None]:
    """Drivers that this test starts share a JVM. Not for tests of a JVM's life, or of two drivers of one name."""
    _shared_application.begin_test()
    Flow.shared = _shared_application
    yield
    Flow.shared = None


@pytest.fixture(name="unique", scope="session")
def _unique() -> Callable[[str], str]:
    return unique
