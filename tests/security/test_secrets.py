"""A whole stack with known secrets: none of them in a file, an argument, a page or an answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from archives import texts

from cutwater.adapters.config.settings import environment, load_settings
from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.topics.commit_stream import milestones, source_end
from cutwater.local import running_file
from cutwater.local.embedded_broker.security import BrokerSecurity
from cutwater.local.stack.stack import Stack
from cutwater.local.stack.stack_lifecycle import start_stack
from support.events import counting
from support.harness import descendants, wait_until
from support.kafka.certificates import Authority

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PASSWORD = "pass-word-that-must-not-show"
KEY_PASSWORD = "key-password-that-must-not-show"
TOKEN = "token-that-must-not-show"
SNAPSHOT_KEY = "snapshot-key-that-must-not-be-shown"
EVENTS = counting.events(1_000)
SHOWN = (
    "kafka.sasl.jaas.config=*********(redacted)",
    "kafka.ssl.key.password=*********(redacted)",
    "kafka.ssl.keystore.key=${directory:",
)
"""Options of the Kafka source, as a plan has them. `test_client_config` has the places that Java gets."""
UI_PAGES = ("/environment/", "/StreamingQuery/", "/SQL/", "/executors/")


class Safe:
    """A running stack on a broker with TLS, certificates on both sides and users."""

    def __init__(self, stack: Stack, found: running_file.RunningStack, tls: Path) -> None:
        self.stack = stack
        self.found = found
        security = stack.cluster.security
        key = Path(security.key_file).read_text(encoding="utf-8").splitlines()[1:-1]
        self.secrets = {PASSWORD, TOKEN, KEY_PASSWORD, SNAPSHOT_KEY, *key}
        self.env = {**os.environ, **environment(stack.cluster), "CUTWATER_API_TOKEN": TOKEN}
        self.env |= {"CUTWATER_DATA_DIR": found.data_dir, "COLUMNS": "200"}

    def leaks(self, text: str) -> list[str]:
        return [secret for secret in self.secrets if secret in text]

    def cli(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cutwater.cli.main", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=200, env={**self.env, **env}, check=False
        )

    def shows_all(self) -> bool:
        cluster, job = self.stack.cluster, self.stack.job
        found = milestones(cluster, job.name, limit=1)
        if not found or not found[0][0].source_cut.covers(source_end(cluster, job.topic)):
            return False
        answer = httpx.get(f"{self.found.api_url}/v1/milestone", headers=self.stack.api_headers, timeout=10)
        return bool(answer.json().get("token") == str(found[0][0].token))


@pytest.fixture(scope="module")
def safe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Safe]:
    folder = tmp_path_factory.mktemp("safe")
    (folder / "job.yaml").write_text(counting.job_text("safe"))
    (folder / "event.avsc").write_text(counting.SCHEMA)
    authority = Authority(folder / "tls")
    shown = authority.issue("client", KEY_PASSWORD)
    security = BrokerSecurity(
        *("SASL_SSL", authority.ca_file, authority.issue("broker")), {"cutwater": PASSWORD}, shown, KEY_PASSWORD
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUTWATER_DATA_DIR", str(folder / "data"))
        patch.setenv("CUTWATER_API_TOKEN", TOKEN)
        patch.setenv("CUTWATER_SNAPSHOT_KEY", SNAPSHOT_KEY)
        settings = load_settings()
    stack = Stack(folder / "job.yaml", settings, print, security=security)
    with start_stack(stack, threading.Event()) as found:
        assert found is not None
        made = Safe(stack, found, folder / "tls")
        EventWriter(stack.cluster, stack.job).write_all(EVENTS)
        wait_until(made.shows_all, "all events in the view")
        yield made


def test_the_command_line_reaches_a_secured_stack(safe: Safe) -> None:
    """With the environment of the stack every verb works; `status` and `get` show the token to the API."""
    status = json.loads(safe.cli("status", "--json").stdout)
    assert status["view"]["token"] == status["milestone"]["token"]
    got = safe.cli("get", "k7", "--json", "--limit", "100")
    expected = [row for (key, _), row in counting.expected(EVENTS).items() if key == "k7"]
    assert len(json.loads(got.stdout)["rows"]) == len(expected)
    assert safe.cli("milestones", "--check").returncode == 0
    assert safe.leaks(json.dumps(status) + got.stdout + got.stderr) == []


def test_without_the_secrets_nobody_is_let_in(safe: Safe) -> None:
    """No token: 401 from the API, exit code 2 and the setting's name from `get`; no user: the variables' names."""
    assert httpx.get(f"{safe.found.api_url}/v1/state", timeout=10).status_code == 401
    done = safe.cli("get", "k7", CUTWATER_API_TOKEN="")
    assert done.returncode == 2
    assert "CUTWATER_API_TOKEN" in done.stderr
    done = safe.cli("status", CUTWATER_KAFKA_SECURITY_PROTOCOL="PLAINTEXT")
    assert done.returncode == 2
    assert "CUTWATER_KAFKA_" in done.stderr


def test_no_secret_is_in_any_file_of_the_stack(safe: Safe) -> None:
    """Logs, stack.json, checkpoint, state, the broker's files: all written by the stack, none with a secret."""
    files = [path for path in Path(safe.found.data_dir).rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"stack.json", "server.properties", "driver.log", "rehydrator.log"} <= names
    found = {str(path): leak for path in files for text in texts(path.read_bytes()) if (leak := safe.leaks(text))}
    assert found == {}


def test_no_secret_is_in_the_arguments_of_any_process(safe: Safe) -> None:
    """Anybody on the machine can read a process's arguments; they reach children by environment only."""
    processes = descendants(os.getpid())
    lines = [" ".join(_cmdline(one)) for one in processes]
    for part in ("kafka.Kafka", "cutwater.commit_signal", "cutwater.rehydrator", "cutwater_spark.driver", "spark"):
        assert any(part in line for line in lines), part
    assert safe.leaks("\n".join(lines)) == []
    holders = [one for one in processes if PASSWORD in _environ(one).values()]
    assert len(holders) >= 4, "commit-signal, rehydrator, driver and its JVM"
    assert len([one for one in holders if SNAPSHOT_KEY in _environ(one).values()]) >= 4, "the same"


def test_spark_shows_no_secret(safe: Safe) -> None:
    """Plans hold the options of the Kafka source and sink: pages and REST API of the UI show no secret of them."""
    url = safe.found.spark_ui_url
    application = httpx.get(f"{url}/api/v1/applications", timeout=30).json()[0]["id"]
    rest = f"/api/v1/applications/{application}"
    plans = httpx.get(f"{url}{rest}/sql?length=5", timeout=30).json()
    executions = [int(one["id"]) for one in plans]
    assert executions, "an epoch's plan is shown"
    pages = [*UI_PAGES, f"{rest}/environment", f"{rest}/sql?details=true"]
    pages += [f"/SQL/execution/?id={number}" for number in executions]
    texts = {page: httpx.get(f"{url}{page}", timeout=60).text for page in pages}
    assert {page: safe.leaks(text) for page, text in texts.items() if safe.leaks(text)} == {}


def test_spark_plans_show_no_secret(safe: Safe) -> None:
    """A plan shows every option of the Kafka source: passwords hidden, and of the key only its place."""
    script = (
        "import sys; from pathlib import Path; from cutwater.adapters.job_files.loader import load_job; "
        "from cutwater.adapters.config.settings import load_settings; "
        "from cutwater_spark.query.query import read_events; from cutwater_spark.session import open_session; "
        "settings, job = load_settings(), load_job(Path(sys.argv[1])); "
        "spark = open_session(job, settings, '/none'); "
        "spark.conf.set('spark.sql.maxMetadataStringLength', 100_000); "
        "read_events(spark, job, settings.cluster).explain(True)"
    )
    driver = next(one for one in descendants(os.getpid(), "cutwater_spark.driver") if one.name() != "java")
    env = {**driver.environ(), "CUTWATER_SPARK_UI_PORT": "0", "CUTWATER_DATA_DIR": "/none"}
    command = [sys.executable, "-c", script, safe.found.job_file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=env, check=True)
    for shown in SHOWN:
        assert shown in done.stdout, done.stdout
    assert safe.leaks(done.stdout + done.stderr) == []


def test_the_spark_ui_is_for_this_machine_only(safe: Safe) -> None:
    """Of a stack on one machine nothing listens to the network: neither UI, nor API, nor broker."""
    addresses = {
        one.laddr.ip
        for process in descendants(os.getpid())
        for one in _connections(process)
        if one.status == psutil.CONN_LISTEN
    }
    assert addresses
    assert {one for one in addresses if one.removeprefix("::ffff:") not in ("127.0.0.1", "::1")} == set()


def _cmdline(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _environ(process: psutil.Process) -> dict[str, str]:
    try:
        return dict(process.environ())
    except psutil.Error:
        return {}


def _connections(process: psutil.Process) -> list[Any]:
    try:
        return list(process.net_connections())
    except psutil.Error:
        return []
