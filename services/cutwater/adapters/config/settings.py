"""Settings from the environment (prefix CUTWATER_), for every service alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from cutwater.adapters.config.rehydrator_urls import TOKEN, TOKEN_RULE, Api, region_apis, rehydrator_url
from cutwater.adapters.job_files.models import registry_url
from cutwater.adapters.kafka.client_config import OWN, Cluster, Security
from cutwater.core.errors import UsageError
from cutwater.core.mirror.topic_config_sync import MAY_BE_KEPT
from cutwater.core.protocol.generation import REGION_PATTERN, Generation
from cutwater.core.protocol.mirror_records import SLOTS
from cutwater.core.query.peer_placement import Shares, held, shares_of
from cutwater.core.state.manifest_signature import Keys
from cutwater.core.state.partition_share import Partitions

_SECURITY = {
    "security_protocol": "protocol",
    "sasl_mechanism": "mechanism",
    "sasl_username": "username",
    "sasl_password": "password",
    "ssl_ca_file": "ca_file",
    "ssl_certificate_file": "certificate_file",
    "ssl_key_file": "key_file",
    "ssl_key_password": "key_password",
}
"""Settings behind the prefix KAFKA_, and what `Security` calls them."""


class Settings(BaseSettings):
    """What a process needs beside its job file. Each field is an environment variable CUTWATER_<NAME>."""

    model_config = SettingsConfigDict(env_prefix="CUTWATER_", extra="ignore")

    bootstrap_servers: str = Field("127.0.0.1:9092", description="Kafka brokers, host:port, comma separated.")
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="How the brokers want to be spoken to."
    )
    kafka_sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "", description="How this process proves who it is, with SASL."
    )
    kafka_sasl_username: str = Field("", description="User for SASL.")
    kafka_sasl_password: SecretStr = Field(SecretStr(""), description="Password for SASL.")
    kafka_ssl_ca_file: str = Field("", description="PEM file of certificates to trust; else the system's.")
    kafka_ssl_certificate_file: str = Field("", description="PEM file of this client's certificate, if asked for.")
    kafka_ssl_key_file: str = Field("", description="PEM file of that certificate's key (PKCS 8).")
    kafka_ssl_key_password: SecretStr = Field(SecretStr(""), description="Password of that key.")
    origin_region: str = Field(
        "",
        pattern=f"^({REGION_PATTERN})?$",
        description="Name of the other region: the mirror copies from it, and driver and commit-signal ask it "
        "before they go on whether it has the job. Its generations have it in their names.",
    )
    origin_bootstrap_servers: str = Field(
        "", description="Kafka brokers of that region; there mirror, driver and commit-signal only read."
    )
    origin_kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="How those brokers want to be spoken to."
    )
    origin_kafka_sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "", description="How these processes prove there who they are, with SASL."
    )
    origin_kafka_sasl_username: str = Field("", description="User for SASL there.")
    origin_kafka_sasl_password: SecretStr = Field(SecretStr(""), description="Password for SASL there.")
    origin_kafka_ssl_ca_file: str = Field("", description="PEM file of certificates to trust there.")
    origin_kafka_ssl_certificate_file: str = Field("", description="PEM file of their certificate there.")
    origin_kafka_ssl_key_file: str = Field("", description="PEM file of that certificate's key (PKCS 8).")
    origin_kafka_ssl_key_password: SecretStr = Field(SecretStr(""), description="Password of that key.")
    origin_registry_url: str = Field(
        "", description="Schema registry there; else the job file's. The mirror copies the subject from it."
    )
    origin_registry_username: str = Field("", description="User for that registry.")
    origin_registry_password: SecretStr = Field(SecretStr(""), description="Password for that registry.")
    mirror_slots: str = Field(
        "",
        description="The slots that this process of the mirror holds, as 0,1; where empty, all four. Several "
        "processes share the partitions by holding different ones; who holds slot 0 announces arrivals.",
    )
    mirror_bytes_per_s: int = Field(
        0,
        ge=0,
        description="Bytes of keys and values that this process of the mirror copies a second; 0: no bound.",
    )
    mirror_keeps: str = Field(
        "",
        description="Settings of the copied events' topic that this region decides by itself, comma separated: "
        "some of retention.ms, retention.bytes, message.timestamp.after.max.ms. The others are raised to the "
        "origin's.",
    )
    mirror_port: int = Field(
        0, ge=0, le=65_535, description="Port of the mirror's Prometheus metrics; 0 turns them off."
    )
    replication_factor: int = Field(
        0,
        ge=0,
        le=100,
        description="Copies of Cutwater's topics on your own cluster; 0 takes 3, or one per broker.",
    )
    min_insync_replicas: int = Field(
        0, ge=0, le=100, description="Copies that must acknowledge a record; 0 takes one less than there are."
    )
    region: str = Field("local", pattern=f"^{REGION_PATTERN}$", description="Name of this region.")
    generation: Annotated[Generation, NoDecode] = Field(
        default_factory=lambda data: Generation(1, data.get("region", "local")),
        description="The generation that a driver or commit-signal works for, where it is not the promoted one.",
    )
    begin_beside: str = Field(
        "",
        description="Regions whose job is copied here and beside which this region's own first generation is to "
        "begin, comma separated, as us; only needed until its driver has begun.",
    )
    keep_generations_hours: int = Field(
        168,
        ge=0,
        le=100_000,
        description="How long 'cutwater generation prune' keeps a generation that another one took over from, h.",
    )
    keep_streams_hours: int = Field(
        720,
        ge=0,
        le=100_000,
        description="How long 'cutwater prune' keeps milestones and their barriers, h.",
    )
    data_dir: Path = Field(
        Path("build/cutwater"),
        description="Folder for state, checkpoints, logs and, with a local driver, Spark's working files.",
    )
    host: str = Field("127.0.0.1", description="Address that HTTP services bind to.")
    port: int = Field(8321, ge=0, le=65_535, description="Port of the rehydrator's HTTP API; 0 takes a free one.")
    peers: str = Field(
        "",
        description="URLs of all rehydrators that share the job's partitions, this one's too, comma separated, "
        "the same for each of them; where empty, this one holds all. Each may name its standbys behind bars: "
        "http://a:8321|http://a2:8321.",
    )
    peer: str = Field("", description="Which of the peers this rehydrator is: its URL as it stands among them.")
    regions: str = Field(
        "",
        description="URLs of the regions' rehydrators, for the global view: us=http://a:8321,eu=http://b:8321; "
        "behind bars who is asked where the first does not answer: us=http://a:8321|http://a2:8321.",
    )
    region_tokens: SecretStr = Field(
        SecretStr(""),
        description="Tokens that the regions' rehydrators ask for, where they are not CUTWATER_API_TOKEN: "
        "us=TOKEN,eu=TOKEN; behind bars one for each URL of the region; us= sends none.",
    )
    region_ca_files: str = Field(
        "",
        description="PEM files of certificates to trust at a region's https URLs, in the place of the well-known "
        "ones: us=/etc/us-ca.pem; behind bars one for each URL of the region.",
    )
    replica: bool = Field(
        False,
        description="This rehydrator only reads: it takes no snapshots and is no peer. A selection makes it one.",
    )
    replica_of: str = Field(
        "",
        pattern=f"^({REGION_PATTERN})?$",
        description="This rehydrator is a replica of this other region: it shows what a mirror has copied here.",
    )
    select_partitions: str = Field("", description="It holds only these partitions of the changelog, as 0,2.")
    select_keys: str = Field(
        "", description='It holds only these keys: a,b, or, with commas in keys, a JSON list: ["a,b", "c"].'
    )
    select_prefixes: str = Field("", description="And the keys that begin with one of these, written alike.")
    select_since: str = Field("", description="And only windows that end after this: ISO 8601 or ms since 1970.")
    restore_workers: int = Field(
        0,
        ge=0,
        le=64,
        description="Processes that restore much state at once; 0: one per core, 4 at most.",
    )
    view_memory_mb: int = Field(
        48,
        ge=16,
        le=1 << 20,
        description="What the rehydrator's RocksDB holds in memory, MB: cached blocks and write buffers together.",
    )
    native: bool = Field(
        True, description="Restore much state by the optional module cutwater-native, where it is installed."
    )
    preload: bool = Field(
        True,
        description="Load the rows of a candidate before it is promoted: readers change over sooner, for the disk "
        "and the memory of a second view meanwhile, and of two where the output is published.",
    )
    view_census_ms: int = Field(
        600_000,
        ge=1_000,
        le=86_400_000,
        description="Time between two counts of how large the view's state is, and where, ms.",
    )
    driver_port: int = Field(
        0, ge=0, le=65_535, description="Port of the driver's Prometheus metrics; 0 turns them off."
    )
    signal_port: int = Field(
        0, ge=0, le=65_535, description="Port of commit-signal's Prometheus metrics; 0 turns them off."
    )
    publisher_port: int = Field(
        0, ge=0, le=65_535, description="Port of the publisher's Prometheus metrics; 0 turns them off."
    )
    watch_port: int = Field(
        0, ge=0, le=65_535, description="Port of the watch's Prometheus metrics; 0 turns them off."
    )
    watch_tick_ms: int = Field(2_000, ge=50, le=60_000, description="How often the watch judges, ms.")
    watch_silent_ms: int = Field(
        60_000,
        ge=100,
        le=86_400_000,
        description="A commit-signal, publisher or view that is behind and does not move so long is silent, ms.",
    )
    watch_driver_silent_ms: int = Field(
        180_000,
        ge=100,
        le=86_400_000,
        description="A driver without barrier and heartbeat for so long is silent, ms; an idle one pauses 60 s.",
    )
    watch_stuck_ms: int = Field(
        120_000, ge=100, le=86_400_000, description="How long an epoch may take before it is stuck, ms."
    )
    watch_window_ms: int = Field(
        300_000,
        ge=1_000,
        le=86_400_000,
        description="How far back dead letters, late events, skew, growing drift and fenced writers count, ms.",
    )
    watch_dead_letters: int = Field(
        10, ge=1, le=10**9, description="So many dead letters within the window raise an alert."
    )
    show_payloads: bool = Field(
        True,
        description="Whether lists of dead letters, and `init`, show the first 200 bytes of an event; 0 where "
        "they may not.",
    )
    watch_late: int = Field(
        1_000,
        ge=1,
        le=10**12,
        description="So many (event, window) pairs that came too late within the window raise an alert.",
    )
    watch_late_share: float = Field(
        0.01,
        gt=0,
        le=1,
        description="And so does this share of all pairs, if they are ten at least.",
    )
    watch_view_url: str = Field(
        "",
        description="The rehydrator's HTTP API, for the view's part in the watch, comma separated where several "
        "share the partitions, with standbys behind bars as in CUTWATER_PEERS; 'cutwater up' fills it in.",
    )
    alert_webhook_url: SecretStr = Field(
        SecretStr(""),
        description="Where alerts are posted as JSON; nowhere where empty. A secret: some hold a key.",
    )
    alert_webhook_token: SecretStr = Field(
        SecretStr(""), description="Token sent with them (Authorization: Bearer)."
    )
    api_token: SecretStr = Field(
        SecretStr(""), description="Token that the HTTP API asks for (Authorization: Bearer); none where empty."
    )
    metrics_token: SecretStr = Field(
        SecretStr(""),
        description="Token that the metrics ports ask for (Authorization: Bearer), and that the HTTP API's "
        "/metrics takes, too; none where empty.",
    )
    api_hosts: str = Field(
        "",
        description="Names, comma separated, by which an HTTP port that asks for no token may be asked beside its "
        "addresses and localhost: a proxy's in front of it, and those of peers. Others are refused, wherever the "
        "port is bound; where none is set, only on the loopback address.",
    )
    api_by_proxy: bool = Field(
        False,
        description="Reach the HTTP API through the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY name. It sees "
        "the token.",
    )
    spark_master: str = Field("local[*]", description="Spark master of the driver.")
    spark_authenticate: bool = Field(
        True,
        description="On a cluster, Spark's processes show each other a secret, and encrypt what they send and "
        "spill. Where false, what spark-defaults.conf says holds (docs/SECURITY.md).",
    )
    spark_secret: SecretStr = Field(
        SecretStr(""),
        description="That secret where the master is spark://: the one that master and workers have. YARN and "
        "Kubernetes make one.",
    )
    spark_jars: str = Field("", description="The connectors' jars, comma separated; 'cutwater up' fills it in.")
    spark_classes: str = Field(
        "", description="Archive of classes (see OPERATING) that a local driver starts with."
    )
    spark_ui_port: int = Field(0, ge=0, le=65_535, description="Port of the Spark UI; 0 turns the UI off.")
    spark_driver_memory: str = Field("1g", description="Memory of the driver's JVM.")
    checkpoint: str | None = Field(
        None,
        description="Spark checkpoint location, s3a://BUCKET/... among others; default below the data folder.",
    )
    s3_endpoint: str = Field(
        "",
        description="URL of an object store that speaks S3; Amazon's where empty. Its keys: AWS_ACCESS_KEY_ID, "
        "AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN of the driver and of every executor, or their machine's role.",
    )
    snapshots: str = Field(
        "",
        description="Where the rehydrator's snapshots go: a folder, or a URL (s3://BUCKET/PREFIX, gs://, az://); "
        "where empty, none are taken. A driver reads its parent's state there where the changelog lacks it. "
        "'cutwater up' takes a folder in the data folder unless this is set.",
    )
    snapshot_every_ms: int = Field(
        600_000, ge=100, le=86_400_000, description="Least time between two snapshots, ms."
    )
    snapshot_keep_last: int = Field(3, ge=1, le=10_000, description="So many snapshots are kept, the newest.")
    snapshot_keep_hours: int = Field(24, ge=0, le=10_000, description="And of so many hours one each.")
    snapshot_keep_days: int = Field(7, ge=0, le=10_000, description="And of so many days one each.")
    snapshot_keep_local: int = Field(
        2,
        ge=1,
        le=100,
        description="Snapshots kept beside the view, by links to its files; beside a replica's one.",
    )
    snapshot_grace_ms: int = Field(
        86_400_000,
        ge=600_000,
        le=31_536_000_000,
        description="How long a file that no snapshot needs any more stays, ms; an upload may take half of it.",
    )
    snapshot_key: SecretStr = Field(
        SecretStr(""),
        description="Key that the snapshots' manifests are signed by, at least 32 characters; behind commas older "
        "ones, by which they may be signed, too. Where it is set, a snapshot that is not signed by one of them is "
        "not used: set it for all that read or write the store.",
    )
    s3_anonymous: bool = Field(False, description="Ask the object store without keys: it lets in everybody.")
    trigger_ms: int = Field(500, ge=0, le=3_600_000, description="Least time between two epochs, ms.")
    catch_up_share: float = Field(
        1.0,
        ge=0.05,
        le=1,
        description="Share of the time that a candidate's driver works on epochs, until somebody asks for its "
        "promotion.",
    )
    heartbeat_ms: int = Field(
        2_000, ge=100, le=3_600_000, description="Time between an idle job's heartbeats, ms."
    )
    hints: bool = Field(True, description="Announce 'committed N' sooner; nothing depends on it.")
    collect_share: float = Field(
        0.5,
        ge=0,
        le=1,
        description="Share of the changelog, in event time, below the horizon from which windows are cleared; "
        "1 for never.",
    )
    failover_min_age_s: float = Field(
        90.0,
        ge=0,
        description="A failover is refused where the other region was heard of a shorter time ago, in seconds. A "
        "job that was silent for longer goes on only once the other region (CUTWATER_ORIGIN_*) has answered.",
    )
    go_on_behind: str = Field(
        "",
        description="Token of the newest milestone here: behind it, and no other, driver and commit-signal go on "
        "where the other region does not answer.",
    )
    wait_ms: int = Field(60_000, ge=0, le=3_600_000, description="How long to wait for a broker at start, ms.")
    registry_url: str = Field("", description="Schema registry, for format confluent; else the job file's.")
    registry_username: str = Field("", description="User for the schema registry.")
    registry_password: SecretStr = Field(SecretStr(""), description="Password for the schema registry.")
    log_json: bool = Field(False, description="Logs as JSON lines, on standard output.")

    @field_validator("api_token", "metrics_token")
    @classmethod
    def _fits_a_header(cls, value: SecretStr) -> SecretStr:
        if value.get_secret_value() and not TOKEN.fullmatch(value.get_secret_value()):
            raise ValueError(TOKEN_RULE)
        return value

    @field_validator("snapshot_key")
    @classmethod
    def _are_keys(cls, value: SecretStr) -> SecretStr:
        Keys.parse(value.get_secret_value())
        return value

    @field_validator("registry_url", "origin_registry_url")
    @classmethod
    def _holds_no_password(cls, value: str) -> str:
        return registry_url(value)

    @property
    def snapshot_keys(self) -> Keys:
        """By which snapshots are signed; none where they are not."""
        return Keys.parse(self.snapshot_key.get_secret_value())

    @property
    def api_headers(self) -> dict[str, str]:
        """What a client of the HTTP API sends."""
        token = self.api_token.get_secret_value()
        return {"Authorization": f"Bearer {token}"} if token else {}

    @property
    def api_names(self) -> frozenset[str]:
        """By which the HTTP ports are known, beside their addresses."""
        return frozenset(one.strip() for one in self.api_hosts.split(",") if one.strip())

    @property
    def needs_spark_secret(self) -> bool:
        """Is Spark to authenticate, under a master that makes no secret by itself?"""
        return self.spark_authenticate and not self.spark_master.startswith(("local", "yarn", "k8s:"))

    @property
    def shares(self) -> Shares:
        """The rehydrators, each owner with its standbys; none where this one holds everything by itself.

        Raises UsageError for what is no URL of a rehydrator.
        """
        return shares_of([rehydrator_url(one, "CUTWATER_PEERS") for one in group] for group in _groups(self.peers))

    @property
    def region_apis(self) -> dict[str, tuple[Api, ...]]:
        """By region, the rehydrators to ask about it, in their order; none where there is no global view.

        Raises UsageError for what is no region, no URL or no token.
        """
        tokens, own = self.region_tokens.get_secret_value(), self.api_token.get_secret_value()
        return region_apis(self.regions, tokens, self.region_ca_files, own)

    @property
    def peer_url(self) -> str:
        """As it stands among the others."""
        return self.peer.rstrip("/")

    def held(self, partitions: int) -> Partitions | None:
        """Of so many partitions those that a rehydrator with these settings holds; None for all.

        Raises UsageError where the peers cannot share them.
        """
        return held(self.peer_url, self.shares, partitions)

    @property
    def watch_views(self) -> Shares:
        """The rehydrators that watch asks, each owner with its standbys. Raises UsageError for one named twice."""
        return shares_of(_groups(self.watch_view_url))

    @property
    def cluster(self) -> Cluster:
        """The Kafka cluster to use; raises UsageError for security settings that cannot work together."""
        return Cluster(self.bootstrap_servers, self._security(""))

    @property
    def origin(self) -> str:
        """The region that the mirror copies from; raises UsageError where none is named."""
        if not (self.origin_region and self.origin_bootstrap_servers):
            raise UsageError(
                "CUTWATER_ORIGIN_REGION and CUTWATER_ORIGIN_BOOTSTRAP_SERVERS say what a mirror copies: set both"
            )
        if self.origin_region == self.region:
            raise UsageError(
                f"CUTWATER_ORIGIN_REGION and CUTWATER_REGION are both {self.region}: no region mirrors itself"
            )
        return self.origin_region

    @property
    def beside(self) -> frozenset[str]:
        """The regions beside which a first generation may begin; raises UsageError for what is no other region."""
        named = frozenset(one.strip() for one in self.begin_beside.split(",") if one.strip())
        for one in sorted(named):
            if not re.fullmatch(REGION_PATTERN, one) or one == self.region:
                raise UsageError(
                    f"CUTWATER_BEGIN_BESIDE: {one[:40]!r} names no other region; one looks like us, several like "
                    "us,ap"
                )
        return named

    @property
    def views_dir(self) -> Path:
        """Below it lie the rehydrator's views; those of another region apart from this one's."""
        return self.data_dir / "replicas" / self.replica_of if self.replica_of else self.data_dir

    @property
    def slots(self) -> tuple[int, ...]:
        """The mirror's slots that this process holds; raises UsageError for what is none."""
        try:
            held = tuple(sorted({int(one) for one in self.mirror_slots.split(",") if one.strip()})) or tuple(
                range(SLOTS)
            )
        except ValueError:
            held = (-1,)
        if held[0] < 0 or held[-1] >= SLOTS:
            raise UsageError(
                f"CUTWATER_MIRROR_SLOTS: {self.mirror_slots!r}: write some of 0 to {SLOTS - 1}, as 0,1"
            )
        return held

    @property
    def kept_topic_settings(self) -> frozenset[str]:
        """What a mirror leaves as it is here; raises UsageError for what must follow the origin."""
        kept = frozenset(one.strip() for one in self.mirror_keeps.split(",") if one.strip())
        if wrong := sorted(kept - set(MAY_BE_KEPT)):
            raise UsageError(
                f"CUTWATER_MIRROR_KEEPS: {', '.join(wrong)}: a copy follows the origin in this; kept may be "
                f"{', '.join(MAY_BE_KEPT)}"
            )
        return kept

    @property
    def origin_cluster(self) -> Cluster:
        """The cluster that the mirror reads."""
        return Cluster(self.origin_bootstrap_servers, self._security("origin_"))

    def _security(self, of: str) -> Security:
        given = {name: getattr(self, f"{of}kafka_{name}") for name in _SECURITY}
        secrets = {
            name: one.get_secret_value() if isinstance(one, SecretStr) else one for name, one in given.items()
        }
        known = {_SECURITY[name]: one for name, one in secrets.items()}
        return Security(**known, settings=f"{OWN}{of.upper()}")

    @field_validator("generation", mode="before")
    @classmethod
    def _generation(cls, given: Any) -> Any:
        return Generation.parse(given) if isinstance(given, str) else given


def _groups(text: str) -> list[list[str]]:
    """What is written with commas between owners, and standbys behind bars."""
    return [[one.strip() for one in group.split("|")] for group in text.split(",") if group.strip()]


def environment(cluster: Cluster) -> dict[str, str]:
    """The variables by which another process reaches the same cluster: all of them, so that none is inherited."""
    one = cluster.security
    values = {
        "BOOTSTRAP_SERVERS": cluster.bootstrap,
        "KAFKA_SECURITY_PROTOCOL": one.protocol,
        "KAFKA_SASL_MECHANISM": one.mechanism,
        "KAFKA_SASL_USERNAME": one.username,
        "KAFKA_SASL_PASSWORD": one.password,
        "KAFKA_SSL_CA_FILE": one.ca_file,
        "KAFKA_SSL_CERTIFICATE_FILE": one.certificate_file,
        "KAFKA_SSL_KEY_FILE": one.key_file,
        "KAFKA_SSL_KEY_PASSWORD": one.key_password,
    }
    return {f"CUTWATER_{name}": value for name, value in values.items()}


def load_settings(given: Mapping[str, str] | None = None) -> Settings:
    """Read the environment, and `given` in its place; raises UsageError naming the variable that does not fit."""
    try:
        wanted: dict[str, Any] = {
            name.removeprefix("CUTWATER_").lower(): one for name, one in (given or {}).items()
        }
        return Settings(**wanted)
    except ValidationError as error:
        lines = [f"CUTWATER_{'_'.join(map(str, one['loc'])).upper()}: {one['msg']}" for one in error.errors()]
        raise UsageError("settings: " + "; ".join(lines)) from None
