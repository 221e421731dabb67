"""Connection to a Kafka cluster: one model of brokers, TLS and SASL, converted to the options of each client.

Sources: librdkafka's CONFIGURATION.md, Kafka's documentation of client settings, aiokafka's of its clients.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from cutwater.adapters.runtime.kafka_client_log import ClientLog
from cutwater.core.errors import MachineError, UsageError

T = TypeVar("T")
OWN = "CUTWATER_"
"""Prefix of the settings of this region's own cluster."""
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
MECHANISMS = tuple(_LOGIN_MODULES)
_PROVIDER = "org.apache.kafka.common.config.provider"
_PROVIDERS = {
    "config.providers": "env,directory",
    "config.providers.env.class": f"{_PROVIDER}.EnvVarConfigProvider",
    "config.providers.env.param.allowlist.pattern": "CUTWATER_KAFKA_.*",
    "config.providers.directory.class": f"{_PROVIDER}.DirectoryConfigProvider",
}
"""Providers by which a Java client reads a value written as ${env:NAME} or ${directory:FOLDER:FILE}."""
_PBES2 = bytes.fromhex("06092a864886f70d01050d")
"""Object identifier of the modern encryption of keys, which Java 17 cannot read from PEM."""
_CONVERT = "convert it with 'openssl pkcs8 -topk8 -nocrypt', or '-topk8 -v1 PBE-SHA1-3DES' to keep it encrypted"


@dataclass(frozen=True)
class Security:
    """TLS and SASL of the clients. Files are PEM; `repr` never shows secrets."""

    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    """Certificates to trust; empty for the system's."""
    certificate_file: str = ""
    """The client's own certificate, if brokers require one."""
    key_file: str = ""
    key_password: str = field(default="", repr=False)
    settings: str = field(default=OWN, compare=False)
    """Prefix of the settings that these values are from."""

    def __post_init__(self) -> None:
        """Raise UsageError, naming the setting, for values that contradict each other."""
        try:
            self._require_possible()
        except UsageError as error:
            raise UsageError(self.rename_settings(str(error))) from None

    def _require_possible(self) -> None:
        _require("CUTWATER_KAFKA_SECURITY_PROTOCOL", self.protocol, PROTOCOLS)
        if self.sasl:
            _require("CUTWATER_KAFKA_SASL_MECHANISM", self.mechanism, MECHANISMS)
        if self.sasl and not (self.username and self.password):
            raise UsageError("SASL needs CUTWATER_KAFKA_SASL_USERNAME and CUTWATER_KAFKA_SASL_PASSWORD")
        if bool(self.certificate_file) != bool(self.key_file):
            raise UsageError("CUTWATER_KAFKA_SSL_CERTIFICATE_FILE and CUTWATER_KAFKA_SSL_KEY_FILE go together")

    def rename_settings(self, text: str) -> str:
        """Replace the names of the own cluster's settings in a text by those of this cluster."""
        for one in ("KAFKA_", "BOOTSTRAP_SERVERS"):
            text = text.replace(f"{OWN}{one}", f"{self.settings}{one}")
        return text

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")


@dataclass(frozen=True)
class Cluster:
    """The brokers of one cluster and the credentials for it."""

    bootstrap: str
    security: Security = field(default_factory=Security)

    def client(self, kind: Callable[..., T], settings: dict[str, Any], **options: Any) -> T:
        """Return a client of one of confluent-kafka's classes for these brokers.

        All protocol traffic goes through such clients: a simulated cluster returns simulated ones, and the code
        above is unchanged.

        The client logs to `runtime.kafka_client_log`, unless `options` contain another `logger`. A client that may
        stay unpolled for long gets the settings `QUIET`.
        """
        options.setdefault("logger", _client_log(self.security))
        # An admin client is a producer, whose metadata request would create a topic if the brokers allow that.
        return kind({**self.librdkafka(), "allow.auto.create.topics": False, **settings}, **options)

    def reader(self, kind: Callable[..., T], topic: str, **options: Any) -> T:
        """Return a reader of one topic's batches, of a class that uses aiokafka's client.

        It requests the settings for each client that it creates: files may have changed by then.
        """
        return kind(self.aiokafka, topic, **options)

    def librdkafka(self) -> dict[str, Any]:
        """Return options for confluent-kafka, and for kcat after `-X`."""
        one = self.security
        settings = {"bootstrap.servers": self.bootstrap, "security.protocol": one.protocol}
        if one.sasl:
            settings |= {"sasl.mechanism": one.mechanism, "sasl.username": one.username}
            settings |= {"sasl.password": one.password}
        if one.tls:
            settings |= {"ssl.ca.location": one.ca_file} if one.ca_file else {}
            settings |= {"ssl.certificate.location": one.certificate_file} if one.certificate_file else {}
            settings |= {"ssl.key.location": one.key_file} if one.key_file else {}
            settings |= {"ssl.key.password": one.key_password} if one.key_password else {}
        return settings

    def jvm(self) -> dict[str, str]:
        """Return options for Java clients; Spark takes each with the prefix `kafka.`.

        They contain no secret, since Spark shows options, passwords included, in its plans and pages. Java reads
        the passwords from its own environment and the key from its file. Certificates are passed as text: as
        files they would have to be at the same path on every executor. Raises MachineError for an unreadable
        file, UsageError for a password or key that Java cannot use.
        """
        one = self.security
        settings = {"bootstrap.servers": self.bootstrap, "security.protocol": one.protocol}
        if one.sasl:
            module = _LOGIN_MODULES[one.mechanism]
            login = f"username={jaas_quoted(one.username)} password={_jaas_variable(one.password)}"
            settings |= {"sasl.mechanism": one.mechanism, "sasl.jaas.config": f"{module} required {login};"}
        if one.tls and one.ca_file:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _text(one.ca_file)}
        if one.tls and one.key_file:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": _text(one.certificate_file)}
            settings |= {"ssl.keystore.key": _java_key(one.key_file)}
            settings |= {"ssl.key.password": "${env:CUTWATER_KAFKA_SSL_KEY_PASSWORD}"} if one.key_password else {}
        return settings | (_PROVIDERS if one.sasl or one.key_file else {})

    def aiokafka(self) -> dict[str, Any]:
        """Return keyword arguments of an aiokafka client, which Faust passes on."""
        one = self.security
        settings: dict[str, Any] = {"bootstrap_servers": self.bootstrap, "security_protocol": one.protocol}
        if one.sasl:
            settings |= {"sasl_mechanism": one.mechanism, "sasl_plain_username": one.username}
            settings |= {"sasl_plain_password": one.password}
        if one.tls:
            settings["ssl_context"] = self.ssl_context()
        return settings

    def ssl_context(self) -> ssl.SSLContext:
        one = self.security
        try:
            context = ssl.create_default_context(cafile=one.ca_file or None)
            if one.key_file:
                context.load_cert_chain(one.certificate_file, one.key_file, one.key_password or None)
        except OSError as error:  # ssl.SSLError is one
            raise MachineError(f"the TLS files of Kafka cannot be used: {error}") from None
        return context


@lru_cache(maxsize=16)
def _client_log(security: Security) -> ClientLog:
    # One per cluster, so that the repeated lines of several clients are suppressed together.
    return ClientLog(secrets=(security.password, security.key_password))


def _require(setting: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{setting}: '{value}'; allowed: {', '.join(allowed)}")


def jaas_quoted(value: str) -> str:
    """Quote a string for a JAAS configuration, with Java's escapes; a line end would end it."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _jaas_variable(password: str) -> str:
    # Java substitutes the password without escaping, so it must not need any.
    if set(password) & set('"\\\n\r'):
        raise UsageError(
            "CUTWATER_KAFKA_SASL_PASSWORD holds a quote, a backslash or a line end: such a password cannot be "
            "passed to Java without showing it; choose one without"
        )
    return '"${env:CUTWATER_KAFKA_SASL_PASSWORD}"'


def _java_key(file: str) -> str:
    # Java's own errors for an unusable key do not help.
    text = _text(file)
    if "-----BEGIN PRIVATE KEY" not in text and "-----BEGIN ENCRYPTED PRIVATE KEY" not in text:
        raise UsageError(f"CUTWATER_KAFKA_SSL_KEY_FILE: {file} is not in PKCS 8 form; {_CONVERT}")
    body = "".join(line for line in text.splitlines() if not line.startswith("-----"))
    if "ENCRYPTED" in text and _PBES2 in _decoded(body):
        raise UsageError(f"CUTWATER_KAFKA_SSL_KEY_FILE: Java cannot read how {file} is encrypted; {_CONVERT}")
    path = Path(file).resolve()
    if set(str(path)) & set(":{}"):
        raise UsageError(f"CUTWATER_KAFKA_SSL_KEY_FILE: {path} contains one of : {{ }}; move it elsewhere")
    return f"${{directory:{path.parent}:{path.name}}}"


def _decoded(body: str) -> bytes:
    try:
        return base64.b64decode(body)
    except ValueError:
        return b""  # not a key: the client reports it


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MachineError(f"{file}: a TLS file of Kafka cannot be read: {error}") from None
