"""Archives of classes: a file for each Java and class path, written meanwhile by a process that ends in time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cutwater.local.processes.class_archives import archive_path, archives_written, usable
from support.waits import wait_until

WRITER = """
import os, sys, time
open(sys.argv[1] + ".began", "w").write(str(os.getpid()))
time.sleep(600)
"""


@pytest.fixture
def java(tmp_path: Path) -> Path:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text("JAVA_VERSION=17")
    return home / "bin" / "java"


def test_each_java_and_class_path_has_its_own_file(java: Path) -> None:
    one = archive_path(java, "4.2.0", "/venv")
    assert one == archive_path(java, "4.2.0", "/venv")
    assert one != archive_path(java, "4.1.1", "/venv")
    (java.parent.parent / "release").write_text("JAVA_VERSION=21")
    assert one != archive_path(java, "4.2.0", "/venv")


def test_a_name_with_a_blank_cannot_be_passed_on(tmp_path: Path) -> None:
    plain, blank = tmp_path / "a.jsa", tmp_path / "a b.jsa"
    assert not usable(plain)
    plain.touch()
    blank.touch()
    assert (usable(plain), usable(blank)) == (True, False)


def test_what_is_missing_is_written_meanwhile_and_an_unfinished_writer_ends(tmp_path: Path) -> None:
    """What is there is not written again."""
    (tmp_path / "slow_writer.py").write_text(WRITER)
    there, missing = tmp_path / "there.jsa", tmp_path / "missing.jsa"
    there.touch()
    began = Path(f"{missing}.began")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with archives_written({"slow_writer": missing, "no_such_module": there}, environment, tmp_path):
        pid = int(wait_until(lambda: began.exists() and began.read_text(), "the writer"))
        assert Path(f"/proc/{pid}").exists()
    assert not (tmp_path / "classes-no_such_module.log").exists()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the writer's end", 20)
