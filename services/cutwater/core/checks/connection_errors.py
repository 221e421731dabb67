"""Why brokers do not let a process in, and which setting to look at: judged from a client's own words.

The words are librdkafka's. `tests/unit/core/checks/test_connection_errors.py` holds those that were met on real
brokers.
"""

from __future__ import annotations

from dataclasses import dataclass

_SERVERS = "CUTWATER_BOOTSTRAP_SERVERS"
_PROTOCOL = "CUTWATER_KAFKA_SECURITY_PROTOCOL"
_USER = "CUTWATER_KAFKA_SASL_USERNAME and CUTWATER_KAFKA_SASL_PASSWORD"
_CA = "CUTWATER_KAFKA_SSL_CA_FILE"
_OWN = "CUTWATER_KAFKA_SSL_CERTIFICATE_FILE and CUTWATER_KAFKA_SSL_KEY_FILE"

# (codes, or none for any; a sign in the text; advice; final). The first that fits decides.
_VERDICTS = (
    ((), "authorization failed", "this user may not do that: docs/SECURITY.md lists the ACLs", True),
    (("_AUTHENTICATION",), "supported mechanisms",
     "the brokers do not know this SASL mechanism: check CUTWATER_KAFKA_SASL_MECHANISM", True),
    (("_AUTHENTICATION",), "", f"the brokers refuse this user or password: check {_USER}", True),
    # Since TLS 1.3 the brokers judge a client's certificate after the handshake: an alert on an open connection.
    (("_SSL", "_TRANSPORT"), "ssl/tls alert",
     f"the brokers ask for a certificate of this client that they trust: check {_OWN}", True),
    # librdkafka has one text for an unknown authority and for a wrong host.
    (("_SSL", "_TRANSPORT"), "certificate verify failed",
     f"the brokers' certificate is not trusted: check {_CA}, and that {_SERVERS} names hosts in it", True),
    (("_SSL",), "", f"the TLS connection fails: check {_PROTOCOL}, {_CA} and {_OWN}", False),
    (("_TRANSPORT",), "connect to", f"nothing listens there: start it, or check {_SERVERS}", False),
    (("_RESOLVE",), "", f"no such host: check {_SERVERS}", False),
    # A connection that is only cut: a wrong protocol, or a broker that starts.
    (("_ALL_BROKERS_DOWN",), "", f"something answers and does not speak {{protocol}}: check {_PROTOCOL}", False),
)  # fmt: skip

SETTING_OF = {
    "ssl.ca.location": _CA,
    "ssl.certificate.location": "CUTWATER_KAFKA_SSL_CERTIFICATE_FILE",
    "ssl.key.location": "CUTWATER_KAFKA_SSL_KEY_FILE",
}
"""Properties of librdkafka that name files, and the settings they come from."""


@dataclass(frozen=True)
class Refusal:
    """What a person should do; `final` when waiting cannot mend it."""

    advice: str
    final: bool


def judge(code: str, text: str, protocol: str) -> Refusal | None:
    """The refusal in an error of librdkafka, by its code's name and text; None where it is none."""
    words = text.lower()
    for codes, sign, advice, final in _VERDICTS:
        if (not codes or code in codes) and sign in words:
            return Refusal(advice.format(protocol=protocol), final)
    return None


def preferred(before: Refusal | None, now: Refusal | None) -> bool:
    """Does `now` say more than what was heard before it? The cause comes first, its consequences follow."""
    return now is not None and (before is None or (now.final and not before.final))
