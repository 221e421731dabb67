"""Java archives by name: downloaded once, checked against a committed lock file on every use.

A set of jars is two committed files: `<name>.toml`, a jgo specification, and `<name>.lock.toml`, a jgo lock file
with the SHA-256 of each jar. A use reads only the lock file: nothing is resolved again, so a repository cannot
change which code runs here. `cutwater.local.jar_lock` reads and writes the lock files.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from cutwater.adapters.runtime.cache_folder import CACHE_VARIABLE, cache_dir
from cutwater.core.errors import MachineError
from cutwater.core.util.progress_rate import ProgressRate
from cutwater.local.jar_lock import DOWNLOAD_TIMEOUT_SECONDS, LockedJar, lock_path, read_lock

SPECS = Path(__file__).with_name("jars")
LOCK_WAIT_SECONDS = 600.0  # the time limit of the other process's download
DOWNLOAD_ATTEMPTS = 3
PARALLEL = 4
SAY_SECONDS = 2.0
MB = 1_000_000


Report = Callable[[str], None]


def _silent(_line: str) -> None:
    pass


def jars(name: str, cache: Path | None = None, report: Report = _silent) -> list[Path]:
    """Return the jars of the committed set `name` ("kafka", "spark", …), present and checked. See `jars_from`."""
    return jars_from(SPECS / f"{name}.toml", cache, report)


def connectors(checkpoint: str | None, report: Report = _silent) -> list[Path]:
    """Return the jars that a driver needs in addition to Spark's own, for this checkpoint location."""
    return [jar for name in connector_sets(checkpoint) for jar in jars(name, report=report)]


def connector_sets(checkpoint: str | None) -> tuple[str, ...]:
    return ("spark", "s3") if checkpoint and checkpoint.startswith("s3a:") else ("spark",)


def jars_from(spec: Path, cache: Path | None = None, report: Report = _silent) -> list[Path]:
    """Return the locked jars of a specification file, in the lock's order, present and checked.

    The first use downloads them into `<cache>/jars/<name>-<hash of specification and lock>`, and `report` gets a
    line every few seconds; two processes may do this at once. Raise MachineError if the lock, the network or the
    space is missing, or a jar is not the locked one.
    """
    locked, folder = read_lock(lock_path(spec)), _folder(spec, cache)
    try:
        if not _complete(folder, locked):
            with _exclusive(folder.with_name(f"{folder.name}.lock")):
                if not _complete(folder, locked):
                    _fill(folder, locked, report)
    except OSError as error:
        raise MachineError(
            f"The jars of '{spec.stem}' cannot be stored in {folder.parent}: {error}. "
            f"Free some space there, or set {CACHE_VARIABLE} to a writable folder"
        ) from error
    _verify(folder, locked)
    return [folder / jar.file_name for jar in locked]


def present(name: str) -> bool:
    """Return whether a set is in the cache, so that it needs no network. Contents are checked on use."""
    spec = SPECS / f"{name}.toml"
    return _complete(_folder(spec, None), read_lock(lock_path(spec)))


def _folder(spec: Path, cache: Path | None) -> Path:
    digest = hashlib.sha256(spec.read_bytes() + lock_path(spec).read_bytes()).hexdigest()[:16]
    return (cache or cache_dir()) / "jars" / f"{spec.stem}-{digest}"


def _complete(folder: Path, locked: list[LockedJar]) -> bool:
    return all((folder / jar.file_name).is_file() for jar in locked)


def _verify(folder: Path, locked: list[LockedJar]) -> None:
    """Compare every jar with the lock, on each use: 40 MB take less time than a start of Java."""

    def is_wrong(jar: LockedJar) -> bool:
        with (folder / jar.file_name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() != jar.sha256

    with ThreadPoolExecutor(PARALLEL) as pool:
        wrong = [jar for jar, bad in zip(locked, pool.map(is_wrong, locked), strict=True) if bad]
    if wrong:
        names = ", ".join(f"{jar.file_name} ({jar.coordinate})" for jar in wrong)
        raise MachineError(
            f"The SHA-256 of {names} in {folder} is not the locked one: the file is damaged or was replaced. "
            f"Delete {folder} and run again; if it happens again, do not trust the source of the jars"
        )


def _fill(folder: Path, locked: list[LockedJar], report: Report) -> None:
    """Download into a temporary folder beside, check, and only then rename it."""
    progress = _Progress(folder.name.rpartition("-")[0], locked, report)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temp:
        whole = Path(temp) / "jars"
        whole.mkdir()
        with ThreadPoolExecutor(PARALLEL) as pool:
            for jar in pool.map(lambda one: _download(one, Path(temp) / "downloads", whole), locked):
                progress.add(jar)
        _verify(whole, locked)
        shutil.rmtree(folder, ignore_errors=True)  # it may exist with some jars deleted
        whole.rename(folder)


class _Progress:
    def __init__(self, name: str, locked: list[LockedJar], report: Report) -> None:
        self._name, self._report = name, report
        self._done, self._total = 0, sum(jar.size for jar in locked)
        self._rated = ProgressRate(self._total, time.monotonic(), SAY_SECONDS)
        report(f"fetching {len(locked)} jars for {name}, once: {self._total / MB:.1f} MB to download …")

    def add(self, jar: LockedJar) -> None:
        self._done += jar.size
        if rate := self._rated.next_line(self._done, time.monotonic()):
            left = "" if rate.left_s is None else f", about {rate.left_s:.0f} s left"
            done, per_s = rate.done / MB, rate.per_s / MB
            self._report(f"{self._name}: {done:.1f} of {self._total / MB:.1f} MB, {per_s:.1f} MB/s{left}")


def _download(jar: LockedJar, downloads: Path, target: Path) -> LockedJar:
    """Download one jar with jgo. Each attempt has its own folder, as jgo accepts a truncated file."""
    from jgo.maven import MavenContext

    error: Exception | None = None
    for attempt in range(DOWNLOAD_ATTEMPTS):
        context = MavenContext(
            repo_cache=downloads / f"{jar.file_name}-{attempt}", timeout=DOWNLOAD_TIMEOUT_SECONDS
        )
        component = context.project(jar.group, jar.artifact).at_version(jar.version)
        try:
            component.artifact(jar.classifier).resolve().rename(target / jar.file_name)
            return jar
        except Exception as caught:  # jgo raises both requests' errors and bare RuntimeErrors
            if isinstance(caught, OSError) and caught.errno is not None:
                raise  # the disk, not the network
            error = caught
    raise MachineError(
        f"The jar {jar.coordinate} could not be downloaded in {DOWNLOAD_ATTEMPTS} attempts: {error}. "
        f"The first start needs the network; check it (and any proxy), then run again"
    ) from error


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold a file lock: one process downloads, the others wait at most `LOCK_WAIT_SECONDS`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise MachineError(
                        f"Another process has been holding {path} for {LOCK_WAIT_SECONDS:.0f} s: "
                        f"end it, then run again"
                    ) from None
                time.sleep(0.1)
        yield
