"""The object store's adapter: one list of facts, for a folder and for real S3 requests alike."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cutwater.adapters.object_store import CHUNK_BYTES, Objects, scrub
from cutwater.core.errors import MachineError, UnavailableError, UsageError
from cutwater.core.state.snapshot_manifest import Unusable
from support.objectstore import BUCKET, KEYS, ObjectStore, object_store


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        with object_store(tmp_path_factory.mktemp("s3") / "objects") as one:
            yield one


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.slow)])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    if request.param == "folder":
        return Objects(str(tmp_path / "not there yet"))
    return Objects(f"s3://{BUCKET}/{tmp_path.name}", request.getfixturevalue("s3").url)


def test_what_is_written_is_read_listed_and_deleted(objects: Objects) -> None:
    assert objects.list_objects("a") == []
    assert (objects.read("a/x", 10), objects.size("a/x")) == (None, None)
    objects.put("a/x", b"one")
    objects.put("a/x", b"three")
    objects.put("b/y", b"")
    assert (objects.read("a/x", 5), objects.size("a/x"), objects.read("b/y", 0)) == (b"three", 5, b"")
    assert [(one.name, one.size) for one in objects.list_objects("a")] == [("a/x", 5)]
    objects.delete("a/x")
    objects.delete("a/x")
    assert objects.list_objects("a") == []


def test_an_object_is_created_once(objects: Objects) -> None:
    """The store decides: the second one changes nothing, and is told so."""
    assert objects.put_new("a/x", b"first")
    assert not objects.put_new("a/x", b"second")
    assert objects.read("a/x", 10) == b"first"


def test_a_large_file_goes_and_comes_in_chunks(objects: Objects, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(os.urandom(CHUNK_BYTES + 12_345))
    objects.put_file("a/large", file)
    pieces = list(objects.chunks("a/large", file.stat().st_size))
    assert [len(one) for one in pieces] == [CHUNK_BYTES, 12_345]
    assert b"".join(pieces) == file.read_bytes()
    with pytest.raises(FileNotFoundError):
        list(objects.chunks("a/none", 5))


def test_what_is_too_large_to_be_ours_is_not_read(objects: Objects) -> None:
    objects.put("a/x", b"three")
    with pytest.raises(Unusable, match="more than any object of Cutwater"):
        objects.read("a/x", 4)


def test_what_a_killed_writer_left_in_a_folder_goes(tmp_path: Path) -> None:
    """The library's unfinished files are in no list; old ones are deleted, and nothing else."""
    objects = Objects(str(tmp_path))
    objects.put("a/x", b"1")
    old, young = tmp_path / "a" / "y#1", tmp_path / "a" / "z#12"
    for one in (old, young):
        one.write_bytes(b"half")
    os.utime(old, (1_000_000, 1_000_000))
    assert [one.name for one in objects.list_objects("a")] == ["a/x"]
    assert objects.delete_unfinished("a", before_ms=2_000_000_000) == 1
    assert sorted(one.name for one in (tmp_path / "a").iterdir()) == ["x", "z#12"]


@pytest.mark.slow
def test_whose_fault_an_error_is(tmp_path: Path, s3: ObjectStore) -> None:
    """A folder is this machine's; a URL and a bucket are the user's; a store that is away comes back."""
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="file: listing a"):
        Objects(str(tmp_path / "file")).list_objects("a")
    nowhere = Objects("s3://nowhere/x", s3.url)
    for call in (
        lambda: nowhere.list_objects("a"),
        lambda: nowhere.put_new("a", b""),
        lambda: nowhere.read("a", 1),
    ):
        with pytest.raises(UsageError, match="no such bucket"):
            call()
    with pytest.raises(UnavailableError, match="s3://b/x: listing a"):
        Objects("s3://b/x", "http://127.0.0.1:9", anonymous=True, retries=0).list_objects("a")
    for bad in ("ftp://x/y", "az://container/x", "s3://key:secret@b/x", "s3://b/x?signature=secret"):
        with pytest.raises(UsageError) as raised:
            Objects(bad)
        assert "secret@" not in str(raised.value)
        assert "signature" not in str(raised.value)


def test_nothing_secret_is_in_what_the_library_says() -> None:
    """Signed addresses are cut, values of secret variables are masked, the rest stays; one line of it."""
    said = 'GET https://a.blob/x?sv=1&sig=abc%2Bdef failed: key "wJalrXUtnFEMI" is wrong\n\nDebug source: x'
    environment = {"AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI", "AWS_REGION": "blob-region", "API_TOKEN": "GET"}
    assert scrub(said, lambda: environment) == 'GET https://a.blob/x?… failed: key "********" is wrong'
