"""An object store, through obstore: a local folder, S3, GCS or Azure.

Every request has a time-out and a few retries. Denied access and a missing bucket are usage errors; a store that
does not answer is unavailable. The library's messages are passed on without URL signatures and without secrets
from the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import LocalStore, from_url

from cutwater.adapters.config.settings import Settings
from cutwater.core.errors import CutwaterError, MachineError, UnavailableError, UsageError
from cutwater.core.state.snapshot_manifest import Stored, Unusable

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
CHUNK_BYTES = 8 << 20
PARTS_AT_ONCE = 2
CONNECT_S = 5
REQUEST_S = 120
"""Time-out of one request with its body, at most one chunk."""
RETRIES = 3
RETRY_S = 30
"""Time after the start of a request in which it is retried."""
_SECRET_NAMES = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|SAS", re.IGNORECASE)
_SECRET_CHARACTERS_MIN = 8
_SAID_MAX = 300
_NO_BUCKET = "NoSuchBucket"
_UNFINISHED = re.compile(r".*#\d+")


class Objects:
    """Objects below one location of an object store, by names relative to it."""

    def __init__(self, place: str, endpoint: str = "", anonymous: bool = False, retries: int = RETRIES) -> None:
        """`place`: a folder, or a URL such as s3://BUCKET/PREFIX. Raises UsageError; sends no request.

        `endpoint`: the URL of another S3-compatible store.
        """
        self.place = place
        self._folder = None if "://" in place else Path(place).absolute()
        self._opened: Any = None
        if self._folder is None:
            with self._translate_errors("opening it"):
                self._opened = _remote(place, endpoint, anonymous, retries)

    @property
    def _store(self) -> Any:
        # A folder is created at its first use: its disk may be unavailable, like any other store.
        if self._opened is None:
            self._opened = LocalStore(prefix=str(self._folder), mkdir=True)
        return self._opened

    def path(self, name: str) -> Path | None:
        """Return the local path of an object; None if the store is no folder."""
        return self._folder / name if self._folder is not None else None

    def put_file(self, name: str, file: Path) -> None:
        """Write a whole object from a file, or none."""
        with self._translate_errors(f"writing {name}"):
            obstore.put(self._store, name, file, chunk_size=CHUNK_BYTES, max_concurrency=PARTS_AT_ONCE)

    def put(self, name: str, data: bytes) -> None:
        with self._translate_errors(f"writing {name}"):
            obstore.put(self._store, name, data, use_multipart=False)

    def put_new(self, name: str, data: bytes) -> bool:
        """Write an object unless it exists; return False if it does. The store decides atomically."""
        with self._translate_errors(f"writing {name}"):
            try:
                obstore.put(self._store, name, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def read(self, name: str, bytes_max: int) -> bytes | None:
        """Read a small object; None if there is none. Raises Unusable for one that is too large."""
        with self._translate_errors(f"reading {name}"):
            try:
                found = obstore.get(self._store, name)
            except FileNotFoundError as error:
                if _NO_BUCKET in str(error):
                    raise
                return None
            if found.meta["size"] > bytes_max:
                raise Unusable(f"{name} has {found.meta['size']:,} bytes, more than any object of Cutwater")
            return bytes(found.bytes())

    def size(self, name: str) -> int | None:
        """Return the size of an object; None if there is none."""
        with self._translate_errors(f"looking at {name}"):
            try:
                return int(obstore.head(self._store, name)["size"])
            except FileNotFoundError:
                return None

    def chunks(self, name: str, size: int) -> Iterator[bytes]:
        """Read an object of known `size`, a request per chunk. Raises FileNotFoundError if it is gone."""
        for first in range(0, size, CHUNK_BYTES):
            with self._translate_errors(f"reading {name}"):
                end = min(first + CHUNK_BYTES, size)
                piece = bytes(obstore.get_range(self._store, name, start=first, end=end))
            yield piece

    def list_objects(self, prefix: str) -> list[Stored]:
        with self._translate_errors(f"listing {prefix}"):
            return [
                Stored(str(one["path"]), int(one["size"]), int(one["last_modified"].timestamp() * 1000))
                for chunk in obstore.list(self._store, prefix)
                for one in chunk
            ]

    def delete(self, name: str) -> None:
        with self._translate_errors(f"deleting {name}"), suppress(FileNotFoundError):
            obstore.delete(self._store, name)

    def delete_unfinished(self, prefix: str, before_ms: int) -> int:
        """Delete what killed writers left in a folder. Object stores have a rule for it (docs/SNAPSHOTS.md)."""
        if self._folder is None:
            return 0
        gone = 0
        with self._translate_errors(f"looking through {prefix}"):
            for path in (self._folder / prefix).glob("*#*"):
                if _UNFINISHED.fullmatch(path.name) and path.stat().st_mtime * 1000 < before_ms:
                    path.unlink(missing_ok=True)
                    gone += 1
        return gone

    @contextmanager
    def _translate_errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except CutwaterError:
            raise
        except FileNotFoundError as error:
            if _NO_BUCKET in str(error):
                raise UsageError(f"{self.place}: {doing}: there is no such bucket: create it") from None
            raise
        except (BaseError, OSError, ValueError) as error:
            raise self._error(doing, error) from None

    def _error(self, doing: str, error: BaseException) -> CutwaterError:
        said, what = scrub(str(error)), f"{self.place}: {doing}: "
        if self._folder is not None:
            return MachineError(f"{what}{said}. Check that the folder is writable and its disk has free space")
        if self._opened is None:
            return UsageError(f"{what}{said}. {_KEYS}")
        if _NO_BUCKET in str(error):
            return UsageError(f"{what}there is no such bucket: create it")
        if isinstance(error, PermissionDeniedError | UnauthenticatedError):
            return UsageError(f"{what}the object store denies access ({said}). {_KEYS}")
        return UnavailableError(f"{what}{said}. Check the address, the network and the store; it will be retried")


_KEYS = (
    "Set its keys in the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_SERVICE_ACCOUNT, "
    "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"
)


def _remote(place: str, endpoint: str, anonymous: bool, retries: int) -> Any:
    parts = urlsplit(place)
    if parts.scheme not in SCHEMES:
        raise UsageError(f"{parts.scheme}:// is no object store: use a folder, or one of {', '.join(SCHEMES)}")
    if "@" in parts.netloc and not parts.scheme.startswith("abfs"):
        raise UsageError("the URL of an object store must not contain secrets: set them in the environment")
    if parts.query or parts.fragment:
        raise UsageError("the URL of an object store has no '?' and no '#': set options in the environment")
    options: dict[str, Any] = {
        "client_options": {
            "connect_timeout": timedelta(seconds=CONNECT_S),
            "timeout": timedelta(seconds=REQUEST_S),
            "allow_http": endpoint.startswith("http://"),
        },
        "retry_config": {
            "max_retries": retries,
            "retry_timeout": timedelta(seconds=RETRY_S),
            "backoff": {
                "init_backoff": timedelta(milliseconds=200),
                "max_backoff": timedelta(seconds=5),
                "base": 2,
            },
        },
    }
    if parts.scheme in ("s3", "s3a"):
        if endpoint:
            options |= {"endpoint": endpoint, "virtual_hosted_style_request": False}
        if anonymous:
            options["skip_signature"] = True
    return from_url(place, **options)


def objects_at(place: str, settings: Settings) -> Objects:
    """Return the store at a location, with the options of the settings. Raises UsageError."""
    return Objects(place, settings.s3_endpoint, settings.s3_anonymous)


def scrub(text: str, environment: Callable[[], Any] = lambda: os.environ) -> str:
    """Return the first line of a library's message, without URL signatures and secrets from the environment."""
    line = re.sub(r"(https?://[^\s?]*)\?\S*", r"\1?…", text.strip().partition("\n")[0])
    for name, value in environment().items():
        if _SECRET_NAMES.search(name) and len(value) >= _SECRET_CHARACTERS_MIN:
            line = line.replace(value, "********")
    return line[:_SAID_MAX]
