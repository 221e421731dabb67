"""Snapshots of a view: manifest, object names, retention and garbage collection.

    <job>/<generation>/<share>/manifests/<sequence, 19 digits>.json    the snapshot of one milestone
    <job>/<generation>/<share>/retired/<sequence, 19 digits>.json      a retired snapshot, deleted after a while
    <job>/<generation>/<share>/files/<sha256>-<upload>                 a file, named by its content and its upload

An object of `files` is written once, by one upload, and has four states: uploaded, named by a manifest, named by
retired manifests only, deleted. No state leads back: an upload names only its own objects and those of manifests
not retired when it started. If uploads are shorter than the grace period, an object unnamed for that long stays
unnamed and can be deleted without coordination.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import Generation
from cutwater.core.state.manifest_signature import Keys
from cutwater.core.state.partition_share import Partitions

FORMAT = 1
FILES_MAX = 100_000
MANIFEST_BYTES_MAX = 64 << 20
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
SHARE_CHARACTERS_MAX = 64
UNSIGNED = Keys()
UPLOAD_SHARE_OF_GRACE = 0.5
"""An upload that takes longer than this part of the grace period is abandoned: files it names may be deleted."""

_NUMBER_MAX = (1 << 63) - 1
_MOMENT_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999: later ones cannot be formatted."""
_PARTITION_MAX = (1 << 31) - 1
_TEXT_CHARS_MAX = 300
_SHOWN_CHARS = 200
# Errors for JSON of the wrong shape; the last one for text nested too deeply to be written again.
_WRONG = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, UsageError, RecursionError)

_SHA256 = re.compile(r"[0-9a-f]{64}")
_OBJECT = re.compile(r"([0-9a-f]{64})-[0-9a-f]{8}")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_MANIFEST_NAME = re.compile(r"([0-9]{19})\.json")


class Unusable(Exception):
    """A manifest or a file of a snapshot is invalid; the text says which one and why."""


class File(NamedTuple):
    """One file of a RocksDB checkpoint, and the object that holds its bytes."""

    name: str
    size: int
    sha256: str
    object: str


class Stored(NamedTuple):
    """An object in the store's listing."""

    name: str
    size: int
    modified_ms: int


@dataclass(frozen=True)
class Manifest:
    """A view at one milestone, as files."""

    job: str
    generation: Generation
    partitions: Partitions | None
    """The partitions that the view holds; None for all."""
    sequence: int
    record: bytes
    """The milestone's bytes on the commit stream."""
    offset: int
    """The milestone's offset on the commit stream."""
    segment_ms: int
    schema: str
    """Fingerprint of the rows' schema."""
    files: tuple[File, ...]
    created_ms: int
    lower_ms: int | None = None
    """Windows that end at or below it were evicted from the view (`max_bytes`); None: no evictions, or unknown."""

    @property
    def size(self) -> int:
        return sum(one.size for one in self.files)

    @property
    def objects(self) -> frozenset[str]:
        return frozenset(one.object for one in self.files)

    def encode(self, keys: Keys = UNSIGNED, folder: str = "") -> bytes:
        """Return JSON with a checksum. `folder`: the share's folder, which the signature covers too."""
        plain: dict[str, Any] = {
            "format": FORMAT,
            "job": self.job,
            "generation": str(self.generation),
            "partitions": None if self.partitions is None else sorted(self.partitions),
            "sequence": self.sequence,
            "record": base64.b64encode(self.record).decode(),
            "offset": self.offset,
            "segment_ms": self.segment_ms,
            "schema": self.schema,
            "files": [one._asdict() for one in self.files],
            "created_ms": self.created_ms,
            "lower_ms": self.lower_ms,
        }
        if keys:
            plain["signature"] = keys.sign(folder, _canonical(plain))
        return json.dumps({**plain, "checksum": _checksum(plain)}, indent=1).encode()

    @staticmethod
    def decode(data: bytes, keys: Keys = UNSIGNED, folder: str = "") -> Manifest:
        """Parse a manifest. Raises Unusable unless `encode` made it with this format and one of these keys."""
        try:
            plain = json.loads(data)
        except (ValueError, RecursionError):
            raise Unusable("the manifest is not JSON: it is damaged") from None
        if not isinstance(plain, dict) or "format" not in plain:
            raise Unusable("this is not a manifest of a snapshot")
        try:
            if plain["format"] != FORMAT:
                told = repr(plain["format"])[:_SHOWN_CHARS]
                raise Unusable(f"the manifest is of format {told}, but this version reads format {FORMAT}")
            if plain.pop("checksum", None) != _checksum(plain):
                raise Unusable("the manifest's checksum does not match its content: it is damaged")
            signature = plain.pop("signature", None)
            if problem := keys.problem(folder, _canonical(plain), signature):
                raise Unusable(problem)
            return _manifest(plain)
        except _WRONG as error:
            raise Unusable(f"the manifest has an invalid value: {_shorten(error)}") from None


def _manifest(plain: Mapping[str, Any]) -> Manifest:
    """Build a manifest. Raises one of _WRONG."""
    partitions = plain["partitions"]
    if not isinstance(plain["files"], list) or len(plain["files"]) > FILES_MAX:
        raise ValueError(f"`files` is not a list of at most {FILES_MAX:,}")
    files = [File(**one) for one in plain["files"]]
    for one in files:
        _require_sound(one)
    if len({one.name for one in files}) < len(files):
        raise ValueError("a file is named twice")
    return Manifest(
        job=_text(plain["job"]),
        generation=Generation.parse(_text(plain["generation"])),
        partitions=None if partitions is None else _numbers(partitions),
        sequence=_number(plain["sequence"]),
        record=base64.b64decode(plain["record"], validate=True),
        offset=_number(plain["offset"]),
        segment_ms=_number(plain["segment_ms"], 1),
        schema=_text(plain["schema"]),
        files=tuple(files),
        created_ms=_number(plain["created_ms"], most=_MOMENT_MAX),
        lower_ms=None if plain.get("lower_ms") is None else _number(plain["lower_ms"], -_MOMENT_MAX, _MOMENT_MAX),
    )


def _number(value: Any, least: int = 0, most: int = _NUMBER_MAX) -> int:
    """Return a checked integer: a number in JSON may be a fraction or infinite, and `true` is an int in Python."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{_shorten(value)} is not an integer from {least} to {most}")
    return value


def _numbers(value: Any) -> Partitions:
    if not isinstance(value, list):
        raise ValueError(f"{_shorten(value)} is not a list of partitions")
    return frozenset(_number(one, most=_PARTITION_MAX) for one in value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _TEXT_CHARS_MAX:
        raise ValueError(f"{_shorten(value)} is not a name")
    return value


def _shorten(value: object) -> str:
    """Shorten a foreign value for an error text."""
    return f"{str(value)[:_SHOWN_CHARS]!r}"


def _require_sound(one: File) -> None:
    """Require plain file names: names from an object store become paths on this machine."""
    named = _OBJECT.fullmatch(one.object)
    sound = _FILE_NAME.fullmatch(one.name) and _SHA256.fullmatch(one.sha256) and named
    if not sound or (named and named[1] != one.sha256):
        raise ValueError(f"the file {one!r}")
    _number(one.size)


def _checksum(plain: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(plain)).hexdigest()


def _canonical(plain: Mapping[str, Any]) -> bytes:
    return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()


# --- names


def share_name(partitions: Partitions | None, replica_in: str = "") -> str:
    """Return `all`, or `p0-2` for a view of partitions 0 and 2; a digest if the name would be too long.

    `all.in-eu` is a view in another region, made from copies: the same milestone with cuts of its own. Views of
    the origin ignore such names, so both regions may share a store.
    """
    return _partitions_name(partitions) + (f".in-{replica_in}" if replica_in else "")


def _partitions_name(partitions: Partitions | None) -> str:
    if partitions is None:
        return "all"
    told = "p" + "-".join(map(str, sorted(partitions)))
    if len(told) <= SHARE_CHARACTERS_MAX:
        return told
    return f"p{len(partitions)}x{hashlib.sha256(told.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Names:
    """The object names of one share: the views that hold the same partitions of one generation of a job."""

    job: str
    generation: str
    share: str

    @property
    def folder(self) -> str:
        return f"{self.job}/{self.generation}/{self.share}"

    @property
    def manifests(self) -> str:
        return f"{self.folder}/manifests"

    @property
    def retired(self) -> str:
        return f"{self.folder}/retired"

    @property
    def files(self) -> str:
        return f"{self.folder}/files"

    def manifest(self, sequence: int) -> str:
        return f"{self.manifests}/{sequence:019}.json"

    def retired_manifest(self, sequence: int) -> str:
        return f"{self.retired}/{sequence:019}.json"

    def file(self, object_: str) -> str:
        return f"{self.files}/{object_}"


def shares_of(job: str, names: Iterable[str]) -> list[Names]:
    """Return every share with objects, from the names of a job's objects."""
    found = {tuple(name.split("/")[1:3]) for name in names if name.startswith(f"{job}/") and name.count("/") == 4}
    return [Names(job, generation, share) for generation, share in sorted(found)]


def sequence_of(name: str) -> int | None:
    """Return the sequence of a manifest from its object name; None for other objects."""
    found = _MANIFEST_NAME.fullmatch(name.rpartition("/")[2])
    return int(found[1]) if found else None


def object_name(sha256: str, upload: str) -> str:
    return f"{sha256}-{upload}"


# --- retention and garbage


class Policy(NamedTuple):
    """Retention of snapshots: the `last` ones, one per hour for `hours` and one per day for `days`."""

    last: int = 3
    hours: int = 24
    days: int = 7


class SnapshotAge(NamedTuple):
    """A snapshot as input of the retention."""

    sequence: int
    created_ms: int


def retained_sequences(snapshots: Iterable[SnapshotAge], policy: Policy, now_ms: int) -> frozenset[int]:
    """Return the sequences that stay: always the newest; for an hour or a day, its newest."""
    every = sorted(snapshots, reverse=True)
    found = {one.sequence for one in every[: max(1, policy.last)]}
    for length_ms, count in ((HOUR_MS, policy.hours), (DAY_MS, policy.days)):
        first = now_ms // length_ms - count + 1
        newest: dict[int, int] = {}
        for one in every:
            newest.setdefault(one.created_ms // length_ms, one.sequence)
        found |= {sequence for at, sequence in newest.items() if at >= first}
    return frozenset(found)


def deletable(files: Iterable[Stored], referenced: frozenset[str], now_ms: int, grace_ms: int) -> list[Stored]:
    """Return the files that no manifest names and no running upload can still name."""
    return [
        one
        for one in files
        if one.name.rpartition("/")[2] not in referenced and now_ms - one.modified_ms >= grace_ms
    ]


class Pruning(NamedTuple):
    """Manifests to retire, files to delete, and retired manifests to forget."""

    retire: list[int]
    delete: list[Stored]
    forget: list[int]


def pruning(
    live: Sequence[Manifest],
    retired: Sequence[tuple[Stored, Manifest]],
    files: Iterable[Stored],
    policy: Policy,
    now_ms: int,
    grace_ms: int,
    needed: frozenset[int] = frozenset(),
) -> Pruning:
    """Return what to prune. `now_ms` is taken first; then `live`, `retired` and `files` are listed, in this order.

    Files of a manifest that is retired now stay for a whole grace period: an upload may be reusing them.
    `needed`: sequences that stay whatever the policy says.
    """
    stay = retained_sequences((SnapshotAge(one.sequence, one.created_ms) for one in live), policy, now_ms) | needed
    young = [manifest for at, manifest in retired if now_ms - at.modified_ms < grace_ms]
    named = frozenset().union(*(one.objects for one in (*live, *young)))
    again = {one.sequence for one in (*live, *young)}
    return Pruning(
        sorted(one.sequence for one in live if one.sequence not in stay),
        deletable(files, named, now_ms, grace_ms),
        sorted(manifest.sequence for _, manifest in retired if manifest.sequence not in again),
    )


def upload_ms_max(grace_ms: int) -> int:
    """Return the longest duration of an upload, from listing the manifests to writing its own."""
    return int(grace_ms * UPLOAD_SHARE_OF_GRACE)
