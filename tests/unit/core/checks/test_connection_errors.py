"""What brokers' refusals mean, from librdkafka's own words as they were met on real brokers."""

from __future__ import annotations

import pytest

from cutwater.core.checks.connection_errors import explain_error, is_more_specific

PLACE = "sasl_ssl://127.0.0.1:23172/bootstrap: "
SCRAM = PLACE + (
    "SASL authentication error: Authentication failed during authentication due to invalid credentials with SASL "
    "mechanism SCRAM-SHA-512 (after 324ms in state AUTH_REQ)"
)
PLAIN = PLACE + "SASL authentication error: Authentication failed: Invalid username or password (after 303ms)"
MECHANISM = PLACE + (
    "SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's supported mechanisms: "
    "SCRAM-SHA-512 (after 0ms in state AUTH_HANDSHAKE)"
)
UNTRUSTED = PLACE + (
    "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certificate could not "
    "be verified, verify that ssl.ca.location is correctly configured or root CA certificates are installed "
    "(install ca-certificates package) (after 7ms in state SSL_HANDSHAKE)"
)
ALERT = PLACE + "Receive failed: error:0A000412:SSL routines::ssl/tls alert "
UNKNOWN_HOST = "sasl_ssl://kafka:9092/bootstrap: Failed to resolve 'kafka:9092': Name or service not known"
REFUSED = PLACE + "Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)"


@pytest.mark.parametrize(
    ("code", "text", "setting", "final"),
    [
        ("_AUTHENTICATION", SCRAM, "CUTWATER_KAFKA_SASL_PASSWORD", True),
        ("_AUTHENTICATION", PLAIN, "CUTWATER_KAFKA_SASL_USERNAME", True),
        ("_AUTHENTICATION", MECHANISM, "CUTWATER_KAFKA_SASL_MECHANISM", True),
        ("_SSL", UNTRUSTED, "CUTWATER_KAFKA_SSL_CA_FILE", True),
        (
            "_TRANSPORT",
            ALERT + "bad certificate: SSL alert",
            "CUTWATER_KAFKA_SSL_CERTIFICATE_FILE",
            True,
        ),
        ("_TRANSPORT", ALERT + "certificate unknown: SSL alert", "CUTWATER_KAFKA_SSL_KEY_FILE", True),
        ("_FATAL", "Fatal error: Cluster authorization failed", "ACLs", True),
        ("_SSL", PLACE + "SSL handshake failed: Disconnected", "CUTWATER_KAFKA_SECURITY_PROTOCOL", False),
        ("_TRANSPORT", REFUSED, "CUTWATER_BOOTSTRAP_SERVERS", False),
        ("_RESOLVE", UNKNOWN_HOST, "CUTWATER_BOOTSTRAP_SERVERS", False),
        ("_ALL_BROKERS_DOWN", "1/1 brokers are down", "CUTWATER_KAFKA_SECURITY_PROTOCOL", False),
    ],
)
def test_each_refusal_names_the_setting_to_look_at(code: str, text: str, setting: str, final: bool) -> None:
    """A wrong password, authority, certificate, protocol or address each name their own setting.

    Waiting is in vain for the first three; a cut connection may be a broker that starts.
    """
    found = explain_error(code, text, "SASL_SSL")
    assert found is not None
    assert setting in found.advice
    assert found.final is final


def test_what_is_no_refusal_is_left_alone() -> None:
    """A time-out says nothing about settings."""
    assert explain_error("_TIMED_OUT", "timed out", "PLAINTEXT") is None
    assert explain_error("_TRANSPORT", "Disconnected (after 3ms in state UP)", "PLAINTEXT") is None


def test_the_cause_outweighs_its_consequences() -> None:
    """'All brokers are down' follows every failure: it never replaces what came before; a final one does."""
    down, refused = explain_error("_ALL_BROKERS_DOWN", "", "SSL"), explain_error("_TRANSPORT", REFUSED, "SSL")
    wrong = explain_error("_AUTHENTICATION", PLAIN, "SSL")
    assert is_more_specific(None, down)
    assert not is_more_specific(refused, down)
    assert not is_more_specific(wrong, down)
    assert is_more_specific(down, wrong)
    assert not is_more_specific(wrong, explain_error("_SSL", UNTRUSTED, "SSL")), (
        "of two final ones the first was the cause"
    )
    assert not is_more_specific(wrong, None)
