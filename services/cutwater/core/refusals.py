"""Why brokers do not let a process in, and which setting to look at: judged from a client's own words.

The words are librdkafka's. `tests/core/test_refusals.py` holds those that were met on real brokers.
"""

from __future__ import annotations

from dataclasses import dataclass

_SERVERS = "CUTWATER_BOOTSTRAP_SERVERS"
_PROTOCOL = "CUTWATER_KAFKA_SECURITY_PROTOCOL"
_USER = "CUTWATER_KAFKA_SASL_USERNAME and CUTWATER_KAFKA_SASL_PASSWORD"
_CA = "CUTWATER_KAFKA_SSL_CA_FILE"
_OWN = "CUTWATER_KAFKA_SSL_CERTIFICATE_FILE and CUTWATER_KAFKA_SSL_KEY_FILE"

# The first whose sign is in the text decides. librdkafka has one text for an unknown authority and a wrong host.
_TLS_ADVICE = (
    # Since TLS 1.3 the brokers judge a client's certificate after its handshake.
    (" alert ", f"the brokers ask for a certificate of this client that they trust: check {_OWN}"),
    ("certificate verify failed", f"the brokers' certificate is not trusted: check {_CA}, and that {_SERVERS} "
                                  "names hosts that stand in it"),
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
    """The refusal in an error of librdkafka, by its code's name and text; None where it is none.

    A connection that is only cut may be a wrong protocol or a broker that starts: that is not final.
    """
    words = text.lower()
    if "authorization failed" in words and "group" not in words:
        return Refusal("this user may not do that: docs/SECURITY.md lists the ACLs", True)
    if code == "_AUTHENTICATION" and "mechanism" in words and "supported" in words:
        return Refusal("the brokers do not know this SASL mechanism: check CUTWATER_KAFKA_SASL_MECHANISM", True)
    if code == "_AUTHENTICATION":
        return Refusal(f"the brokers refuse this user or password: check {_USER}", True)
    if code == "_SSL" or (code == "_TRANSPORT" and "ssl routines" in words):
        return _tls(words)
    if code in ("_TRANSPORT", "_RESOLVE") and ("connect to" in words or "resolve" in words):
        return Refusal(f"nothing listens there: start it, or check {_SERVERS}", False)
    if code == "_ALL_BROKERS_DOWN":
        return Refusal(f"something answers and does not speak {protocol}: check {_PROTOCOL}", False)
    return None


def preferred(before: Refusal | None, now: Refusal | None) -> bool:
    """Does `now` say more than what was heard before it? The cause comes first, its consequences follow."""
    return now is not None and (before is None or (now.final and not before.final))


def _tls(words: str) -> Refusal:
    for sign, advice in _TLS_ADVICE:
        if sign in words:
            return Refusal(advice, True)
    return Refusal(f"the TLS connection fails: check {_PROTOCOL}, {_CA} and {_OWN}", False)
