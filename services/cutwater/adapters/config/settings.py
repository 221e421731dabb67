"""Settings of all services, from environment variables with the prefix CUTWATER_."""

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
from cutwater.core.access.roles import Tokens
from cutwater.core.errors import UsageError
from cutwater.core.mirror.topic_config_sync import MAY_BE_KEPT
from cutwater.core.monitoring.alerts import SAFE_ACTIONS
from cutwater.core.protocol.generation import REGION_PATTERN, Generation
from cutwater.core.protocol.mirror_records import SLOTS
from cutwater.core.query.peer_placement import Shares, held_partitions, shares_of
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
"""Settings after the prefix KAFKA_, and their names in `Security`."""


class Settings(BaseSettings):
    """Configuration of a process besides its job file. Each field is an environment variable CUTWATER_<NAME>."""

    model_config = SettingsConfigDict(env_prefix="CUTWATER_", extra="ignore")

    bootstrap_servers: str = Field("127.0.0.1:9092", description="Kafka brokers, host:port, comma-separated.")
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="Security protocol of the brokers."
    )
    kafka_sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "", description="SASL mechanism."
    )
    kafka_sasl_username: str = Field("", description="User name for SASL.")
    kafka_sasl_password: SecretStr = Field(SecretStr(""), description="Password for SASL.")
    kafka_ssl_ca_file: str = Field("", description="PEM file of certificates to trust; else the system's.")
    kafka_ssl_certificate_file: str = Field(
        "", description="PEM file of this client's certificate, if the brokers require one."
    )
    kafka_ssl_key_file: str = Field("", description="PEM file of that certificate's key (PKCS 8).")
    kafka_ssl_key_password: SecretStr = Field(SecretStr(""), description="Password of that key.")
    origin_region: str = Field(
        "",
        pattern=f"^({REGION_PATTERN})?$",
        description="Name of the other region. The mirror copies from it. Driver and commit-signal query it, "
        "before they continue, whether it runs the job. Names of its generations contain it.",
    )
    origin_bootstrap_servers: str = Field(
        "", description="Kafka brokers of that region. Mirror, driver and commit-signal only read there."
    )
    origin_kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="Security protocol of those brokers."
    )
    origin_kafka_sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "", description="SASL mechanism there."
    )
    origin_kafka_sasl_username: str = Field("", description="User name for SASL there.")
    origin_kafka_sasl_password: SecretStr = Field(SecretStr(""), description="Password for SASL there.")
    origin_kafka_ssl_ca_file: str = Field("", description="PEM file of certificates to trust there.")
    origin_kafka_ssl_certificate_file: str = Field("", description="PEM file of the client's certificate there.")
    origin_kafka_ssl_key_file: str = Field("", description="PEM file of that certificate's key (PKCS 8).")
    origin_kafka_ssl_key_password: SecretStr = Field(SecretStr(""), description="Password of that key.")
    origin_registry_url: str = Field(
        "", description="Schema registry there; else the job file's. The mirror copies the subjects from it."
    )
    origin_registry_username: str = Field("", description="User name for that registry.")
    origin_registry_password: SecretStr = Field(SecretStr(""), description="Password for that registry.")
    mirror_slots: str = Field(
        "",
        description="Slots that this mirror process holds, such as 0,1; all four if empty. Several processes "
        "share the partitions by holding different slots; the process with slot 0 announces arrivals.",
    )
    mirror_bytes_per_s: int = Field(
        0,
        ge=0,
        description="Bytes of keys and values per second that this mirror process copies; 0 for no limit.",
    )
    mirror_keeps: str = Field(
        "",
        description="Settings of the copied events' topic that this region decides itself, comma-separated: some "
        "of retention.ms, retention.bytes, message.timestamp.after.max.ms. The others are raised to the origin's.",
    )
    mirror_port: int = Field(
        0, ge=0, le=65_535, description="Port of the mirror's Prometheus metrics; 0 turns them off."
    )
    replication_factor: int = Field(
        0,
        ge=0,
        le=100,
        description="Replicas of Cutwater's topics on your own cluster; 0 for 3, or one per broker if there are "
        "fewer.",
    )
    min_insync_replicas: int = Field(
        0, ge=0, le=100, description="Replicas that must acknowledge a record; 0 for one less than the replicas."
    )
    region: str = Field("local", pattern=f"^{REGION_PATTERN}$", description="Name of this region.")
    generation: Annotated[Generation, NoDecode] = Field(
        default_factory=lambda data: Generation(1, data.get("region", "local")),
        description="The generation of a driver or commit-signal, if it is not the promoted one.",
    )
    begin_beside: str = Field(
        "",
        description="Regions whose job is copied here, comma-separated, such as us. This region's first "
        "generation starts beside them. Only needed until its driver has started.",
    )
    keep_generations_hours: int = Field(
        168,
        ge=0,
        le=100_000,
        description="Hours that 'cutwater generation prune' keeps a generation after another one took over.",
    )
    keep_streams_hours: int = Field(
        720,
        ge=0,
        le=100_000,
        description="Hours that 'cutwater prune' keeps milestones and their barriers.",
    )
    data_dir: Path = Field(
        Path("build/cutwater"),
        description="Folder for state, checkpoints, logs and, with a local driver, Spark's working files.",
    )
    host: str = Field("127.0.0.1", description="Address that HTTP services bind to.")
    port: int = Field(8321, ge=0, le=65_535, description="Port of the rehydrator's HTTP API; 0 for a free one.")
    peers: str = Field(
        "",
        description="URLs of all rehydrators that share the job's partitions, including this one, comma-separated "
        "and the same for each of them. If empty, this one holds all partitions. Standbys follow their owner "
        "after a bar: http://a:8321|http://a2:8321.",
    )
    peer: str = Field("", description="This rehydrator's own URL, written as in CUTWATER_PEERS.")
    regions: str = Field(
        "",
        description="URLs of the regions' rehydrators for the global view: us=http://a:8321,eu=http://b:8321. "
        "Further rehydrators, used if the first does not answer, follow after bars: "
        "us=http://a:8321|http://a2:8321.",
    )
    region_tokens: SecretStr = Field(
        SecretStr(""),
        description="Tokens of the regions' rehydrators, if they differ from CUTWATER_API_TOKEN: "
        "us=TOKEN,eu=TOKEN. Separate one token per URL of a region by bars; us= sends none.",
    )
    region_ca_files: str = Field(
        "",
        description="PEM files of certificates to trust at a region's https URLs instead of the public ones: "
        "us=/etc/us-ca.pem. Separate one file per URL of a region by bars.",
    )
    replica: bool = Field(
        False,
        description="This rehydrator only reads: it takes no snapshots and is no peer. A selection implies this.",
    )
    replica_of: str = Field(
        "",
        pattern=f"^({REGION_PATTERN})?$",
        description="This rehydrator is a replica of that other region: it serves what a mirror has copied here.",
    )
    select_partitions: str = Field("", description="Hold only these partitions of the changelog, such as 0,2.")
    select_keys: str = Field(
        "", description='Hold only these keys: a,b or, if keys contain commas, a JSON list: ["a,b", "c"].'
    )
    select_prefixes: str = Field("", description="Also hold the keys with one of these prefixes, same syntax.")
    select_since: str = Field("", description="Hold only windows that end after this: ISO 8601 or ms since 1970.")
    restore_workers: int = Field(
        0,
        ge=0,
        le=64,
        description="Processes for a bulk restore; 0 for one per core, at most 4.",
    )
    view_memory_mb: int = Field(
        48,
        ge=16,
        le=1 << 20,
        description="Memory of the rehydrator's RocksDB for cached blocks and write buffers together, MB.",
    )
    native: bool = Field(
        True, description="Use the optional module cutwater-native for bulk restores, if it is installed."
    )
    preload: bool = Field(
        True,
        description="Load the rows of a candidate before its promotion. Readers switch sooner, at the cost of the "
        "disk and memory of a second view, or of two more if the output is published.",
    )
    view_census_ms: int = Field(
        600_000,
        ge=1_000,
        le=86_400_000,
        description="Time between two measurements of the view's size and its distribution, ms.",
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
    watch_tick_ms: int = Field(2_000, ge=50, le=60_000, description="Time between two checks of the watch, ms.")
    watch_silent_ms: int = Field(
        60_000,
        ge=100,
        le=86_400_000,
        description="A commit-signal, publisher or view that lags without progress for this time is silent, ms.",
    )
    watch_driver_silent_ms: int = Field(
        180_000,
        ge=100,
        le=86_400_000,
        description="A driver without barrier or heartbeat for this time is silent, ms; an idle one pauses 60 s.",
    )
    watch_stuck_ms: int = Field(
        120_000, ge=100, le=86_400_000, description="An epoch that takes longer than this is stuck, ms."
    )
    watch_window_ms: int = Field(
        300_000,
        ge=1_000,
        le=86_400_000,
        description="Time over which dead letters, late events, skew, growing drift and fenced writers count, ms.",
    )
    watch_dead_letters: int = Field(
        10, ge=1, le=10**9, description="This many dead letters within that time raise an alert."
    )
    show_payloads: bool = Field(
        True,
        description="Show the first 200 bytes of an event in lists of dead letters and in `init`; 0 to hide them.",
    )
    watch_late: int = Field(
        1_000,
        ge=1,
        le=10**12,
        description="This many late events within that time raise an alert.",
    )
    watch_late_share: float = Field(
        0.01,
        gt=0,
        le=1,
        description="This share of late events among all raises an alert, too, if at least ten are late.",
    )
    watch_full_within_h: float = Field(
        72.0,
        ge=0,
        le=288,
        description="A disk that is full within this time at its present rate raises an alert, hours; 0 for none. "
        "Watched are the data folder's, and the brokers' if they tell.",
    )
    watch_recovery_s: float = Field(
        0.0,
        ge=0,
        le=86_400,
        description="The target for a restore of the view, s: a newest snapshot that is too old for it raises an "
        "alert. 0 for no target.",
    )
    watch_actions: str = Field(
        "",
        description="What the watch may do by itself about an alert, comma-separated: some of restart, "
        "pause-mirror, shed, hold (docs/OPERATING.md); nothing if empty.",
    )
    watch_action_after_ms: int = Field(
        300_000, ge=1_000, le=86_400_000, description="Time that an alert is on before that, ms."
    )
    watch_action_apart_ms: int = Field(
        1_800_000,
        ge=60_000,
        le=604_800_000,
        description="The least time between two such actions of one kind on one process or mirror, ms.",
    )
    watch_view_url: str = Field(
        "",
        description="URLs of the rehydrators' HTTP APIs that the watch queries. Separate rehydrators that share "
        "the partitions by commas, and their standbys by bars, as in CUTWATER_PEERS. 'cutwater up' sets it.",
    )
    alert_webhook_url: SecretStr = Field(
        SecretStr(""),
        description="URL to which alerts are posted as JSON; none if empty. A secret, as such URLs may hold a "
        "key.",
    )
    alert_webhook_token: SecretStr = Field(
        SecretStr(""), description="Token sent with them (Authorization: Bearer)."
    )
    otlp_url: str = Field(
        "",
        description="URL of an OpenTelemetry collector, such as http://collector:4318, to which watch, driver and "
        "mirror send their steps of each milestone's trace; none if empty. Needs cutwater[otel].",
    )
    otlp_token: SecretStr = Field(SecretStr(""), description="Token sent with them (Authorization: Bearer).")
    api_token: SecretStr = Field(
        SecretStr(""), description="Token that the HTTP API requires (Authorization: Bearer); none if empty."
    )
    tokens: SecretStr = Field(
        SecretStr(""),
        description="Further tokens of HTTP API and console, each with a name and a role (viewer, operator, "
        "owner): NAME:ROLE:SHA256, comma-separated (docs/SECURITY.md). Commands act as the one that "
        "CUTWATER_API_TOKEN is. Needs CUTWATER_API_TOKEN.",
    )
    metrics_token: SecretStr = Field(
        SecretStr(""),
        description="Token that the metrics ports require (Authorization: Bearer). The HTTP API's /metrics "
        "accepts it, too. None if empty.",
    )
    api_hosts: str = Field(
        "",
        description="Host names, comma-separated, that an HTTP port without a token accepts besides its addresses "
        "and localhost, such as a proxy's and those of peers. Requests with other names are refused; if none is "
        "set, only on the loopback address.",
    )
    api_by_proxy: bool = Field(
        False,
        description="Reach the HTTP API through the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY. The proxy sees "
        "the token.",
    )
    console_port: int = Field(
        0,
        ge=0,
        le=65_535,
        description="Port of the console that 'cutwater up' starts; 0 for 8330, or a free one if that is in use.",
    )
    spark_master: str = Field("local[*]", description="Spark master of the driver.")
    spark_authenticate: bool = Field(
        True,
        description="On a cluster, Spark's processes authenticate each other by a secret, and encrypt network "
        "traffic and spilled data. If false, spark-defaults.conf decides (docs/SECURITY.md).",
    )
    spark_secret: SecretStr = Field(
        SecretStr(""),
        description="That secret for a master spark://: the secret of master and workers. YARN and Kubernetes "
        "create one.",
    )
    spark_jars: str = Field("", description="The connectors' jars, comma-separated; 'cutwater up' sets it.")
    spark_classes: str = Field(
        "",
        description="Archive of classes (see OPERATING) with which a local driver starts; 'cutwater up' has one.",
    )
    state_memory_mb: int = Field(
        512,
        ge=128,
        le=1_048_576,
        description="RocksDB's memory beside the heap of each JVM that holds Spark's state: a quarter for write "
        "buffers, the rest for blocks, filters and indexes, of which ten million rows have about 40 MB.",
    )
    cleaning_rest_ms: int = Field(
        60_000,
        ge=0,
        description="The least time between two cleanings of a state whose closed windows may be amended "
        "(late.amend_for); five times that in a backlog.",
    )
    spark_ui_port: int = Field(0, ge=0, le=65_535, description="Port of the Spark UI; 0 turns the UI off.")
    spark_driver_memory: str = Field("1g", description="Memory of the driver's JVM.")
    spark_application: str = Field(
        "",
        pattern=r"^(127\.0\.0\.1:[0-9]{1,5})?$",
        description="Port of a Spark application that several drivers share; 'cutwater up --one-application' sets "
        "it. If empty, a driver starts one of its own.",
    )
    spark_application_key: SecretStr = Field(SecretStr(""), description="What a driver must send to that port.")
    checkpoint: str | None = Field(
        None,
        description="Spark checkpoint location, such as s3a://BUCKET/...; by default below the data folder.",
    )
    s3_endpoint: str = Field(
        "",
        description="URL of an S3-compatible object store; Amazon's if empty. Driver and executors take the keys "
        "from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, or from their machine's role.",
    )
    policy: Path | None = Field(
        None,
        description="YAML with the policy that 'doctor' and 'plan' check jobs against (docs/POLICY.md).",
    )
    snapshots: str = Field(
        "",
        description="Location of the rehydrator's snapshots: a folder or a URL (s3://BUCKET/PREFIX, gs://, "
        "az://). If empty, none are taken. A driver reads its parent's state there if the changelog lacks it. If "
        "it is not set, 'cutwater up' uses a folder in the data folder.",
    )
    snapshot_every_ms: int = Field(
        600_000,
        ge=100,
        le=86_400_000,
        description="Minimum time between two snapshots, ms; not with an objective for recovery (CADENCE.md).",
    )
    snapshot_keep_last: int = Field(3, ge=1, le=10_000, description="Number of newest snapshots to keep.")
    snapshot_keep_hours: int = Field(24, ge=0, le=10_000, description="Hours of which one snapshot each is kept.")
    snapshot_keep_days: int = Field(7, ge=0, le=10_000, description="Days of which one snapshot each is kept.")
    snapshot_keep_local: int = Field(
        2,
        ge=1,
        le=100,
        description="Snapshots kept beside the view as links to its files; beside a replica's view one.",
    )
    snapshot_grace_ms: int = Field(
        86_400_000,
        ge=600_000,
        le=31_536_000_000,
        description="How long a file stays after the last snapshot that needs it, ms; an upload may take half of "
        "it.",
    )
    snapshot_key: SecretStr = Field(
        SecretStr(""),
        description="Key that signs the snapshots' manifests, at least 32 characters. Older keys that are still "
        "accepted follow after commas. If it is set, snapshots without a valid signature are not used: set it for "
        "all processes that read or write the store.",
    )
    s3_anonymous: bool = Field(False, description="Access the object store without keys: it is public.")
    trigger_ms: int = Field(
        500,
        ge=0,
        le=3_600_000,
        description="Minimum time between two epochs, ms; not with readable_p99 (CADENCE.md).",
    )
    source_tasks: int = Field(
        0,
        ge=0,
        le=100_000,
        description="The most tasks that read the source in an epoch; 0 for one per partition. Fewer make small "
        "epochs shorter and drain a backlog on fewer cores (CADENCE.md).",
    )
    catch_up_share: float = Field(
        1.0,
        ge=0.05,
        le=1,
        description="Share of the time that a candidate's driver works on epochs until its promotion is "
        "requested.",
    )
    heartbeat_ms: int = Field(
        2_000, ge=100, le=3_600_000, description="Time between an idle job's heartbeats, ms."
    )
    hints: bool = Field(True, description="Announce 'committed N' sooner; correctness does not depend on it.")
    collect_share: float = Field(
        0.5,
        ge=0,
        le=1,
        description="Clear windows once this share of the changelog, in event time, is below the horizon; 1 for "
        "never.",
    )
    recount_events: int = Field(
        10_000_000,
        ge=0,
        description="The most events that a new generation reads once more for measures of kept: state. If it "
        "needs more it counts none again; 0 for never.",
    )
    failover_min_age_s: float = Field(
        90.0,
        ge=0,
        description="A failover is refused if the other region was heard of more recently than this, in seconds. "
        "After a longer silence a job continues only once the other region (CUTWATER_ORIGIN_*) has answered.",
    )
    go_on_behind: str = Field(
        "",
        description="Token of the newest milestone here. Driver and commit-signal continue after that milestone "
        "only, even if the other region does not answer.",
    )
    wait_ms: int = Field(60_000, ge=0, le=3_600_000, description="Maximum wait for a broker at start, ms.")
    registry_url: str = Field("", description="Schema registry, for format confluent; else the job file's.")
    registry_username: str = Field("", description="User name for the schema registry.")
    registry_password: SecretStr = Field(SecretStr(""), description="Password for the schema registry.")
    log_json: bool = Field(False, description="Logs as JSON lines, on standard output.")

    @field_validator("api_token", "metrics_token")
    @classmethod
    def _fits_a_header(cls, value: SecretStr) -> SecretStr:
        if value.get_secret_value() and not TOKEN.fullmatch(value.get_secret_value()):
            raise ValueError(TOKEN_RULE)
        return value

    @field_validator("tokens")
    @classmethod
    def _have_roles(cls, value: SecretStr) -> SecretStr:
        Tokens(value.get_secret_value())
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
        """The keys that sign snapshots; none if they are not signed."""
        return Keys.parse(self.snapshot_key.get_secret_value())

    @property
    def api_headers(self) -> dict[str, str]:
        token = self.api_token.get_secret_value()
        return {"Authorization": f"Bearer {token}"} if token else {}

    @property
    def access(self) -> Tokens:
        """The tokens of HTTP API and console. Raises UsageError if only some of the ports' callers have one."""
        named, plain = self.tokens.get_secret_value(), self.api_token.get_secret_value()
        if named and not plain:
            raise UsageError(
                "CUTWATER_TOKENS is set and CUTWATER_API_TOKEN is not: services ask each other with that token, "
                "and a command acts as the one that it names"
            )
        return Tokens(named, plain)

    @property
    def api_names(self) -> frozenset[str]:
        """The host names of the HTTP ports besides their addresses."""
        return frozenset(one.strip() for one in self.api_hosts.split(",") if one.strip())

    @property
    def needs_spark_secret(self) -> bool:
        """True if Spark is to authenticate under a master that creates no secret by itself."""
        return self.spark_authenticate and not self.spark_master.startswith(("local", "yarn", "k8s:"))

    @property
    def shares(self) -> Shares:
        """Owners with their standbys; none if this one holds everything. Raises UsageError for an invalid URL."""
        return shares_of([rehydrator_url(one, "CUTWATER_PEERS") for one in group] for group in _groups(self.peers))

    @property
    def region_apis(self) -> dict[str, tuple[Api, ...]]:
        """By region, the rehydrators to query in order; none without a global view. Raises UsageError."""
        tokens, own = self.region_tokens.get_secret_value(), self.api_token.get_secret_value()
        return region_apis(self.regions, tokens, self.region_ca_files, own)

    @property
    def peer_url(self) -> str:
        return self.peer.rstrip("/")

    def held(self, partitions: int) -> Partitions | None:
        """Return the held partitions; None for all. Raises UsageError if the peers cannot share `partitions`."""
        return held_partitions(self.peer_url, self.shares, partitions)

    @property
    def safe_actions(self) -> frozenset[str]:
        """What the watch may do by itself; raises UsageError for what it cannot do."""
        named = frozenset(one.strip() for one in self.watch_actions.split(",") if one.strip())
        if wrong := sorted(named - set(SAFE_ACTIONS)):
            raise UsageError(
                f"CUTWATER_WATCH_ACTIONS: {', '.join(wrong)}: write some of {', '.join(SAFE_ACTIONS)}"
            )
        return named

    @property
    def watch_views(self) -> Shares:
        """The rehydrators for the watch, each owner with its standbys. Raises UsageError for a duplicate."""
        return shares_of(_groups(self.watch_view_url))

    @property
    def cluster(self) -> Cluster:
        """The Kafka cluster to use; raises UsageError for security settings that contradict each other."""
        return Cluster(self.bootstrap_servers, self._security(""))

    @property
    def origin(self) -> str:
        """The region that the mirror copies from; raises UsageError if none is set."""
        if not (self.origin_region and self.origin_bootstrap_servers):
            raise UsageError(
                "CUTWATER_ORIGIN_REGION and CUTWATER_ORIGIN_BOOTSTRAP_SERVERS name what a mirror copies: set both"
            )
        if self.origin_region == self.region:
            raise UsageError(
                f"CUTWATER_ORIGIN_REGION and CUTWATER_REGION are both {self.region}: no region mirrors itself"
            )
        return self.origin_region

    @property
    def beside(self) -> frozenset[str]:
        """The regions beside which a first generation may start; raises UsageError for an invalid region."""
        named = frozenset(one.strip() for one in self.begin_beside.split(",") if one.strip())
        for one in sorted(named):
            if not re.fullmatch(REGION_PATTERN, one) or one == self.region:
                raise UsageError(
                    f"CUTWATER_BEGIN_BESIDE: {one[:40]!r} names no other region; write one as us, several as us,ap"
                )
        return named

    @property
    def views_dir(self) -> Path:
        """The parent folder of the rehydrator's views; a replica of another region has its own."""
        return self.data_dir / "replicas" / self.replica_of if self.replica_of else self.data_dir

    @property
    def slots(self) -> tuple[int, ...]:
        """The mirror's slots that this process holds; raises UsageError for an invalid one."""
        try:
            held = tuple(sorted({int(one) for one in self.mirror_slots.split(",") if one.strip()})) or tuple(
                range(SLOTS)
            )
        except ValueError:
            held = (-1,)
        if held[0] < 0 or held[-1] >= SLOTS:
            raise UsageError(
                f"CUTWATER_MIRROR_SLOTS: {self.mirror_slots!r}: write numbers from 0 to {SLOTS - 1}, such as 0,1"
            )
        return held

    @property
    def kept_topic_settings(self) -> frozenset[str]:
        """Topic settings that a mirror does not copy; raises UsageError for one that must follow the origin."""
        kept = frozenset(one.strip() for one in self.mirror_keeps.split(",") if one.strip())
        if wrong := sorted(kept - set(MAY_BE_KEPT)):
            raise UsageError(
                f"CUTWATER_MIRROR_KEEPS: {', '.join(wrong)}: a copy follows the origin in these settings; allowed "
                f"are {', '.join(MAY_BE_KEPT)}"
            )
        return kept

    @property
    def origin_cluster(self) -> Cluster:
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
    """Parse a list with commas between owners and bars before standbys."""
    return [[one.strip() for one in group.split("|")] for group in text.split(",") if group.strip()]


def environment(cluster: Cluster) -> dict[str, str]:
    """Return all variables for the same cluster, so that another process inherits none of its own."""
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
    """Read the environment, with `given` taking precedence; raises UsageError naming an invalid variable."""
    try:
        wanted: dict[str, Any] = {
            name.removeprefix("CUTWATER_").lower(): one for name, one in (given or {}).items()
        }
        return Settings(**wanted)
    except ValidationError as error:
        lines = [f"CUTWATER_{'_'.join(map(str, one['loc'])).upper()}: {one['msg']}" for one in error.errors()]
        raise UsageError("settings: " + "; ".join(lines)) from None
