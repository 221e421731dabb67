"""On a Spark cluster a driver authenticates and encrypts: the settings, and a real master with a worker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import psutil
import pyspark
import pytest
import yaml

from cutwater.adapters.config.settings import Settings
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.local.machine.ports import LOOPBACK, free_ports
from cutwater.local.spark_runtime import spark_environment
from cutwater_spark.authentication import PROTECTED, SECRET, warn_if_open
from cutwater_spark.session import configuration
from support.harness import descendants, kill_session, wait_until
from support.views.changelogs import make_job

ROOT = Path(__file__).parents[2]
COMPOSED = yaml.safe_load((ROOT / "deploy/compose.secured.yml").read_text("utf-8"))["services"]
GIVEN = "a-secret-that-must-not-show"
REFUSED_S = 400
"""Spark asks its master three times, 20 s apart."""
PROGRAM = """
import sys
from pathlib import Path
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.config.settings import load_settings
from cutwater.core.errors import CutwaterError
from cutwater_spark.session import open_session

try:
    session = open_session(load_job(Path(sys.argv[1])), load_settings(), "/none")
except CutwaterError as error:
    print(error)
    sys.exit(error.exit_code)
print("groups", session.range(1_000).groupBy("id").count().count(), flush=True)
sys.stdin.readline()
"""


def made(tmp_path: Path, **settings: Any) -> dict[str, str]:
    return configuration(make_job(tmp_path)[0], Settings(**settings), str(tmp_path))


def test_a_cluster_is_asked_with_authentication_and_a_driver_of_one_machine_is_not(tmp_path: Path) -> None:
    """By default; the secret itself is no setting of these, which become arguments. `false` leaves it to Spark."""
    cluster = made(tmp_path, spark_master="spark://m:7077", spark_secret=GIVEN)
    assert PROTECTED.items() <= cluster.items()
    assert GIVEN not in str(cluster)
    for other in (
        made(tmp_path, spark_secret=GIVEN),
        made(tmp_path, spark_master="spark://m:7077", spark_authenticate=False),
    ):
        assert not set(PROTECTED) & set(other)


@pytest.mark.parametrize("master", ["yarn", "k8s://https://m:443"])
def test_what_makes_a_secret_by_itself_is_given_none(tmp_path: Path, master: str) -> None:
    assert PROTECTED.items() <= made(tmp_path, spark_master=master).items()


def test_a_missing_secret_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="CUTWATER_SPARK_SECRET is not set, and spark://m:7077 makes no secret"):
        made(tmp_path, spark_master="spark://m:7077")


@pytest.mark.parametrize("master", ["local[2]", "spark://m:7077"])
def test_the_ui_ends_no_stage(tmp_path: Path, master: str) -> None:
    assert made(tmp_path, spark_master=master, spark_secret=GIVEN)["spark.ui.killEnabled"] == "false"


@pytest.mark.parametrize(("master", "authenticate", "warned"), [
    ("local[*]", "false", False), ("spark://m:7077", "true", False), ("spark://m:7077", "false", True),
])  # fmt: skip
def test_a_users_own_session_that_lets_in_everybody_is_warned_of(
    master: str, authenticate: str, warned: bool
) -> None:
    said: list[str] = []
    context = SimpleNamespace(master=master, getConf=lambda: {"spark.authenticate": authenticate})
    log = SimpleNamespace(warning=lambda text, **_fields: said.append(text))
    warn_if_open(SimpleNamespace(sparkContext=context), log)  # type: ignore[arg-type]
    assert bool(said) == warned


class Cluster:
    """A master and a worker, in the environment that deploy/compose.secured.yml gives them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.ui = free_ports(2)
        self.master = f"spark://{LOOPBACK}:{self.port}"
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._daemon("master", "--port", str(self.port))
        wait_until(lambda: "New state: ALIVE" in self.log("master"), "a master")
        self._daemon("worker", "--cores", "1", "--work-dir", str(self.folder / "work"), self.master)
        wait_until(lambda: "Successfully registered" in self.log("worker"), f"a worker; {self.log('worker')}")

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text("utf-8")

    def driver(self, job_file: Path, secret: str, ui_port: int) -> subprocess.Popen[str]:
        env = {
            **os.environ,
            **spark_environment(),
            "SPARK_LOCAL_IP": LOOPBACK,
            "CUTWATER_SPARK_MASTER": self.master,
            "CUTWATER_SPARK_SECRET": secret,
            "CUTWATER_SPARK_UI_PORT": str(ui_port),
            "CUTWATER_SPARK_DRIVER_MEMORY": "600m",
        }
        command = [sys.executable, "-c", PROGRAM, str(job_file)]
        stdin = subprocess.PIPE if ui_port else subprocess.DEVNULL  # who is looked at stays until told
        pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "text": True, "start_new_session": True}
        driver: subprocess.Popen[str] = subprocess.Popen(command, env=env, **pipes)  # type: ignore[call-overload]
        self._running.append(driver)  # type: ignore[arg-type]
        return driver

    def close(self) -> None:
        for process in self._running:
            kill_session(process.pid)
            process.wait(30)

    def _daemon(self, kind: str, *arguments: str) -> None:
        given = COMPOSED["spark-master" if kind == "master" else "spark-worker-1"]["environment"]
        env = {
            **os.environ,
            **spark_environment(),
            **{name: re.sub(r"\$\{SPARK_SECRET:\?[^}]*\}", GIVEN, value) for name, value in given.items()},
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        program = Path(pyspark.__file__).parent / "bin/spark-class"
        name = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
        command = [program, name, "--host", LOOPBACK, "--webui-port", "0", *arguments]
        with (self.folder / f"{kind}.log").open("wb") as log:
            process = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
        self._running.append(process)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    one = Cluster(tmp_path)
    try:
        one.start()
        yield one
    finally:
        one.close()


@pytest.mark.slow
@pytest.mark.spark
def test_who_has_the_secret_is_let_in_and_nobody_sees_it(cluster: Cluster, tmp_path: Path) -> None:
    """A driver with it has its query run; one with another secret ends with exit code 4, naming the setting.

    While it runs no argument of any process holds the secret, nor does the Spark UI.
    """
    job_file = make_job(tmp_path)[1]
    stranger = cluster.driver(job_file, "another-secret", 0)
    driver = cluster.driver(job_file, GIVEN, cluster.ui)
    assert driver.stdout is not None
    assert driver.stdout.readline() == "groups 1000\n"
    lines = {one.pid: " ".join(one.cmdline()) for one in descendants(os.getpid())}
    executors = [pid for pid, line in lines.items() if "CoarseGrainedExecutorBackend" in line]
    assert executors, lines
    assert [line for line in lines.values() if GIVEN in line] == []
    assert GIVEN in psutil.Process(executors[0]).environ().values(), "by environment, from its worker"
    shown = environment_shown(cluster.ui)
    assert shown[SECRET] == "*********(redacted)"
    assert (shown["spark.network.crypto.enabled"], shown["spark.io.encryption.enabled"]) == ("true", "true")
    driver.communicate("\n", timeout=120)
    said, _ = stranger.communicate(timeout=REFUSED_S)
    assert stranger.returncode == UnavailableError.exit_code
    assert "CUTWATER_SPARK_SECRET" in said
    assert "groups" not in said


def environment_shown(port: int) -> dict[str, str]:
    """What the UI tells of a driver's settings; no page of it holds the secret."""
    url = f"http://{LOOPBACK}:{port}"
    rest = f"{url}/api/v1/applications"
    application = httpx.get(rest, timeout=60).json()[0]["id"]
    told = httpx.get(f"{rest}/{application}/environment", timeout=60)
    assert GIVEN not in told.text + httpx.get(f"{url}/environment/", timeout=60).text
    return dict(told.json()["sparkProperties"])
