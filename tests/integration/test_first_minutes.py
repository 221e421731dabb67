"""The first ten minutes on a user's own broker, which asks for a password and lets nobody do more than allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from cutwater.adapters.avro.codec import load_schema
from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka import admin
from cutwater.core.checks import acls
from cutwater.core.checks.capacity import row_bytes_of
from cutwater.core.events.formats import confluent_header
from cutwater.core.events.protobuf.wire import LENGTH, VARINT, entry, varint
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.topics import TopicSpec
from cutwater.local import running_file
from support.cli.commandline import Cli
from support.cli.jsonshapes import parsed
from support.events import counting
from support.harness import wait_until
from support.kafka.users_broker import UsersBroker, users_broker

USER = "cutwater"
EVENTS = counting.events(600)
GENERATION = Generation(1, "local")
OWNED = {one.name for one in topics.generation_topics("ticks", GENERATION, 2)}


class UsersCli(Cli):
    """Runs `cutwater` as somebody who knows the broker's address and a password."""

    def __init__(self, folder: Path, broker: UsersBroker, user: str = USER) -> None:
        super().__init__(folder, CUTWATER_WAIT_MS="20000", **broker.environment(user))
        self.broker = broker

    @property
    def on_broker(self) -> tuple[str, str]:
        return ("--bootstrap-servers", self.broker.bootstrap)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, kafka_jars: list[Path]) -> Iterator[UsersBroker]:
    with users_broker(tmp_path_factory.mktemp("users"), kafka_jars, [USER, "stranger"]) as running:
        yield running


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory, broker: UsersBroker) -> UsersCli:
    """A job file, a source topic made by the user, and for USER exactly the rights that the plan lists."""
    folder = tmp_path_factory.mktemp("first")
    made = write_job(folder, broker, "ticks")
    admin.create_topics(broker.admin, [topics.events("ticks.events", 2)])
    broker.grant(USER, [one.plain() for one in acls.required_acls("ticks", "ticks.events", GENERATION)])
    return made


def write_job(folder: Path, broker: UsersBroker, name: str, user: str = USER) -> UsersCli:
    (folder / "job.yaml").write_text(counting.job_text(name))
    (folder / "event.avsc").write_text(counting.SCHEMA)
    lines = [json.dumps(one) for one in EVENTS]
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n")
    return UsersCli(folder, broker, user)


@pytest.fixture(scope="module")
def running(cli: UsersCli) -> Iterator[UsersCli]:
    """The job on the user's broker, with every event committed and shown."""
    done = cli.run("up", cli.job_file, "--detach", *cli.on_broker)
    assert done.returncode == 0, done.stderr
    try:
        assert cli.json("produce", str(cli.folder / "events.jsonl"))["delivered"] == len(EVENTS)
        wait_until(lambda: cli.events_shown() == len(EVENTS), f"all events in the view; logs in {cli.folder}")
        yield cli
    finally:
        cli.run("down")


def findings(cli: UsersCli, *arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Exit code and findings by check."""
    done = cli.run("doctor", *arguments, "--json")
    assert done.stdout, done.stderr
    return done.returncode, {one["check"]: one for one in parsed(["doctor"], done.stdout)["findings"]}


def test_the_plan_lists_topics_rights_and_bytes_without_a_broker(cli: UsersCli) -> None:
    """`plan` needs no cluster: every owned topic, three copies, the rights that the other tests run with."""
    plan = cli.json("plan", cli.job_file, "--events-per-second", "10", "--keys", "30")
    assert {one["name"] for one in plan["topics"]} == OWNED
    assert {one["replication_factor"] for one in plan["topics"]} == {3}
    assert plan["acls"] == [one.plain() for one in acls.required_acls("ticks", "ticks.events", GENERATION)]
    assert plan["estimate"]["changelog_write_bytes_per_s"] > 0
    assert plan["measured"] is None
    shown = cli.run("plan", cli.job_file)
    assert shown.returncode == 0, shown.stderr
    assert "kafka-acls.sh" in shown.stdout


def test_init_recognises_avro_and_drafts_a_job_that_up_accepts(cli: UsersCli) -> None:
    """From single-object records of a schema at hand: key and event time of the schema, lateness as produced."""
    admin.create_topics(cli.broker.admin, [topics.events("flown.events", 2)])
    rights = acls.Acl("init", "topic", "flown.events", ("Read", "DescribeConfigs"))
    cli.broker.grant(USER, [rights.plain()])
    job = replace(load_job(Path(cli.job_file)), topic="flown.events")
    EventWriter(cli.broker.admin, job).write_all(EVENTS)
    out = cli.folder / "flown.yaml"
    arguments = ("init", "--from-topic", "flown.events", *cli.on_broker, "--out", str(out))
    drafted = cli.json(*arguments)
    assert (drafted["format"], drafted["samples"], drafted["unreadable"]) == ("avro", len(EVENTS), 0)
    assert (drafted["key"], drafted["event_time"]) == ("key", "at")
    made = load_job(out)
    assert (made.name, made.topic, made.key_field, made.time_field) == ("flown", "flown.events", "key", "at")
    assert made.event_schema == job.event_schema
    assert made.lateness_ms >= 9 * 60_000, "the events are in random order over ten minutes"
    again = cli.run(*arguments)
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert cli.run(*arguments, "--force").returncode == 0


def test_init_infers_a_schema_from_json(cli: UsersCli) -> None:
    """JSON records give a schema beside the job file; what cannot be a field is left out and named."""
    wild, endless = {**order(200), "createdAt": "2099-01-01T00:00:00Z"}, {**order(201), "amount": float("inf")}
    produce_json(cli.broker, "orders", [*(order(number) for number in range(200)), wild, endless])
    out = cli.folder / "json" / "orders.yaml"
    drafted = cli.json("init", "--from-topic", "orders", *cli.on_broker, "--out", str(out))
    assert (drafted["format"], drafted["key"], drafted["event_time"]) == ("json", "customer", "createdAt")
    assert set(drafted["left_out"]) == {"lines", "note", "address"}
    rejected = {one["reason"]: one for one in drafted["rejected"]}
    assert {reason: (one["field"], one["count"]) for reason, one in rejected.items()} == {
        "event time too far ahead": ("createdAt", 1),
        "undecodable": (None, 1),
    }
    assert rejected["undecodable"]["example"].startswith('{"id": "o-201", ')
    assert "Would be rejected, 1 as 'undecodable': the record is no JSON object." in out.read_text()
    schema = load_schema(Path(drafted["schema_file"]))
    types = {one["name"]: one["type"] for one in schema["fields"]}
    assert types["createdAt"] == {"type": "long", "logicalType": "timestamp-millis"}
    assert types["amount"] == ["null", "double"]
    assert "format: json" in out.read_text()
    assert load_job(out).key_field == "customer"
    inner = out.with_name("cities.yaml")
    keys = ("--key", "customer", "--key", "address.city")
    drafted = cli.json("init", "--from-topic", "orders", *cli.on_broker, *keys, "--out", str(inner), "--force")
    assert drafted["key"] == ["customer", "address_city"]
    assert set(drafted["left_out"]) == {"lines", "note"}
    assert {one["reason"]: one["count"] for one in drafted["rejected"]} == dict.fromkeys(rejected, 1)
    assert "Would be rejected, 1 as 'event time too far ahead'" in inner.read_text()
    assert [one.name for one in load_job(inner).key_parts] == ["customer", "address_city"]
    wrong = cli.run("init", "--from-topic", "orders", *cli.on_broker, "--key", "amount", "--force")
    assert wrong.returncode == 2
    assert "'amount' is double and cannot be the key" in " ".join(wrong.stderr.split())


@pytest.mark.slow
def test_init_takes_a_proto_from_another_folder(cli: UsersCli) -> None:
    """It stands beside the job file then, and is still read as the text that it is."""
    elsewhere = cli.folder / "protos"
    elsewhere.mkdir()
    (elsewhere / "trip.proto").write_text(
        'syntax = "proto3"; import "google/protobuf/timestamp.proto";\n'
        "message Trip { string rider = 1; google.protobuf.Timestamp at = 2; }"
    )
    seconds = (entry(1, VARINT, varint(1_700_000_000 + number)) for number in range(50))
    values = [
        confluent_header(3) + b"\0" + entry(1, LENGTH, b"r%d" % (number % 5)) + entry(2, LENGTH, at)
        for number, at in enumerate(seconds)
    ]
    produce(cli.broker, "trips", values)
    arguments = (
        "--schema",
        str(elsewhere / "trip.proto"),
        "--message",
        "Trip",
        "--out",
        str(cli.folder / "t.yaml"),
    )
    drafted = cli.json("init", "--from-topic", "trips", *cli.on_broker, *arguments)
    assert (drafted["format"], drafted["key"], drafted["rejected"]) == ("confluent-protobuf", "rider", [])
    assert Path(drafted["schema_file"]).read_text() == (elsewhere / "trip.proto").read_text()
    assert load_job(cli.folder / "t.yaml").time_field == "at"


def order(number: int) -> dict[str, Any]:
    at = datetime.fromtimestamp(1_700_000_000 + number, UTC).isoformat()
    one = {"id": f"o-{number}", "customer": f"c{number % 7}", "createdAt": at, "amount": number / 4}
    return {**one, "lines": [number], "note": None, "address": {"city": f"c{number % 3}", "zip": number}}


def produce_json(broker: UsersBroker, topic: str, events: list[dict[str, Any]]) -> None:
    produce(broker, topic, [json.dumps(one).encode() for one in events])


def produce(broker: UsersBroker, topic: str, values: list[bytes]) -> None:
    admin.create_topics(broker.admin, [topics.events(topic, 1)])
    rights = acls.Acl("init", "topic", topic, ("Read", "DescribeConfigs"))
    broker.grant(USER, [rights.plain()])
    producer = Producer({**broker.admin.librdkafka(), "enable.idempotence": True})
    for one in values:
        producer.produce(topic, one)
    assert producer.flush(30) == 0


def test_the_doctor_finds_what_a_stranger_lacks(cli: UsersCli, tmp_path: Path) -> None:
    """Without rights: exit 1, and each topic that may not be seen or created is an error with a remedy."""
    stranger = write_job(tmp_path, cli.broker, "ticks", "stranger")
    code, found = findings(stranger, stranger.job_file, *stranger.on_broker)
    assert code == 1
    for check in ("source ticks.events", *(f"topic {name}" for name in OWNED)):
        assert found[check]["level"] == "error", check
        assert "cutwater plan" in found[check]["remedy"]
    refused = stranger.run("up", stranger.job_file, "--detach", *stranger.on_broker)
    assert refused.returncode == 2, "and the stack does not start"
    assert "this user may not" in " ".join(refused.stderr.split())


@pytest.mark.slow
def test_the_doctor_finds_a_wrong_password_and_a_dead_broker(cli: UsersCli) -> None:
    """Both are one error on the brokers, within a bound, and nothing else about the cluster is judged."""
    for address, env in (
        (cli.broker.bootstrap, {"CUTWATER_KAFKA_SASL_PASSWORD": "wrong"}),
        ("127.0.0.1:1", {}),
    ):
        done = cli.run("doctor", cli.job_file, "--bootstrap-servers", address, "--json", **env)
        assert done.returncode == 1
        found = {one["check"]: one for one in parsed(["doctor"], done.stdout)["findings"]}
        assert found["brokers"]["level"] == "error"
        assert "copies" not in found


@pytest.mark.slow
def test_wrong_settings_of_a_topic_are_named_by_up_and_doctor(cli: UsersCli, tmp_path: Path) -> None:
    """A changelog that deletes, with other partitions: topic, setting, found, wanted; nothing starts."""
    odd = write_job(tmp_path, cli.broker, "odd")
    name = topics.changelog("odd", GENERATION)
    admin.create_topics(
        cli.broker.admin, [topics.events("odd.events", 1), TopicSpec(name, 3, (("cleanup.policy", "delete"),))]
    )
    cli.broker.grant(USER, [one.plain() for one in acls.required_acls("odd", "odd.events", GENERATION)])
    code, found = findings(odd, odd.job_file, *odd.on_broker)
    assert code == 1
    assert found[f"topic {name}"]["level"] == "error"
    refused = odd.run("up", odd.job_file, "--detach", *odd.on_broker)
    assert refused.returncode == 2
    said = " ".join(refused.stderr.split())
    for setting, was, wanted in (
        ("partitions", "3", "2"),
        ("cleanup.policy", "delete", "compact"),
        ("message.timestamp.type", "CreateTime", "LogAppendTime"),
    ):
        assert f"topic {name}: {setting} is {was}, and must be {wanted}" in said
    assert set(
        admin.describe_topics(
            cli.broker.admin, [one.name for one in topics.generation_topics("odd", GENERATION, 2)]
        )
    ) == {name}, "nothing was created"


@pytest.mark.slow
def test_up_names_a_source_topic_that_does_not_exist(cli: UsersCli, tmp_path: Path) -> None:
    """A mistyped source is exit 2 and its name; it is not created, and neither is anything else."""
    lost = write_job(tmp_path, cli.broker, "lost")
    cli.broker.grant(USER, [one.plain() for one in acls.required_acls("lost", "lost.events", GENERATION)])
    refused = lost.run("up", lost.job_file, "--detach", *lost.on_broker)
    assert refused.returncode == 2
    assert "source topic lost.events does not exist" in " ".join(refused.stderr.split())
    owned = [one.name for one in topics.generation_topics("lost", GENERATION, 2)]
    assert admin.describe_topics(cli.broker.admin, ["lost.events", *owned]) == {}


@pytest.mark.slow
def test_the_doctor_is_content_before_and_compares_clocks_when_asked(cli: UsersCli) -> None:
    """With the plan's rights nothing is an error; --probe needs the right to its own topic, and leaves none."""
    code, found = findings(cli, cli.job_file, *cli.on_broker)
    assert code == 0, found
    assert found["Kafka version"]["level"] == "ok"
    assert found["Kafka version"]["found"].startswith("4.3")
    assert found["copies"]["level"] == "warning", "one broker holds one copy"
    assert found["clock"]["level"] == "skipped"
    probe = acls.Acl("doctor", "topic", "ticks.doctor-", ("Create", "Write", "Delete"), prefixed=True)
    cli.broker.grant(USER, [probe.plain()])
    code, found = findings(cli, cli.job_file, *cli.on_broker, "--probe")
    assert code == 0, found
    assert found["clock"]["level"] == "ok", "both clocks are this machine's"
    everything = AdminClient(cli.broker.admin.librdkafka()).list_topics(timeout=20).topics
    assert not [name for name in everything if ".doctor-" in name]


@pytest.mark.slow
def test_the_console_runs_beside_the_stack(running: UsersCli) -> None:
    """As the same user, at the address that `up` noted; who started the stack is on the audit log."""
    url = running_file.console_of(running.folder / "data")

    def live() -> bool:
        jobs = httpx.get(f"{url}api/jobs").json()["jobs"]
        return [(one["job"], one["state"]) for one in jobs] == [("ticks", "live")]

    wait_until(live, "the console follows the job")
    [started] = running.json("audit", "--action", "up")
    assert (started["object"], started["outcome"]) == ("ticks", "done")
    assert httpx.get(f"{url}api/jobs/ticks/audit").json()["actions"][-1]["action"] == "up"


@pytest.mark.slow
def test_up_on_a_users_broker_starts_no_broker_and_needs_no_more_than_the_plan_says(running: UsersCli) -> None:
    """With the listed rights and a password, the stack runs on the user's broker; the rows are exact."""
    stack = running.json("status")["stack"]
    assert stack["bootstrap_servers"] == running.broker.bootstrap
    assert stack["security_protocol"] == "SASL_PLAINTEXT"
    assert "broker" not in stack["logs"]
    assert not (running.folder / "data" / "broker").exists()
    unsaid = running.run("milestones", CUTWATER_KAFKA_SECURITY_PROTOCOL="PLAINTEXT")
    assert unsaid.returncode == 2, "without the password the stack's brokers cannot be asked"
    assert "CUTWATER_KAFKA_SECURITY_PROTOCOL" in unsaid.stderr
    rows = {(row["window_start"]): row for row in running.json("get", "k7", "--limit", "100")["rows"]}
    wanted = {start: row for (key, start), row in counting.expected(EVENTS).items() if key == "k7"}
    assert sorted(row["ticks"] for row in rows.values()) == sorted(row["ticks"] for row in wanted.values())
    assert sum(row["total"] for row in rows.values()) == sum(row["total"] for row in wanted.values())
    assert running.run("milestones", "--check").returncode == 0


@pytest.mark.slow
def test_plan_and_doctor_of_a_running_job_measure_it(running: UsersCli) -> None:
    """Without naming brokers the stack's are asked: bytes per row are measured, and the checkpoint is judged."""
    plan = running.json("plan", running.job_file)
    assert plan["bootstrap_servers"] == running.broker.bootstrap
    assert all(one["exists"] for one in plan["topics"])
    assert plan["measured"]["sampled"] > 0
    assert plan["estimate"]["written_row_bytes"] == plan["measured"]["row_bytes"]
    assert plan["estimate"]["row_bytes"] >= plan["measured"]["row_bytes"], "with all events of its window"
    by_types = row_bytes_of(load_job(Path(running.job_file)))
    assert 0.6 < by_types / plan["measured"]["row_bytes"] < 1.6, "the types alone are a fair guess"
    code, found = findings(running, running.job_file)
    assert code == 0, found
    assert found["checkpoint"]["level"] == "ok"
    assert found["rights"]["level"] == "ok"


@pytest.mark.slow
def test_down_delete_lists_asks_and_removes_only_what_was_added(running: UsersCli) -> None:
    """--dry-run names the topics and changes nothing; without --yes nothing goes; then all but the source."""
    listed = running.json("down", "--delete", "--dry-run")
    assert set(listed["would_delete"]["topics"]) == OWNED
    assert listed["kept"] == ["ticks.events"]
    refused = running.run("down", "--delete")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    names = [*OWNED, "ticks.events"]
    assert set(admin.describe_topics(running.broker.admin, names)) == set(names), "nothing is gone yet"
    assert running.json("status")["stack"]["ready"], "and it still runs"
    assert set(running.json("down", "--delete", "--yes")["topics"]) == OWNED
    wait_until(
        lambda: set(admin.describe_topics(running.broker.admin, names)) == {"ticks.events"}, "the topics are gone"
    )
    assert not (running.folder / "data").exists()
