"""Which test runs which function of core/: noted once, and again for tests whose file has changed since."""

from __future__ import annotations

import cProfile
import json
import time
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from mutation.operators import CORE, sources


@dataclass
class Covered:
    """By one test."""

    took_s: float
    lines: dict[str, list[int]]
    """Module of core/ → the first lines of the functions that ran."""


@dataclass
class Map:
    """Test → what it covers."""

    file: Path
    tests: dict[str, Covered] = field(default_factory=dict)
    _hashes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Map:
        """What is on disk and still true: core/ and the test's file are what they were."""
        found = cls(file)
        if not file.exists():
            return found
        said = json.loads(file.read_text(encoding="utf-8"))
        if said["core"] != hash_of_core():
            return found
        now = {path: hash_of(Path(path)) for path in said["files"] if Path(path).exists()}
        for test, (took_s, lines) in said["tests"].items():
            if now.get(path_of(test)) == said["files"][path_of(test)]:
                found.tests[test] = Covered(took_s, lines)
        return found

    def write(self) -> None:
        files = {path: hash_of(Path(path)) for path in {path_of(one) for one in self.tests}}
        tests = {name: (round(one.took_s, 4), one.lines) for name, one in self.tests.items()}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        told = {"core": hash_of_core(), "files": files, "tests": tests}
        self.file.write_text(json.dumps(told), encoding="utf-8")

    def tests_of(self, module: str, line: int | None) -> list[str]:
        """Those that run the function that begins at a line, or any of the module; its own come first."""
        own = f"test_{Path(module).stem}"
        found = [
            (own not in name, one.took_s, name)
            for name, one in self.tests.items()
            if module in one.lines and (line is None or line in one.lines[module])
        ]
        return [name for *_, name in sorted(found)]


def path_of(test: str) -> str:
    return test.partition("::")[0]


def hash_of(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()[:16]


def hash_of_core() -> str:
    return sha256(json.dumps(sources()).encode()).hexdigest()[:16]


class Noting:
    """Notes the functions of core/ that run, by the interpreter's own profiler.

    A trace of lines takes several times as long.
    """

    def __init__(self) -> None:
        self._root = str(CORE) + "/"
        self._profile = cProfile.Profile(subcalls=False, builtins=False)
        self._began = 0.0

    def __enter__(self) -> Noting:
        self._began = time.process_time()  # whatever else runs here
        self._profile.enable()
        return self

    def __exit__(self, *_: object) -> None:
        self._profile.disable()

    def covered(self) -> Covered:
        took_s = time.process_time() - self._began
        found: dict[str, set[int]] = {}
        for one in self._profile.getstats():
            path = getattr(one.code, "co_filename", "")
            if path.startswith(self._root):
                found.setdefault(path.removeprefix(self._root), set()).add(one.code.co_firstlineno)
        return Covered(took_s, {module: sorted(lines) for module, lines in found.items()})
