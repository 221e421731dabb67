"""Brokers that let in only whom they know, for tests: their users and how to be one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.local.embedded_broker.security import BrokerSecurity

# What JAAS, shells and property files could stumble over.
ADMIN_PASSWORD = "ad\"min's \\secret; $1 #2"
USERS = {
    "admin": ADMIN_PASSWORD,
    **{
        name: f"secret-of-{name}"
        for name in ("driver", "signal", "view", "publish", "watch", "mirror", "operator", "nobody")
    },
}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Nobody without a name comes in by the clients' listener: these are the broker's own parts.
    "super.users": "User:admin;User:ANONYMOUS",
}


@dataclass(frozen=True)
class Secured:
    """A running broker with its security."""

    bootstrap: str
    security: BrokerSecurity
    folder: Path

    def cluster(self, user: str = "", mechanism: str = "SCRAM-SHA-512") -> Cluster:
        return Cluster(self.bootstrap, self.security.client(user, mechanism))


Start = Callable[..., Secured]
