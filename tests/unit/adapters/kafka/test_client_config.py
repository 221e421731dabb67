"""One model of TLS and SASL in the words of three clients, and that secrets do not show in any text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption

from cutwater.adapters.config.settings import Settings, environment, load_settings
from cutwater.adapters.kafka.client_config import Cluster, Security, jaas_quoted
from cutwater.core.errors import CutwaterError, UsageError
from support.kafka.certificates import Authority, pkcs8

SECRET = "correct horse"


def scram(**more: str) -> Security:
    names = {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": "alice", "password": SECRET}
    return Security(**{**names, **more})


def test_without_security_each_client_gets_address_and_protocol_only() -> None:
    """PLAINTEXT needs nothing else."""
    plain = Cluster("b:1")
    assert plain.librdkafka() == {"bootstrap.servers": "b:1", "security.protocol": "PLAINTEXT"}
    assert plain.jvm() == plain.librdkafka()
    assert plain.aiokafka() == {"bootstrap_servers": "b:1", "security_protocol": "PLAINTEXT"}


def test_java_gets_certificates_as_text_and_only_the_places_of_secrets(tmp_path: Path) -> None:
    """A certificate's text travels to every executor; password and key are read where they are used."""
    for name in ("ca", "own"):
        (tmp_path / name).write_text(f"-----{name}-----\n")
    (tmp_path / "key").write_text("-----BEGIN PRIVATE KEY-----\n")
    files = {"ca_file": tmp_path / "ca", "certificate_file": tmp_path / "own", "key_file": tmp_path / "key"}
    cluster = Cluster("b:1", scram(**{name: str(path) for name, path in files.items()}, key_password="k"))
    assert cluster.librdkafka()["ssl.key.location"] == str(tmp_path / "key")
    jvm = cluster.jvm()
    assert jvm["ssl.truststore.certificates"] == "-----ca-----\n"
    assert jvm["ssl.keystore.key"] == f"${{directory:{tmp_path}:key}}"
    assert jvm["ssl.key.password"] == "${env:CUTWATER_KAFKA_SSL_KEY_PASSWORD}"
    assert 'username="alice" password="${env:CUTWATER_KAFKA_SASL_PASSWORD}";' in jvm["sasl.jaas.config"]
    assert SECRET not in str(jvm)
    with pytest.raises(UsageError, match="CUTWATER_KAFKA_SASL_PASSWORD holds a quote") as raised:
        Cluster("b:1", scram(password='with"quote')).jvm()
    assert "with" not in str(raised.value).partition("holds")[0]


def test_a_password_cannot_leave_its_quotes() -> None:
    """Quotes, backslashes and line ends in a password stay inside the JAAS string."""
    assert jaas_quoted('a"; b\\\nc\r') == '"a\\"; b\\\\\\nc\\r"'


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        ({"protocol": "TLS"}, "SECURITY_PROTOCOL"),
        ({"mechanism": "GSSAPI"}, "SASL_MECHANISM"),
        ({"password": ""}, "SASL_PASSWORD"),
        ({"key_file": "k"}, "SSL_CERTIFICATE_FILE"),
    ],
)
def test_settings_that_cannot_work_together_are_named(change: dict[str, str], setting: str) -> None:
    """Before any connection, with the variable's name and without the password."""
    with pytest.raises(UsageError, match=f"CUTWATER_KAFKA_{setting}") as raised:
        scram(**change)
    assert SECRET not in str(raised.value)


def test_a_file_that_is_missing_is_named() -> None:
    """A wrong path is one clear error with the path, for the JVM and for aiokafka."""
    cluster = Cluster("b:1", scram(ca_file="/no/such/ca.pem"))
    with pytest.raises(CutwaterError, match=r"/no/such/ca\.pem"):
        cluster.jvm()
    with pytest.raises(CutwaterError, match="TLS files"):
        cluster.aiokafka()


def test_a_key_that_java_cannot_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """PKCS 1 keys, and PKCS 8 keys encrypted in today's usual way: Java 17 reads neither. PBES1 passes."""
    made = Authority(tmp_path).issue("client", "key password")
    files = {"certificate_file": str(made.certificate_file), "key_password": "key password"}
    assert "directory" in Cluster("b:1", scram(key_file=str(made.key_file), **files)).jvm()["ssl.keystore.key"]
    usual, old = tmp_path / "usual.key", tmp_path / "old.key"
    plain = Authority(tmp_path / "plain").issue("client").key_file.read_bytes()
    usual.write_bytes(pkcs8(plain, BestAvailableEncryption(b"x")))
    old.write_text("-----BEGIN RSA PRIVATE KEY-----\n")
    for file in (usual, old):
        with pytest.raises(UsageError, match=r"CUTWATER_KAFKA_SSL_KEY_FILE: .*openssl pkcs8 -topk8"):
            Cluster("b:1", scram(key_file=str(file), **files)).jvm()


def test_the_environment_carries_a_cluster_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one process passes on, another one reads back; nothing else shines through."""
    cluster = Cluster("b:1,c:2", scram(ca_file="ca"))
    monkeypatch.setenv("CUTWATER_KAFKA_SSL_KEY_FILE", "of somebody else")
    for name, value in environment(cluster).items():
        monkeypatch.setenv(name, value)
    assert load_settings().cluster == cluster
    for name, value in environment(Cluster("d:3")).items():
        monkeypatch.setenv(name, value)
    assert load_settings().cluster == Cluster("d:3")


def test_secrets_do_not_show_in_the_text_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither settings nor cluster show a secret when they are printed, logged or part of an error."""
    secrets = {"KAFKA_SASL_PASSWORD": SECRET, "KAFKA_SSL_KEY_PASSWORD": "other secret", "API_TOKEN": "t" * 20}
    secrets |= {"REGION_TOKENS": "us=" + "r" * 20, "SNAPSHOT_KEY": "k" * 32}
    for name, value in {**secrets, "KAFKA_SASL_USERNAME": "alice"}.items():
        monkeypatch.setenv(f"CUTWATER_{name}", value)
    monkeypatch.setenv("CUTWATER_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("CUTWATER_KAFKA_SASL_MECHANISM", "PLAIN")
    settings = load_settings()
    shown = f"{settings!r} {settings} {settings.cluster!r} {settings.cluster} {settings.snapshot_keys!r}"
    assert "alice" in shown
    assert not [value for value in secrets.values() if value in shown]
    monkeypatch.setenv("CUTWATER_API_TOKEN", "a short one")
    with pytest.raises(UsageError, match="CUTWATER_API_TOKEN") as raised:
        load_settings()
    assert "a short one" not in str(raised.value)


def show(*arguments: str, **env: str) -> str:
    command = [sys.executable, "-m", "cutwater.cli.main", "config", "show", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **env, "COLUMNS": "200"}, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_config_show_says_where_each_value_comes_from_and_masks_secrets() -> None:
    """Every setting once, default or environment; of a secret only that it is set; a mistyped name is told."""
    secret = {"CUTWATER_API_TOKEN": "x" * 20, "CUTWATER_KAFKA_SASL_PASSWORD": SECRET}
    secret["CUTWATER_SNAPSHOT_KEY"] = f"{'k' * 40},{'o' * 40}"
    text = show("--json", **secret, CUTWATER_TRIGGER_MS="250")
    found = {one["name"]: one for one in json.loads(text)}
    assert set(found) == {f"CUTWATER_{name.upper()}" for name in Settings.model_fields}
    assert (found["CUTWATER_TRIGGER_MS"]["value"], found["CUTWATER_TRIGGER_MS"]["source"]) == (250, "environment")
    assert found["CUTWATER_REGION"]["source"] == "default"
    assert found["CUTWATER_API_TOKEN"]["value"] == "********"
    assert found["CUTWATER_KAFKA_SSL_KEY_PASSWORD"]["value"] == ""
    table = show(**secret, CUTWATER_KAFKA_PASWORD="mistyped secret")
    assert "CUTWATER_KAFKA_PASWORD is set, but no setting" in table
    for value in (*secret.values(), "mistyped secret"):
        assert value not in text + table
