"""Certificates for brokers and clients under test, made by trustme in a moment: no program is needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import trustme
from asn1crypto import pem
from asn1crypto.pkcs12 import Pfx, SafeContents
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import PBES

from cutwater.local.embedded_broker.security import Certificate
from cutwater.local.machine.ports import LOOPBACK


class Authority:
    """A certificate authority; what it issues lies in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._authority = trustme.CA()
        self.ca_file = folder / "ca.pem"
        """What clients trust."""
        self._authority.cert_pem.write_to_path(str(self.ca_file))

    def issue(self, name: str, key_password: str = "", dns: Sequence[str] = ()) -> Certificate:
        """A certificate for a broker on the loopback address, or for a client; `key_password` encrypts its key.

        dns: names by which the broker is reached, too.
        """
        issued = self._authority.issue_cert(LOOPBACK, *dns, common_name=name)
        made = Certificate(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(str(made.certificate_file))
        key = issued.private_key_pem.bytes()
        made.key_file.write_bytes(_readable_by_java(key, key_password) if key_password else pkcs8(key))
        return made


def pkcs8(key: bytes, encryption: KeySerializationEncryption | None = None) -> bytes:
    """A PEM key in the one form that Java reads."""
    private = load_pem_private_key(key, None)
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())


def _readable_by_java(key: bytes, password: str) -> bytes:
    """Encrypted in the one way that Java 17 can read, PBE-SHA1-3DES: libraries write it in PKCS 12 files only."""
    how = (
        PrivateFormat.PKCS12.encryption_builder()
        .kdf_rounds(2048)
        .key_cert_algorithm(PBES.PBESv1SHA1And3KeyTripleDESCBC)
        .hmac_hash(SHA1())
        .build(password.encode())
    )
    private = load_pem_private_key(key, None)
    file = Pfx.load(pkcs12.serialize_key_and_certificates(None, private, None, None, how))  # type: ignore[arg-type]
    bags = (
        bag
        for content in file.authenticated_safe
        if content["content_type"].native == "data"
        for bag in SafeContents.load(content["content"].native)
    )
    (encrypted,) = (bag["bag_value"] for bag in bags if bag["bag_id"].native == "pkcs8_shrouded_key_bag")
    return bytes(pem.armor("ENCRYPTED PRIVATE KEY", encrypted.untag().dump()))
