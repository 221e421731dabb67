"""`cutwater incident` with secrets in settings, variables, URLs and logs: none of them is in the file."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka import client
from cutwater.cli.main import app
from cutwater.cli.stack import incident_parts
from cutwater.core.errors import UnavailableError
from cutwater.local.running_file import RunningStack
from support.cli.verb_records import JOB_FILE, STACK

OF_SETTINGS = [name for name, field in Settings.model_fields.items() if field.annotation is SecretStr]
ROLE = "me:viewer:"
OTHERS = {
    "AWS_SECRET_ACCESS_KEY": "hidden-aws/secret+access",
    "MY_DATABASE_PASSWORD": 'hidden "database" password',
    "HTTPS_PROXY": "http://me:hidden-proxy-password@proxy:3128",
    "CUTWATER_OTLP_URL": "http://me:hidden-otlp-password@collector:4318",
}


def secret_of(name: str) -> str:
    """A value that the setting accepts: tokens and keys have rules of their own."""
    plain = f"hidden-{name}-" + "0123456789abcdefghijklmnopqrstuvwxyz"
    if name == "tokens":
        return f"{ROLE}{hashlib.sha256(plain.encode()).hexdigest()}"
    return f"us={plain}" if name == "region_tokens" else plain


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stack that has ended on a folder with logs, and no broker that answers."""
    for name in [name for name in os.environ if name.startswith("CUTWATER_")]:
        monkeypatch.delenv(name)
    for name in OF_SETTINGS:
        monkeypatch.setenv(f"CUTWATER_{name.upper()}", secret_of(name))
    monkeypatch.setenv("CUTWATER_ALERT_WEBHOOK_URL", "https://hooks.example.com/services/hidden-hook-path")
    for name, value in OTHERS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CUTWATER_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(incident_parts, "BROKERS_S", 0.2)
    monkeypatch.setattr(client, "TIMEOUT_S", 0.2)
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "driver.log").write_text("\n".join(written_everywhere()))
    replace(STACK, data_dir=str(tmp_path), logs={}, bootstrap_servers="127.0.0.1:9", pid=1, started=0.0).write()
    return tmp_path


def hidden() -> list[str]:
    named = [secret_of(one) for one in OF_SETTINGS if one != "alert_webhook_url"]
    of_settings = [one.removeprefix("us=").removeprefix(ROLE) for one in named]
    return [
        *of_settings,
        *("hidden-aws/secret+access", 'hidden "database" password', "hidden-proxy-password"),
        *("hidden-otlp-password", "hidden-hook-path"),
    ]


def written_everywhere() -> list[str]:
    """Each secret in each form that a log has it in."""
    found = []
    for one in hidden():
        found += [f"failed with {one}", f"GET /x?a={quote(one, safe='')}&b=1", json.dumps({"said": one})]
        found += [repr({"said": one}), f"Authorization: Basic {base64.b64encode(f'me:{one}'.encode()).decode()}"]
        found += [f"at https://me:{quote(one, safe='')}@host/path", base64.b64encode(one.encode()).decode()]
    return found


def traces(text: str) -> list[str]:
    """What of a secret is in a text: it, or a form of it."""
    forms = {one: {one, quote(one, safe=""), json.dumps(one)[1:-1]} for one in hidden()}
    encoded = {
        one: {base64.b64encode(f"{user}{one}".encode()).decode() for user in ("", "me:")} for one in hidden()
    }
    return [one for one in hidden() if any(form in text for form in forms[one] | encoded[one])]


def run(folder: Path, *options: str) -> tuple[dict[str, Any], dict[str, str]]:
    """What the verb prints as JSON, and the file's members."""
    file = folder / "incident.zip"
    done = CliRunner().invoke(
        app, ["incident", str(JOB_FILE), "--out", str(file), "--json", *options], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    assert traces(done.output) == []
    with zipfile.ZipFile(file) as archive:
        return json.loads(done.stdout), {one: archive.read(one).decode() for one in archive.namelist()}


def test_no_secret_is_in_the_file(world: Path) -> None:
    """Nor in what is printed; all other words of the log are there."""
    told, members = run(world)
    for name, text in members.items():
        assert traces(text) == [], name
        assert "hidden" not in text.replace("hidden=", ""), name
    assert members["logs/driver.log"].count("failed with") == len(hidden())
    assert {one["name"] for one in told["parts"] if not one["problem"]} >= {
        *("versions.json", "settings.json", "job.yaml", "stack.json", "doctor.json", "logs/driver.log"),
    }


def test_what_needs_the_stack_or_its_brokers_is_named(world: Path) -> None:
    """With the reason, and each of them."""
    told, members = run(world)
    missing = {one["name"]: one["problem"] for one in told["parts"] if one["problem"]}
    assert set(missing) == {
        *("processes.json", "status.json", "alerts.json", "history.json", "milestones.json"),
        *("metrics/rehydrator.txt", "metrics/watch.txt"),
    }
    assert all(missing.values())
    assert "127.0.0.1:9" in missing["alerts.json"]
    assert json.loads(members["contents.json"])["parts"] == told["parts"]
    assert told["complete"] is False


def test_the_stacks_own_secrets_are_known(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack was started with other variables than this command: its secrets are in its logs."""
    (world / "logs" / "up.log").write_text("failed with of-the-stack-alone")
    monkeypatch.setattr(RunningStack, "alive", True)
    monkeypatch.setattr(psutil, "Process", lambda _pid: _Process({"CUTWATER_API_TOKEN": "of-the-stack-alone"}))
    _, members = run(world)
    assert "of-the-stack-alone" not in members["logs/up.log"]
    assert "failed with" in members["logs/up.log"]


class _Process:
    def __init__(self, variables: dict[str, str]) -> None:
        self._variables = variables

    def environ(self) -> dict[str, str]:
        return self._variables

    def children(self, recursive: bool) -> list[psutil.Process]:
        return []

    def as_dict(self, _wanted: list[str]) -> dict[str, Any]:
        raise psutil.NoSuchProcess(1)


def test_without_a_job_it_says_what_to_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTWATER_DATA_DIR", str(tmp_path))
    done = CliRunner().invoke(app, ["incident"])
    assert done.exit_code == 2
    assert "name the job file" in done.output


def test_brokers_are_asked_once(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part that needs them would wait as long again."""
    asked: list[float] = []

    def ask(_cluster: Any, seconds: float) -> None:
        asked.append(seconds)
        raise UnavailableError("no broker answers")

    monkeypatch.setattr(incident_parts, "ask", ask)
    run(world)
    assert len(asked) == 1
