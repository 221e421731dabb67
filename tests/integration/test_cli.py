"""The command line against a stack that it started itself: every verb, its JSON and its errors."""

from __future__ import annotations

import json
import socket
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import MachineError
from cutwater.views.store.folders import folder_of
from cutwater.views.store.key_layout import Window, storage_key
from cutwater.views.store.store import Store
from support.cli.commandline import Cli
from support.cli.jsonshapes import parsed, parsed_lines
from support.events import counting
from support.harness import GENERATION, descendants, wait_until

EVENTS = counting.events(1_000)
SERVICE_BYTES_MAX = 300 * 1024 * 1024


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A running stack of the counting job with 1,000 events, all committed and shown."""
    folder = tmp_path_factory.mktemp("cli")
    values = "  values: {measure: distinct, field: value, sketch: theta}\n"
    (folder / "job.yaml").write_text(counting.job_text("counts") + values)
    (folder / "event.avsc").write_text(counting.SCHEMA)
    lines = [json.dumps({**one, "at": _iso(one["at"])}) for one in EVENTS]
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n")
    made = Cli(folder)
    done = made.run("up", made.job_file, "--detach")
    assert done.returncode == 0, done.stderr
    for where in ("Kafka", "API", "Spark UI", "log of driver"):
        assert where in done.stdout
    try:
        produced = made.json("produce", str(folder / "events.jsonl"))
        assert produced == {"topic": "counts.events", "delivered": len(EVENTS)}
        wait_until(lambda: made.events_shown() == len(EVENTS), "all events in the view")
        yield made
    finally:
        made.run("down")


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def _opened(cli: Cli) -> Store | None:
    """The store of the view, once nobody has it open."""
    job = load_job(Path(cli.job_file))
    try:
        return Store(folder_of(cli.folder / "data", job.name, GENERATION), job, GENERATION)
    except MachineError:
        return None


def _values(key: str, start: int | None = None) -> set[int]:
    """The different values of a key's events, of one window or of all."""
    return {
        one["value"] for one in EVENTS if one["key"] == key and start in (None, one["at"] - one["at"] % 60_000)
    }


def _expected() -> dict[tuple[str, int], dict[str, Any]]:
    rows = counting.expected(EVENTS)
    return {(key, start): {**row, "values": len(_values(key, start))} for (key, start), row in rows.items()}


def test_get_shows_the_windows_of_a_key(cli: Cli) -> None:
    """`get` serves exactly the rows that an independent computation gives for the key."""
    answer = cli.json("get", "k7", "--limit", "100")
    expected = {start: row for (key, start), row in _expected().items() if key == "k7"}
    served = {
        round(datetime.fromisoformat(row["window_start"]).timestamp() * 1000): {
            "ticks": row["ticks"],
            "total": row["total"],
            "values": row["values"],
        }
        for row in answer["rows"]
    }
    assert served == expected
    assert answer["milestone"]["token"].startswith("g1-local-00000000:")


def test_milestones_are_contiguous_and_chained(cli: Cli) -> None:
    """`milestones --json` names sequence, hash and parent: each parent is the hash before; --check agrees."""
    stream = cli.json("milestones", "--limit", "1000")
    assert [one["sequence"] for one in stream] == list(range(1, len(stream) + 1))
    assert all(one["parent_hash"] == before["hash"] for before, one in pairwise(stream))
    done = cli.run("milestones", "--check")
    assert done.returncode == 0
    assert "contiguous, chained, equal to their barriers, and nothing is lost" in done.stdout


@pytest.mark.slow
def test_verify_finds_all_places_equal(cli: Cli) -> None:
    """Changelog, view, Spark's own state and output at the newest milestone, while the stack runs."""
    told = cli.json("verify", "--state")
    assert {one["place"]: (one["verdict"], one["reason"]) for one in told["places"]} == dict.fromkeys(
        ("changelog", "view", "state", "output"), ("equal", "")
    )
    assert told["places"][0]["found"]["rows"] == len(counting.expected(EVENTS))
    assert all(one["found"] == one["expected"] for one in told["places"])
    assert (told["next_steps"], told["repair"]) == ([], None)
    assert cli.run("verify", "--place", "disk").returncode == 2


@pytest.mark.slow
def test_verify_starts_no_spark_where_its_state_is_not_asked_for(cli: Cli) -> None:
    """With a PATH and settings with which no Spark process could begin, three places are compared all the same."""
    told = parsed(
        ["verify"], cli.run("verify", "--json", JAVA_HOME="/nowhere", CUTWATER_SPARK_JARS="/none").stdout
    )
    assert {one["place"]: one["verdict"] for one in told["places"]} == dict.fromkeys(
        ("changelog", "view", "output"), "equal"
    )


@pytest.mark.slow
def test_a_wrong_view_is_named_and_built_anew(cli: Cli) -> None:
    """A row is changed in RocksDB: exit 1 and the next step; --repair says what it would do, --yes has it done."""
    right = cli.json("get", "k7")["rows"]
    stack = psutil.Process(cli.json("status")["stack"]["pid"])
    stack.suspend()  # so that nobody starts the rehydrator while its files are changed
    try:
        for one in descendants(stack.pid, "cutwater.rehydrator"):
            one.kill()
        store: Store = wait_until(lambda: _opened(cli), "its lock: nobody else has the view open")
        edges = [datetime.fromisoformat(right[0][f"window_{one}"]) for one in ("start", "end")]
        value = Codec(load_job(Path(cli.job_file)).state_schema).encode({"ticks": 12_345, "total": 1})
        store.put(
            {storage_key(Window("k7", *(round(one.timestamp() * 1000) for one in edges)), store.segment_ms): value}
        )
        store.close()
    finally:
        stack.resume()
    wait_until(lambda: cli.events_shown() == len(EVENTS), "the wrong view")
    done = cli.run("verify", "--json")
    assert done.returncode == 1
    told = parsed(["verify"], done.stdout)
    assert (told["differing_rows"], told["repair"]) == (1, None)
    assert "verify --repair" in told["next_steps"][0]
    asked = cli.run("verify", "--repair")
    assert asked.returncode == 1
    assert "add --yes" in " ".join(asked.stderr.split())
    assert cli.run("verify").returncode == 1, "nothing was done yet"
    repaired = cli.run("verify", "--repair", "--yes", "--json")
    assert repaired.returncode == 0, repaired.stderr
    assert "was rebuilt" in parsed(["verify"], repaired.stdout)["repair"]
    wait_until(lambda: cli.events_shown() == len(EVENTS), "the right view")
    assert cli.json("get", "k7")["rows"] == right


def test_history_tells_each_services_start(cli: Cli) -> None:
    """Of every service what it found, decided and how long its steps took; by service and time, too."""
    told = cli.json("history", "--since", "1h")
    assert {one["service"] for one in told} == {"driver", "commit-signal", "rehydrator", "publisher"}
    assert all(one["outcome"] == "running" and one["decision"] and one["found"] for one in told)
    [driver] = cli.json("history", "--service", "driver")
    assert (driver["attempt"], driver["found"]["planned"]) == (1, "-1")
    steps = [one["name"] for one in driver["steps"]]
    assert steps[:2] == ["waiting for the brokers", "starting Spark"]
    assert driver["took_ms"] == sum(one["took_ms"] for one in driver["steps"]) > 0
    assert cli.json("history", "--since", "2999-01-01") == []


def test_cadence_of_a_job_without_objectives_has_no_decisions(cli: Cli) -> None:
    """Nothing is decided, and nothing is on the trail; the table says so."""
    told = cli.json("cadence")
    assert (told["decisions"], told["in_force"]) == ([], [])
    assert told["objectives"] == {"readable_p99_ms": None, "recovery_ms": None}
    assert "which has no objectives: decisions 0" in cli.run("cadence").stdout


def _told(lines: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The last values of each row, over the milestones of `tail --json`."""
    milestones = parsed_lines(["tail"], lines)
    assert [one["first_sequence"] for one in milestones] == [1, *(one["sequence"] + 1 for one in milestones[:-1])]
    return {(row["key"], row["window_start"]): row["values"] for one in milestones for row in one["changes"]}


@pytest.mark.variations
@pytest.mark.parametrize("source", [[], ["--changelog"]], ids=["output", "changelog"])
def test_tail_tells_whole_milestones(cli: Cli, source: list[str]) -> None:
    """One line of JSON a milestone, contiguous from the first on; together they are the state."""
    newest = cli.json("status")["milestone"]["token"]
    wait_until(lambda: cli.json("status")["published"] == newest, "everything on the output")
    done = cli.run("tail", "--json", "--idle", "3", *source)
    assert done.returncode == 0, done.stderr
    expected = _expected()
    assert _told(done.stdout) == {(key, f"{_iso(start)[:19]}Z"): row for (key, start), row in expected.items()}
    assert json.loads(done.stdout.splitlines()[-1])["token"] == newest


def test_distinct_compares_keys(cli: Cli) -> None:
    """By the values of their events; a measure that is no set is refused."""
    found = cli.json("distinct", "values", "--of", "k7", "--of", "k8", "--not", "k9", "--not", "k10")
    true = (_values("k7") | _values("k8")) - _values("k9") - _values("k10")
    assert (found["estimate"], found["exact"]) == (len(true), True)
    assert [one["estimate"] for one in found["sets"]] == [len(_values(one["key"])) for one in found["sets"]]
    done = cli.run("distinct", "ticks", "--of", "k7")
    assert (done.returncode, "measure='ticks' has no theta sketch: values" in done.stderr) == (2, True), (
        done.stderr
    )


def test_hot_keys_are_those_that_were_read(cli: Cli) -> None:
    """Beside their events."""
    for _ in range(3):
        cli.json("get", "k7")
    told = cli.json("hot-keys")
    found = {one["key"]: one for one in told["keys"]}
    assert found["k7"]["reads"] >= 3
    assert (told["measure"], found["k7"]["events"]) == ("ticks", sum(one["key"] == "k7" for one in EVENTS))
    assert told["windows"]


def test_an_incident_is_one_file(cli: Cli) -> None:
    """Of a stack that runs nothing is missing."""
    file = cli.folder / "incident.zip"
    told = cli.json("incident", cli.job_file, "--out", str(file))
    assert [(one["name"], one["problem"]) for one in told["parts"] if one["problem"]] == []
    with zipfile.ZipFile(file) as archive:
        names = set(archive.namelist())
        milestones = json.loads(archive.read("milestones.json"))
        metrics = archive.read("metrics/rehydrator.txt").decode()
    assert names >= {"contents.json", "status.json", "logs/driver.log", "logs/broker.log", "metrics/watch.txt"}
    assert milestones[-1]["token"] == cli.json("status")["milestone"]["token"]
    assert "cutwater_view_sequence" in metrics


@pytest.mark.slow
def test_at_least_a_token_of_the_future_is_not_answered(cli: Cli) -> None:
    """A token that the view has not reached ends in exit code 4 and names what is shown; nonsense in 2."""
    done = cli.run("get", "k7", "--at-least", "g1-local-00000000:999999")
    assert done.returncode == 4
    assert "412" in done.stderr
    assert cli.run("get", "k7", "--at-least", "nonsense").returncode == 2


@pytest.mark.slow
def test_a_second_stack_on_the_folder_is_refused(cli: Cli) -> None:
    """`up` on a folder where a stack runs says so, and leaves the first one alone."""
    done = cli.run("up", str(cli.folder / "job.yaml"), "--detach")
    assert done.returncode == 2
    assert "already" in done.stderr
    assert cli.run("status").returncode == 0


def test_a_bad_event_names_its_line(cli: Cli) -> None:
    """An event that does not fit the schema ends `produce` with exit code 2 and what is wrong."""
    bad = cli.folder / "bad.jsonl"
    bad.write_text('{"key": "k1", "at": 1700000000000, "value": "many"}\n')
    done = cli.run("produce", str(bad))
    assert done.returncode == 2
    assert "value" in done.stderr
    assert "line 1" in done.stderr
    bad.write_text("not json\n")
    done = cli.run("produce", str(bad))
    assert done.returncode == 2
    assert "line 1" in done.stderr


def test_services_stay_below_300_mb(cli: Cli) -> None:
    """commit-signal, rehydrator and the driver's Python each hold less than 300 MB."""
    stack = cli.json("status")["stack"]["pid"]
    for module in ("cutwater.commit_signal", "cutwater.rehydrator", "cutwater_spark.driver"):
        found = [one for one in descendants(stack, module) if one.name() != "java"]
        assert found, module
        assert found[0].memory_info().rss < SERVICE_BYTES_MAX, module


@pytest.mark.slow
def test_commands_without_a_stack_say_how_to_start_one(tmp_path: Path) -> None:
    """Where nothing runs, each verb ends with exit code 2 and names `cutwater up`."""
    for verb in (["status"], ["get", "k1"], ["milestones"], ["tail"], ["produce", "-"], ["verify"], ["history"]):
        done = Cli(tmp_path).run(*verb)
        assert done.returncode == 2, verb
        assert "cutwater up" in done.stderr


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    """A wanted port that somebody else holds ends `up` with exit code 3, the port, and no process left."""
    (tmp_path / "job.yaml").write_text(counting.job_text("counts"))
    (tmp_path / "event.avsc").write_text(counting.SCHEMA)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = Cli(tmp_path).run("up", str(tmp_path / "job.yaml"), "--detach", CUTWATER_PORT=port)
    assert done.returncode == 3
    assert port in done.stderr


def test_a_bad_job_file_is_named(tmp_path: Path) -> None:
    """A mistake in the job file ends `up` with exit code 2, the file and the field."""
    (tmp_path / "job.yaml").write_text(counting.job_text("counts").replace("tumbling", "session"))
    done = Cli(tmp_path).run("up", str(tmp_path / "job.yaml"))
    assert done.returncode == 2
    assert "job.yaml" in done.stderr
    assert "session windows are not supported" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_bad_settings_are_named(tmp_path: Path) -> None:
    """A setting that does not fit ends with exit code 2 and the variable's name."""
    done = Cli(tmp_path).run("status", CUTWATER_TRIGGER_MS="soon")
    assert done.returncode == 2
    assert "CUTWATER_TRIGGER_MS" in done.stderr
