"""Signatures of manifests: nothing that they cover can be changed or moved, and keys can be changed."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cutwater.core.protocol.generation import Generation
from cutwater.core.state.manifest_signature import Keys
from cutwater.core.state.snapshot_manifest import UNSIGNED, File, Manifest, Names, Unusable, object_name

FIRST, SECOND, OTHER = "first-key-" * 4, "second-key-" * 4, "another-key-" * 4
KEYS = Keys.parse(FIRST)
NAMES = Names("sales", "g1-local-00000000", "all")
FOLDER = NAMES.folder
SHA = "0" * 63
FILES = tuple(File(f"{at}.sst", 10 + at, f"{SHA}{at}", object_name(f"{SHA}{at}", "00000000")) for at in range(2))
ONE = Manifest("sales", Generation(1, "local"), None, 3, b"\x01m", 7, 3_600_000, "aa", FILES, 5)
SIGNED = ONE.encode(KEYS, FOLDER)
UNWANTED = "is not signed, and CUTWATER_SNAPSHOT_KEY requires"
ANOTHERS = "by none of the keys in CUTWATER_SNAPSHOT_KEY"


def with_checksum(plain: dict[str, Any]) -> bytes:
    """As anybody can write it, who has no key."""
    plain = {name: one for name, one in plain.items() if name != "checksum"}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return json.dumps({**plain, "checksum": hashlib.sha256(text.encode()).hexdigest()}).encode()


def test_a_signed_manifest_is_read_by_who_has_the_key_and_by_who_has_none() -> None:
    assert Manifest.decode(SIGNED, KEYS, FOLDER) == ONE
    assert Manifest.decode(SIGNED) == ONE


def test_the_signature_is_what_the_format_page_says() -> None:
    """HMAC-SHA256 of the folder, a line's end, and all other fields with sorted keys and without spaces."""
    plain = json.loads(SIGNED)
    signature = plain.pop("signature")
    del plain["checksum"]
    content = f"sales/g1-local-00000000/all\n{json.dumps(plain, sort_keys=True, separators=(',', ':'))}"
    assert signature == hmac.new(FIRST.encode(), content.encode(), hashlib.sha256).hexdigest()
    assert signature == "2fa64d44b38b97d8dbf28fd95400e0c780a033c8dfb5b81ed05d4e9e207f52f7", "a golden vector"


def test_without_a_key_nothing_is_signed() -> None:
    """And what is written is, byte for byte, what it was before there were keys."""
    assert ONE.encode() == ONE.encode(UNSIGNED, FOLDER)
    assert "signature" not in json.loads(ONE.encode())


@given(st.integers(0, len(SIGNED) - 1), st.integers(0, 255))
@example(SIGNED.index(b'"signature"') + 3, ord("x"))
def test_any_changed_byte_is_refused(at: int, byte: int) -> None:
    """But white space between the fields, which says nothing."""
    refused_or_the_same(SIGNED[:at] + bytes([byte]) + SIGNED[at + 1 :])


@given(st.integers(0, len(SIGNED) - 1), st.integers(0, 255))
def test_any_changed_byte_is_refused_where_the_checksum_is_made_right(at: int, byte: int) -> None:
    """The checksum is in the manifest that it proves: only the signature refuses these."""
    hurt = SIGNED[:at] + bytes([byte]) + SIGNED[at + 1 :]
    try:
        plain = json.loads(hurt)
    except ValueError:
        return
    refused_or_the_same(with_checksum(plain))


def refused_or_the_same(data: bytes) -> None:
    try:
        assert Manifest.decode(data, KEYS, FOLDER) == ONE
    except Unusable:
        return


@pytest.mark.parametrize("name", [one for one in json.loads(SIGNED) if one not in ("checksum", "signature")])
def test_each_field_is_covered(name: str) -> None:
    """Left out, or another one in its place, with the right checksum and the signature as it was."""
    plain = json.loads(SIGNED)
    others = json.loads(
        Manifest("x", Generation(2, "eu"), frozenset({1}), 4, b"y", 8, 1, "bb", FILES[:1], 6, 9).encode()
    )
    if name != "format":
        assert Manifest.decode(with_checksum({**plain, name: others[name]})) != ONE, "taken, without a key"
        assert ANOTHERS in problem(with_checksum({**plain, name: others[name]}))
        assert ANOTHERS in problem(with_checksum({one: plain[one] for one in plain if one != name}))
    assert ANOTHERS in problem(with_checksum({**plain, "more": 1}))


@pytest.mark.parametrize(
    "signature", ["", "x", 1, [], {}, True, "\ud800", "é" * 64, 10**4_000, json.loads(SIGNED)["signature"][:-1]]
)
def test_a_signature_that_is_none(signature: object) -> None:
    assert ANOTHERS in problem(with_checksum({**json.loads(SIGNED), "signature": signature}))


def test_what_is_not_signed_is_refused() -> None:
    """Nor is one whose signature was taken away."""
    assert UNWANTED in problem(ONE.encode())
    plain = json.loads(SIGNED)
    del plain["signature"]
    assert UNWANTED in problem(with_checksum(plain))
    assert UNWANTED in problem(with_checksum({**plain, "signature": None}))


@pytest.mark.parametrize(
    "names",
    [
        replace(NAMES, job="sales2"),
        replace(NAMES, generation="g2-local-0badcafe"),
        replace(NAMES, share="p0-2"),
        replace(NAMES, share="all.in-eu"),
    ],
)
def test_none_is_taken_under_another_name(names: Names) -> None:
    """Of another job, generation or share; of another sequence it would have to say another one."""
    assert ANOTHERS in problem(SIGNED, folder=names.folder)
    assert ANOTHERS in problem(with_checksum({**json.loads(SIGNED), "sequence": 4}))


def test_keys_are_changed() -> None:
    """The first signs, all are taken; once the older one is gone, what it signed is as that of any other key."""
    both = Keys.parse(f"{SECOND}, {FIRST}")
    assert Manifest.decode(SIGNED, both, FOLDER) == ONE
    newer = ONE.encode(both, FOLDER)
    assert Manifest.decode(newer, Keys.parse(SECOND), FOLDER) == ONE
    assert ANOTHERS in problem(newer)
    assert ANOTHERS in problem(SIGNED, Keys.parse(SECOND))
    assert ANOTHERS in problem(SIGNED, Keys.parse(OTHER))


def problem(data: bytes, keys: Keys = KEYS, folder: str = FOLDER) -> str:
    with pytest.raises(Unusable) as refused:
        Manifest.decode(data, keys, folder)
    return str(refused.value)


@pytest.mark.parametrize(
    "text", ["short", "x" * 31, f"{FIRST},", f",{FIRST}", f"{FIRST},short", " ", ",", "a b" * 20, "é" * 40]
)
def test_texts_that_are_no_keys(text: str) -> None:
    """Said without them; none of them means that nothing is signed."""
    with pytest.raises(ValueError, match="at least 32") as refused:
        Keys.parse(text)
    assert FIRST not in str(refused.value)


def test_keys_do_not_show() -> None:
    keys = Keys.parse(f"{FIRST},{SECOND}\n")
    assert keys.secrets == (FIRST, SECOND)
    assert FIRST not in f"{keys!r} {keys}"
    assert not Keys.parse("")
