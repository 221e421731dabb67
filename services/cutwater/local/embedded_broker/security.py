"""A secured broker: its certificates, users and listeners, as additions to `Broker`.

For tests of the clients; the brokers of `cutwater up` listen on the loopback address without security. The broker
gets passwords from its environment or salted (SCRAM): none is in a file or in a process's arguments.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cutwater.adapters.kafka.client_config import Security, jaas_quoted
from cutwater.local.machine.ports import LOOPBACK

JAAS_VARIABLE = "CUTWATER_BROKER_JAAS"
_ITERATIONS = 4_096
_KAFKA = "org.apache.kafka.common"
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, each a PEM file (PKCS 8)."""

    certificate_file: Path
    key_file: Path


@dataclass(frozen=True)
class BrokerSecurity:
    """The security of a broker's only public listener: SSL, SASL_PLAINTEXT or SASL_SSL.

    For itself, and for tests that manage it, the broker has an unsecured listener on the loopback address, on a
    port that the kernel chooses.
    """

    protocol: str
    ca_file: Path
    """The authority that signs both sides' certificates."""
    certificate: Certificate
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Passwords by user, for PLAIN and SCRAM."""
    client_certificate: Certificate | None = None
    """If set, clients must present a certificate of the authority: this one."""
    key_password: str = field(default="", repr=False)
    """The password of that certificate's key, if it is encrypted."""

    def client(self, username: str = "", mechanism: str = "SCRAM-SHA-512") -> Security:
        """Return the client security for `username`, by default the first user."""
        names = {"protocol": self.protocol}
        if self.protocol.startswith("SASL"):
            username = username or next(iter(self.users))
            names |= {"mechanism": mechanism, "username": username, "password": self.users[username]}
        if self.protocol.endswith("SSL"):
            names["ca_file"] = str(self.ca_file)
        if shown := self.client_certificate:
            names |= {"certificate_file": str(shown.certificate_file), "key_file": str(shown.key_file)}
            names["key_password"] = self.key_password
        return Security(**names)

    def properties(self, port: int, controller_port: int) -> dict[str, str]:
        public = f"CLIENTS://{LOOPBACK}:{port},INTERNAL://{LOOPBACK}:0"
        settings = {
            "listeners": f"{public},CONTROLLER://{LOOPBACK}:{controller_port}",
            "advertised.listeners": public,
            "listener.security.protocol.map": f"CLIENTS:{self.protocol},INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "config.providers": "env",
            "config.providers.env.class": f"{_KAFKA}.config.provider.EnvVarConfigProvider",
        }
        if self.protocol.endswith("SSL"):
            settings |= self._prefixed(self._tls())
        if self.protocol.startswith("SASL"):
            settings |= self._prefixed(self._sasl())
        return settings

    def format_arguments(self) -> list[str]:
        """Return StorageTool's arguments that create the users: with salted passwords only."""
        return [
            f"--add-scram={mechanism}=[{_salted(name, password, mechanism)}]"
            for mechanism in (_HASHES if self.protocol.startswith("SASL") else ())
            for name, password in self.users.items()
        ]

    def environment(self) -> dict[str, str]:
        users = " ".join(f"user_{name}={jaas_quoted(password)}" for name, password in self.users.items())
        return {JAAS_VARIABLE: f"{_KAFKA}.security.plain.PlainLoginModule required {users};"}

    def _tls(self) -> dict[str, str]:
        both = self.certificate.certificate_file.with_suffix(".both.pem")
        parts = (self.certificate.key_file, self.certificate.certificate_file)
        both.write_text("".join(part.read_text(encoding="utf-8") for part in parts), encoding="utf-8")
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(both),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
            "ssl.client.auth": "required" if self.client_certificate else "none",
        }

    def _sasl(self) -> dict[str, str]:
        scram = f"{_KAFKA}.security.scram.ScramLoginModule required;"
        jaas = {f"{mechanism.lower()}.sasl.jaas.config": scram for mechanism in _HASHES}
        jaas["plain.sasl.jaas.config"] = f"${{env:{JAAS_VARIABLE}}}"
        return {"sasl.enabled.mechanisms": ",".join(("PLAIN", *_HASHES)), **jaas}

    def _prefixed(self, settings: Mapping[str, str]) -> dict[str, str]:
        return {f"listener.name.clients.{name}": value for name, value in settings.items()}


def _salted(name: str, password: str, mechanism: str) -> str:
    salt = hashlib.sha256(name.encode()).digest()[:16]
    salted = hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, _ITERATIONS)
    texts = {"salt": salt, "saltedpassword": salted}
    shown = ",".join(f'{key}="{base64.b64encode(value).decode()}"' for key, value in texts.items())
    return f"name={name},iterations={_ITERATIONS},{shown}"
