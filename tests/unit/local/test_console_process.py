"""The console beside a stack: its port, its process, and what `up` says of it."""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from cutwater.adapters.config.settings import Settings
from cutwater.cli.main import app
from cutwater.cli.stack import up
from cutwater.core.errors import MachineError
from cutwater.local import running_file
from cutwater.local.console_process import PORT, console_process
from cutwater.local.machine.ports import is_free
from support.cli.verb_records import JOB_FILE, STACK
from support.console.sample_job import PLAIN, TOKENS, with_roles
from support.harness import wait_until


def test_it_serves_the_stack_with_the_roles_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of its own, which asks for the token, and ends on SIGTERM; no token is among its arguments."""
    monkeypatch.delenv("CUTWATER_TOKENS", raising=False)
    settings = with_roles(data_dir=tmp_path)
    made = console_process(settings, tmp_path)
    child = made.member.child
    assert not made.member.essential
    said = " ".join(child.argv)
    assert not [one for one in (*TOKENS.values(), PLAIN, settings.tokens.get_secret_value()) if one in said]
    (tmp_path / "logs").mkdir()
    child.start()
    url = running_file.console_of(tmp_path)
    try:
        wait_until(lambda: _answers(url), "the console")
        assert httpx.get(f"{url}api/jobs").status_code == 401
        headers = {"authorization": f"Bearer {TOKENS['operator']}"}
        assert httpx.get(f"{url}api/access", headers=headers).json()["role"] == "operator"
        os.kill(child.pid or 0, signal.SIGTERM)
        wait_until(lambda: child.poll() == 0, "its end")
    finally:
        child.stop(1.0)
    assert url in made.log.read_text()
    assert not [one for one in (*TOKENS.values(), PLAIN) if one in made.log.read_text()]


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}healthz").status_code == 200
    except httpx.HTTPError:
        return False


def port_of(settings: Settings, folder: Path) -> int:
    argv = console_process(settings, folder).member.child.argv
    return int(argv[argv.index("--port") + 1])


def test_its_port_is_the_usual_one_if_that_is_free(tmp_path: Path) -> None:
    """Else a free one; a port of the settings must be free."""
    if is_free(PORT):
        assert port_of(Settings(), tmp_path) == PORT
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", PORT if is_free(PORT) else 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        if port == PORT:
            assert port_of(Settings(), tmp_path) != PORT
        with pytest.raises(MachineError, match="CUTWATER_CONSOLE_PORT"):
            console_process(Settings(console_port=port), tmp_path)


@pytest.mark.parametrize("words", [[], ["--no-console"]])
def test_up_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    """And passes on that there is to be none."""
    passed: list[list[str]] = []
    url = "http://127.0.0.1:8330/"
    running_file.write_console(tmp_path, url)  # of an earlier start, if there is none now
    running = STACK if words else replace(STACK, logs={**STACK.logs, "console": "/nowhere/console.log"})

    def started(_files: object, _settings: object, _brokers: object, options: list[str]) -> list[object]:
        passed.append(options)
        return [running]

    monkeypatch.setattr(up, "_start_detached", started)
    done = CliRunner().invoke(app, ["up", str(JOB_FILE), "--detach", "--data-dir", str(tmp_path), *words])
    assert done.exit_code == 0, done.output
    assert passed == [words]
    assert (url in done.stdout) == (not words)
