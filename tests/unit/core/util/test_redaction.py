"""No secret is left in a text, however it is written there; what is public stays."""

from __future__ import annotations

import base64
import json
import string
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.util.redaction import MASK, Redactor, secrets_of

WRITTEN = {
    "itself": str,
    "in a URL": lambda one: quote(one, safe=""),
    "in a form": quote_plus,
    "in JSON": lambda one: json.dumps(one)[1:-1],
    "in Python": lambda one: repr(one)[1:-1],
    "in base 64": lambda one: base64.b64encode(one.encode()).decode(),
}
SECRETS = st.text(string.ascii_letters + string.digits + "/+&\"'\\%:@ ü=", min_size=4, max_size=40).map(str.strip)
AROUND = st.text(string.printable, max_size=60)


@given(SECRETS.filter(lambda one: len(one) >= 4), AROUND, AROUND, st.sampled_from(sorted(WRITTEN)))
def test_a_known_secret_is_in_no_text(secret: str, before: str, after: str, form: str) -> None:
    """Neither as it is, nor as a log, a URL or a document writes it."""
    written = WRITTEN[form](secret)
    left = Redactor([secret]).redact(f"{before}{written}{after}")
    assert secret not in left
    assert written.rstrip("=") not in left


@given(st.lists(SECRETS, max_size=5), AROUND)
def test_what_is_redacted_stays_so(secrets: list[str], text: str) -> None:
    made = Redactor(secrets)
    once = made.redact(text)
    assert made.redact(once).replace("*", "") == once.replace("*", "")


def test_each_line_of_a_secret_is_one() -> None:
    """A private key is logged line by line."""
    assert Redactor(["first-line\nsecond-line\n"]).redact("x second-line") == f"x {MASK}"


def test_a_short_secret_is_only_a_word() -> None:
    assert Redactor(["ab"]).redact("ab cab (ab)") == f"{MASK} cab ({MASK})"


def test_the_path_of_a_secret_address_is_one() -> None:
    """A client logs an address without its host."""
    secret = "https://hooks.example.com/services/T0001/B0002?key=abc"
    assert Redactor([secret]).redact("POST /services/T0001/B0002?key=abc 404") == f"POST {MASK} 404"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("at https://user:hunter2@host/x", "hunter2"),
        ("at https://token-of-mine@host/x", "token-of-mine"),
        ("jdbc://a:p@ss/w0rd@host", "w0rd"),
        ("GET /x?sig=hunter2&b=1", "hunter2"),
        ("s3://b?X-Amz-Signature=hunter2", "hunter2"),
        ("Authorization: Bearer hunter2", "hunter2"),
        ("'Authorization': 'Basic aHVudGVyMg=='", "aHVudGVyMg"),
        ("curl -H bearer hunter2", "hunter2"),
        ("password=hunter2", "hunter2"),
        ('sasl.jaas.config = x required password="hunter 2";', "hunter 2"),
        ('{"api_token": "hunter2"}', "hunter2"),
        ('{\\"api_token\\": \\"hunter2\\"}', "hunter2"),
        ("AWS_SECRET_ACCESS_KEY=hunter2", "hunter2"),
        ("CUTWATER_SNAPSHOT_KEY=hunter2", "hunter2"),
        ("secret: hunter2", "hunter2"),
        ("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----", "hunter2"),
        ("-----BEGIN RSA PRIVATE KEY-----\nhunter2", "hunter2"),
        ("hunter2\n-----END PRIVATE KEY-----", "hunter2"),
        ("AKIAABCDEFGHIJKLMNOP", "AKIAABCDEFGHIJKLMNOP"),
        ("eyJhbGciOiJI.eyJzdWIi.c2ln", "c2ln"),
    ],
)
def test_what_looks_like_a_secret_is_one(text: str, secret: str) -> None:
    assert secret not in Redactor().redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "token=g1-local-00000000:42",
        '"token": "g12-eu-0a1b2c3d:7"',
        "newest milestone g1-local-00000000:42",
        "http://127.0.0.1:8321/v1/state/EWR",
        "us=http://a:8321|http://a2:8321",
        "epoch 7 passed on; the key EWR has 3 rows",
        "basic rules, compass: north",
    ],
)
def test_what_is_public_stays(text: str) -> None:
    assert Redactor().redact(text) == text


def test_a_field_with_a_secrets_name_is_one() -> None:
    """Whatever its value looks like; a milestone's token is public."""
    given = {"password": "a b", "rows": [{"api_key": "x", "key": "EWR", "n": 1}], "token": "g1-eu-00000000:1"}
    kept = {"password": MASK, "rows": [{"api_key": MASK, "key": "EWR", "n": 1}], "token": "g1-eu-00000000:1"}
    assert Redactor().redact_value(given) == kept


def test_the_secrets_of_an_environment() -> None:
    found = set(
        secrets_of(
            {
                "CUTWATER_API_TOKEN": "tok",
                "CUTWATER_REGION_TOKENS": "us=first|second,eu=third",
                "CUTWATER_SNAPSHOT_KEY": "one-key,other-key",
                "CUTWATER_OTLP_URL": "http://me:pass@collector:4318",
                "AWS_SECRET_ACCESS_KEY": "aws",
                "HTTPS_PROXY": "http://only-user@proxy",
                "PWD": "/home",
                "CUTWATER_KAFKA_SSL_KEY_FILE": "/etc/key.pem",
            }
        )
    )
    assert {"tok", "first", "second", "third", "one-key", "other-key", "pass", "aws", "only-user"} <= found
    assert not {"us", "eu", "/home", "/etc/key.pem", "me"} & found
