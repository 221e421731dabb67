"""Peers and examples that are one Java source file or a few, compiled by a compiler of their own.

Java compiles such a file by itself if it is a whole JDK. What `make` installs where there is no Java is not.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cutwater.adapters.runtime.cache_folder import cache_dir
from cutwater.core.errors import MachineError
from cutwater.local.jars import Report, jars_from

COMPILER = Path(__file__).parents[1] / "jars" / "compiler.toml"
JAVA_FOLDER = Path(__file__).parents[1] / "java"
COMPILE_S = 120


@dataclass(frozen=True)
class JavaProgram:
    """A peer's source files in `benchmarks/java`, and the sets of jars that it needs."""

    name: str
    """Of the class and its file."""
    helpers: tuple[str, ...]
    """Classes of other files that it uses."""
    jar_sets: tuple[Path, ...]

    @property
    def source(self) -> Path:
        return JAVA_FOLDER / f"{self.name}.java"

    def jars(self, report: Report) -> list[Path]:
        return [jar for one in self.jar_sets for jar in jars_from(one, report=report)]

    def class_path(self, java: Path, jars: Sequence[Path]) -> str:
        """Raises MachineError if the program does not compile."""
        return class_path(java, self.source, jars, [JAVA_FOLDER / f"{one}.java" for one in self.helpers])


def class_path(java: Path, source: Path, jars: Sequence[Path], helpers: Sequence[Path] = ()) -> str:
    """What `java -cp` takes to run the class of `source`, named as the file. MachineError: it does not compile.

    `helpers`: other source files that `source` uses.
    """
    libraries, sources = os.pathsep.join(map(str, jars)), [source, *helpers]
    texts = b"".join(one.read_bytes() for one in sources)
    digest = hashlib.sha256(texts + libraries.encode()).hexdigest()[:16]
    folder = cache_dir() / "classes" / f"{source.stem}-{digest}"
    if not (folder / f"{source.stem}.class").is_file():
        (compiler,) = jars_from(COMPILER)
        folder.parent.mkdir(parents=True, exist_ok=True)
        # A compiler that is ended halfway leaves some of the classes: the folder gets its name when all are there.
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as part:
            whole = Path(part) / "classes"
            options = ["-17", "-proc:none", "-nowarn", "-encoding", "UTF-8", "-d", str(whole), "-cp", libraries]
            command = [str(java), "-jar", str(compiler), *options, *map(str, sources)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, check=False)
            if done.returncode:
                raise MachineError(f"{source} does not compile:\n{(done.stdout + done.stderr)[-2000:]}")
            shutil.rmtree(folder, ignore_errors=True)
            whole.rename(folder)
    return f"{folder}{os.pathsep}{libraries}"
