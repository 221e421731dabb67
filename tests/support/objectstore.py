"""An object store that speaks S3, as a child process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from cutwater.local.jars import jars
from cutwater.local.java import find_java
from cutwater.local.machine.ports import free_ports
from support.serving import serving

BUCKET = "checkpoints"
KEYS = {"AWS_ACCESS_KEY_ID": "anybody", "AWS_SECRET_ACCESS_KEY": "is let in"}


class ObjectStore:
    """One bucket, empty at first."""

    def __init__(self, url: str) -> None:
        self.url = url

    def names(self, prefix: str) -> list[str]:
        """Of the objects below a prefix, at most a thousand."""
        answer = httpx.get(f"{self.url}/{BUCKET}", params={"list-type": "2", "prefix": prefix}, timeout=10)
        return re.findall(r"<Key>([^<]*)</Key>", answer.raise_for_status().text)


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """S3Mock on a free port; its files are in `folder`."""
    plain, tls = free_ports(2)
    mock = "--com.adobe.testing.s3mock"
    options = [f"{mock}.http-port={plain}", f"--server.port={tls}", "--server.address=127.0.0.1"]
    options += [f"{mock}.store.root={folder}", f"{mock}.store.initial-buckets={BUCKET}"]
    folder.mkdir()
    one = ObjectStore(f"http://127.0.0.1:{plain}")
    command = [find_java(), "-Xmx192m", "-jar", jars("objectstore")[0], *options]
    with serving("the object store", command, lambda: one.names("") == [], folder.parent / "objectstore.log"):
        yield one
