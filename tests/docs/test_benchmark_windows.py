"""B2's peers that are Java programs: their figures, their rows, and how they are started, with plain values."""

from __future__ import annotations

import importlib
import os
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import MachineError


def run(part: Any, contender: str, drain_s: float, cpu_s: float, memory_mb: float) -> Any:
    return part("harness.figures").Run(
        contender=contender, pair=1, events=1000, start_s=3.0, drain_s=drain_s, cpu_s=cpu_s, start_cpu_s=5.0,
        broker_cpu_s=1.0, memory_mb_peak=memory_mb, exact=True, shape="three-windows",
    )  # fmt: skip


def record(key: str, start_ms: int, count: int, total: int, highest: int) -> Any:
    key_bytes = key.encode() + struct.pack(">q", start_ms)
    value = struct.pack(">qqq", count, total, highest)
    return SimpleNamespace(key=lambda: key_bytes, value=lambda: value)


def test_each_peer_has_its_own_ratios_and_above_one_we_are_better(part: Any) -> None:
    """Drain, CPU and memory beside each Java program; half the time, a third of the CPU, twice the memory."""
    b2 = part("b2")
    assert b2.CONTENDERS == ("cutwater", "spark-noop", "kafka-streams", "flink", "flink-sql")
    runs = [run(part, "cutwater", 5.0, 4.0, 1000.0), run(part, "flink-sql", 10.0, 12.0, 500.0)]
    found = part("harness.figures").ratios(runs, "cutwater", b2.figures("three-windows"))
    assert {name: one["median"] for name, one in found.items()} == {
        "three-windows-durable/flink-sql": 2.0,
        "three-windows-durable-cpu/flink-sql": 3.0,
        "three-windows-memory/flink-sql": 0.5,
    }
    labels = [one.label for one in b2.figures("sixty-windows")]
    assert len(set(labels)) == len(labels)
    assert {"sixty-windows-durable/flink", "sixty-windows-durable-cpu/flink"} <= set(labels)


def test_the_result_files_name_every_contender(part: Any, tmp_path: Path) -> None:
    """The table has a row for each shape and contender, and the ratios of Flink stand below it."""
    runs = [run(part, name, 5.0, 4.0, 1000.0) for name in part("b2").CONTENDERS]
    written = part("b2").write(tmp_path, {"cores": 2}, runs, ["a note"])
    assert written["ratios"]["three-windows-durable/flink"]["median"] == 1.0
    text = (tmp_path / "b2.md").read_text(encoding="utf-8")
    assert "| three-windows flink-sql | 200 |" in text
    assert "| three-windows-durable-cpu/flink-sql | 1.0 |" in text


def test_a_window_with_two_rows_is_not_exact(part: Any) -> None:
    """Flink writes a window once: the same row again, as after a transaction that was written anew, is a fault."""
    exactness = part("windows.exactness")
    one, other = record("a", 0, 1, 5, 5), record("a", 20_000, 2, 9, 5)
    found, fault = exactness.written_once([one, other])
    assert (exactness.streams_state(found), fault) == ({("a", 0): (1, 5, 5), ("a", 20_000): (2, 9, 5)}, None)
    assert "1 rows were written for windows that had one" in exactness.written_once([one, other, one])[1]


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: Any) -> Path:
    """A Java that writes down its arguments and makes the class that it is asked for."""
    java, programs = tmp_path / "java", part("harness.java_program")
    java.write_text(
        '#!/bin/sh\necho "$@" >"$0.arguments"\n'
        'while [ "$1" != -d ]; do shift; done\nmkdir -p "$2" && touch "$2/B2Flink.class" "$2/Own.class"\n'
    )
    java.chmod(0o755)
    monkeypatch.setattr(programs, "jars_from", lambda _: [tmp_path / "compiler.jar"])
    monkeypatch.setattr(programs, "cache_dir", lambda: tmp_path / "cache")
    return java


def test_a_program_is_compiled_with_what_it_shares_and_again_when_that_changes(
    part: Any, compiler: Path, tmp_path: Path
) -> None:
    """All source files go to the compiler, once; another text of any of them is another folder of classes."""
    own, shared, written = tmp_path / "Own.java", tmp_path / "Shared.java", Path(f"{compiler}.arguments")
    own.write_text("class Own {}")
    shared.write_text("class Shared {}")
    compiled = part("harness.java_program").class_path
    first = compiled(compiler, own, [tmp_path / "a.jar"], helpers=[shared])
    assert written.read_text().split()[-2:] == [str(own), str(shared)]
    written.unlink()
    assert compiled(compiler, own, [tmp_path / "a.jar"], helpers=[shared]) == first
    assert not written.exists()
    shared.write_text("class Shared { int more; }")
    assert compiled(compiler, own, [tmp_path / "a.jar"], helpers=[shared]) != first


def test_a_compiler_that_fails_halfway_leaves_no_classes(part: Any, compiler: Path, tmp_path: Path) -> None:
    """It wrote the program's class and then failed: the next run compiles again, and does not run half of it."""
    own = tmp_path / "Own.java"
    own.write_text("class Own {}")
    compiled, works = part("harness.java_program").class_path, compiler.read_text()
    compiler.write_text(f"{works}exit 1\n")
    for _ in range(2):
        with pytest.raises(MachineError, match="does not compile"):
            compiled(compiler, own, [])
    compiler.write_text(works)
    classes = Path(compiled(compiler, own, []).split(os.pathsep)[0])
    assert (classes / "Own.class").is_file()
    assert [one.name for one in classes.parent.iterdir()] == [classes.name]


def test_flink_gets_the_heap_of_the_others_and_the_job_s_own_windows(
    part: Any, compiler: Path, tmp_path: Path
) -> None:
    """One JVM with the same heap; size, slide and lateness are the shape's; settings come last."""
    shapes, program = part("windows.shapes"), part("harness.flink_program").program
    job = importlib.import_module("cutwater.adapters.job_files.loader").load_job(
        shapes.SIXTY.write_job(tmp_path, "b2")
    )
    command = program(
        compiler, [tmp_path / "flink.jar"], Cluster("broker:9092"), job, shapes.SIXTY.peers["flink"],
        "out", "name", tmp_path, 1000, ["state.backend.type=hashmap"],
    )  # fmt: skip
    begin = command.index("B2Flink")
    assert f"-Xmx{part('harness.streams_program').HEAP}" in command[:begin]
    assert command[begin + 1 : begin + 6] == ["broker:9092", job.topic, "out", "name", str(tmp_path)]
    assert command[-4:] == ["60000", "1000", "60000", "state.backend.type=hashmap"]
    assert (tmp_path / "tmp").is_dir()
