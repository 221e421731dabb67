"""The release before this one, as a wheel: its processes run beside those of the working tree.

`python -m support.releases VERSION COMMIT` builds a wheel from a commit and writes it down in the lock. The same
commit gives the same bytes. `python -m support.releases` builds each wheel of the lock again and compares.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests/golden/releases"
LOCK = FOLDER / "releases.lock.toml"
INSTALLED = ROOT / "build/releases"
PARTS = ("LICENSE", "README.md", "pyproject.toml", "schemas", "services", "spark")
"""Of the tree: all that is in the wheel, or that it is made with."""


class Release(NamedTuple):
    version: str
    commit: str
    sha256: str
    size: int

    @property
    def wheel(self) -> Path:
        return FOLDER / f"cutwater-{self.version}-py3-none-any.whl"


def releases() -> list[Release]:
    """Those of the lock, the oldest first."""
    return [Release(**one) for one in tomllib.loads(LOCK.read_text(encoding="utf-8"))["release"]]


def installed(release: Release) -> Path:
    """The folder of its packages, for PYTHONPATH. It needs what this version needs, and shares that."""
    folder = INSTALLED / release.version
    mark = folder / ".sha256"
    if not mark.exists() or mark.read_text(encoding="utf-8") != release.sha256:
        uv = Path(sys.executable).with_name("uv")
        options = ["--quiet", "--no-deps", "--no-index", "--reinstall", "--target", str(folder)]
        subprocess.run([uv, "pip", "install", "--python", sys.executable, *options, release.wheel], check=True)
        mark.write_text(release.sha256, encoding="utf-8")
    return folder


def build(commit: str) -> bytes:
    """The wheel of a commit. Its files have the time of the commit."""
    git = ["git", "-C", str(ROOT)]
    tree = subprocess.run([*git, "archive", commit, *PARTS], check=True, capture_output=True).stdout
    at = subprocess.run([*git, "show", "-s", "--format=%ct", commit], check=True, capture_output=True, text=True)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(tree)) as tar:
            tar.extractall(folder, filter="data")
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "made"]
        env = {**os.environ, "SOURCE_DATE_EPOCH": at.stdout.strip()}
        subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
        [made] = Path(folder, "made").glob("*.whl")
        return made.read_bytes()


def _of(version: str, commit: str, wheel: bytes) -> Release:
    return Release(version, commit, sha256(wheel).hexdigest(), len(wheel))


def _entry(one: Release) -> str:
    said = (
        f'version = "{one.version}"',
        f'commit = "{one.commit}"',
        f'sha256 = "{one.sha256}"',
        f"size = {one.size}",
    )
    return "\n".join(["[[release]]", *said, ""])


def main(words: list[str]) -> int:
    if words:
        version, commit = words
        wheel = build(commit)
        made = _of(version, commit, wheel)
        made.wheel.write_bytes(wheel)
        known = [one for one in releases() if one.version != version] if LOCK.exists() else []
        LOCK.write_text("\n".join(map(_entry, [*known, made])), encoding="utf-8")
        print(made.wheel.relative_to(ROOT), f"{made.size:,} bytes")
        return 0
    wrong = [one for one in releases() if _of(one.version, one.commit, build(one.commit)) != one]
    for one in wrong:
        print(f"{one.wheel.name} is not what {one.commit} gives")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
