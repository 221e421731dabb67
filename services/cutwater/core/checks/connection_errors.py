"""Advice for connection errors: the setting to check, by the error text of librdkafka.

`tests/unit/core/checks/test_connection_errors.py` has the texts that were observed on real brokers.
"""

from __future__ import annotations

from dataclasses import dataclass

_SERVERS = "CUTWATER_BOOTSTRAP_SERVERS"
_PROTOCOL = "CUTWATER_KAFKA_SECURITY_PROTOCOL"
_USER = "CUTWATER_KAFKA_SASL_USERNAME and CUTWATER_KAFKA_SASL_PASSWORD"
_CA = "CUTWATER_KAFKA_SSL_CA_FILE"
_OWN = "CUTWATER_KAFKA_SSL_CERTIFICATE_FILE and CUTWATER_KAFKA_SSL_KEY_FILE"

# (codes, or none for any; a fragment of the text; advice; final). The first match decides.
_VERDICTS = (
    ((), "authorization failed", "this user may not do that: docs/SECURITY.md lists the ACLs", True),
    (("_AUTHENTICATION",), "supported mechanisms",
     "the brokers do not support this SASL mechanism: check CUTWATER_KAFKA_SASL_MECHANISM", True),
    (("_AUTHENTICATION",), "", f"the brokers refuse this user or password: check {_USER}", True),
    # Since TLS 1.3 brokers check a client's certificate after the handshake: the alert is on an open connection.
    (("_SSL", "_TRANSPORT"), "ssl/tls alert",
     f"the brokers require a client certificate that they trust: check {_OWN}", True),
    # librdkafka has the same text for an unknown authority and for a wrong host.
    (("_SSL", "_TRANSPORT"), "certificate verify failed",
     f"the brokers' certificate is not trusted: check {_CA}, and that {_SERVERS} names hosts in it", True),
    (("_SSL",), "", f"the TLS connection fails: check {_PROTOCOL}, {_CA} and {_OWN}", False),
    (("_TRANSPORT",), "connect to", f"nothing listens there: start it, or check {_SERVERS}", False),
    (("_RESOLVE",), "", f"no such host: check {_SERVERS}", False),
    # The connection is only closed: a wrong protocol, or a broker that is starting.
    (("_ALL_BROKERS_DOWN",), "", f"something answers and does not speak {{protocol}}: check {_PROTOCOL}", False),
)  # fmt: skip

SETTING_OF = {
    "ssl.ca.location": _CA,
    "ssl.certificate.location": "CUTWATER_KAFKA_SSL_CERTIFICATE_FILE",
    "ssl.key.location": "CUTWATER_KAFKA_SSL_KEY_FILE",
}
"""The setting of each librdkafka property that names a file."""


@dataclass(frozen=True)
class Refusal:
    """Advice for the user. `final`: whether waiting cannot help."""

    advice: str
    final: bool


def explain_error(code: str, text: str, protocol: str) -> Refusal | None:
    """Return the refusal for a librdkafka error, by the name of its code and its text; None for other errors."""
    words = text.lower()
    for codes, sign, advice, final in _VERDICTS:
        if (not codes or code in codes) and sign in words:
            return Refusal(advice.format(protocol=protocol), final)
    return None


def is_more_specific(before: Refusal | None, now: Refusal | None) -> bool:
    """Return whether `now` replaces `before`: the first refusal counts, unless only a later one is final."""
    return now is not None and (before is None or (now.final and not before.final))
