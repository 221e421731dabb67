"""A standby region for tests: a view of what is copied there, which takes snapshots, and the verbs asked there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from typer.testing import CliRunner

from broker.mirror.topics.test_preflight_gaps import cut_off
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.object_store import Objects
from cutwater.cli.main import app
from cutwater.core.state.snapshot_manifest import UNSIGNED, Names
from cutwater.views.query.pages import Stored
from cutwater.views.snapshots.object_store_tier import SnapshotRepository
from cutwater.views.snapshots.repositories import SnapshotRepositories
from cutwater.views.snapshots.snapshot_set import StoredSeeds
from support.cli.jsonshapes import parsed
from support.regions.mirroring import ORIGIN, environment_of
from support.views.changelogs import GENERATION, Rows, Writing, until
from support.views.rehydrating import Process, running

SHARE = "all.in-there"


class Standby:
    """What is copied from the origin, and the store that both regions have."""

    def __init__(self, own: Cluster, writing: Writing, folder: Path) -> None:
        self.own, self.writing, self.folder = own, writing, folder
        self.store = Objects(str(folder / "store"))
        self.path = folder / f"{writing.job.name}.yaml"
        self.env = {
            "CUTWATER_REGION": "there",
            "CUTWATER_SNAPSHOTS": self.store.place,
            "CUTWATER_SNAPSHOT_EVERY_MS": "86400000",
        }

    @contextmanager
    def replica(self, sequence: int, **env: str) -> Iterator[Process]:
        """The view's process, once it shows this milestone."""
        given = {**self.env, "CUTWATER_REPLICA_OF": ORIGIN, **env}
        with running(self.own, self.path, self.folder / "replica", **given) as one:
            until(lambda: one.answers() and one.shown() == sequence, "the newest arrival")
            yield one

    @property
    def shelf(self) -> SnapshotRepository:
        return SnapshotRepository(
            self.store, Names(self.writing.job.name, str(GENERATION), SHARE), 3_600_000, UNSIGNED
        )

    def call(self, *words: str, code: int = 0, **env: str) -> Any:
        """A verb in this region: JSON, or what it says where it is refused."""
        cli = CliRunner(env={**environment_of(self.own, self.writing.cluster), **self.env, **env})
        done = cli.invoke(app, [words[0], *words[1:], "--json"])
        assert done.exit_code == code, done.stdout + done.stderr
        return parsed([*words], done.stdout) if code == 0 else " ".join(done.stderr.split())

    def create(self, one: Process) -> Any:
        url = f"http://127.0.0.1:{one.port}"
        return self.call("snapshots", "create", str(self.path), "--api-url", url, "--wait", "30")

    def failover(self, *words: str, **options: Any) -> Any:
        verb = ("failover", str(self.path), "--origin", ORIGIN, "--force", "--wait", "0")
        return self.call(*verb, *words, **options)

    def stored(self) -> StoredSeeds:
        """The newest milestone's snapshots, as a driver looks for them."""
        writing = self.writing
        assert writing.last is not None
        return StoredSeeds(
            SnapshotRepositories(self.store, 3_600_000, UNSIGNED), writing.job, writing.last, "a test"
        )

    def pieces(self, rows: Iterable[Stored]) -> Rows:
        codec = Codec(self.writing.job.state_schema)
        return {(window.key, window.start_ms): int(codec.decode(value)["pieces"]) for window, value in rows}

    def lose(self) -> None:
        """Records of the copied changelog, below the cut of the newest arrival."""
        client = AdminClient(self.own.librdkafka())
        topic = ConfigResource(ResourceType.TOPIC, self.writing.topic)
        setting = ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET)
        topic.add_incremental_config(setting)
        for done in client.incremental_alter_configs([topic]).values():
            done.result(20)
        cut_off(self.own, self.writing.topic, 0, 1)
