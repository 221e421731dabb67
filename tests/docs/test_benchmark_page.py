"""All benchmarks one after another, and their page, with plain values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RATIO = {"median": 0.5, "min": 0.4, "max": 0.6, "pairs": 3}


def write(folder: Path, name: str, **more: Any) -> dict[str, Any]:
    document = {"benchmark": name, "machine": {"cores": 2}, "exact": True, "ratios": {}, "runs": [], **more}
    (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    return document


def run(contender: str, **more: Any) -> dict[str, Any]:
    return {"contender": contender, "pair": 1, "exact": True, "fault": None, **more}


def test_each_kind_of_result_has_bars_of_its_own(part: Any) -> None:
    """Rates, latencies, epochs and steps; runs of one contender come together, other moments and rates do not."""
    rates = [
        run("ours", shape="three-windows", until="durable", events_per_s=100.0),
        run("ours", shape="three-windows", until="durable", events_per_s=120.0),
        run("ours", shape="three-windows", until="readable", events_per_s=80.0),
    ]
    latencies = [
        run("ours", rate=1000, delays={"readable": {"p50": 5.0, "p99": 9.0}}),
        run("peer", lags_ms={"held": {"p99": 7.0}}),
    ]
    epochs, steps = [run("ours", rows=100_000, p50_ms=500.0)], [{"step": "claim", "seconds": 2.5}]
    found = [
        row
        for document in ({"runs": rates}, {"runs": latencies}, {"runs": epochs}, {"steps": steps}, {"runs": []})
        for chart in part("harness.charts").charts(document)
        for row in chart.rows.items()
    ]
    assert found == [
        ("three-windows ours", [100.0, 120.0]), ("three-windows ours readable", [80.0]),
        ("ours 1,000/s: readable", [9.0]), ("peer: held", [7.0]),
        ("ours 100,000 rows", [500.0]), ("claim", [2.5]),
    ]  # fmt: skip


def test_the_page_has_a_plot_for_each_result_file_and_says_what_is_wrong(part: Any, tmp_path: Path) -> None:
    """In the order of the names, with a plot as text; files of another form are left out."""
    write(tmp_path, "own", steps=[{"step": "claim", "seconds": 2.5}], exact=False, fault="2 keys <lost>")
    write(tmp_path, "b2", ratios={"three-windows-readable/peer": RATIO}, runs=[run("ours", events_per_s=100.0)])
    (tmp_path / "b2.md").write_text("# B2: windows & more\n\nrest", encoding="utf-8")
    (tmp_path / "half_requests.json").write_text('{"ratio": 1.1}', encoding="utf-8")
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    text = part("harness.page").write_page(tmp_path, ["b1", "b2"]).read_text(encoding="utf-8")
    assert text.count("<svg") == 2
    assert text.index("B2: windows &amp; more") < text.index('id="own"')
    assert ">three-windows-readable/peer</text>" in text
    assert "<td>three-windows-readable/peer</td><td>0.5</td><td>0.4</td><td>0.6</td><td>3</td>" in text
    assert "not every run exact" in text
    assert "2 keys &lt;lost&gt;" in text
    assert "half_requests" not in text


def test_a_page_of_nothing_says_so(part: Any, tmp_path: Path) -> None:
    """Before the first benchmark, or of one that measured nothing, there is no plot, and no error."""
    assert "no result file yet" in part("harness.page").write_page(tmp_path, []).read_text(encoding="utf-8")
    write(tmp_path, "b2")
    assert "<svg" not in part("harness.page").write_page(tmp_path, []).read_text(encoding="utf-8")


def test_all_names_every_benchmark_that_has_a_command(part: Any) -> None:
    """A benchmark that is added and not named here would never be run."""
    files = {file.stem for file in (ROOT / "benchmarks").glob("*.py")} - {"__init__", "all"}
    packages = {file.parent.name for file in (ROOT / "benchmarks").glob("*/bench.py")}
    assert set(part("all").NAMES) == files | packages


def test_a_benchmark_gets_the_arguments_that_it_has(part: Any, tmp_path: Path) -> None:
    """No size above its bound, and no pairs where there is nobody to compare with."""
    every = part("all")
    options = every.parse(["--pairs", "1", "--size", "6000000", "--out", str(tmp_path)])
    assert every.command_line("b2", options)[2:] == [
        "benchmarks.b2",
        "--out",
        str(tmp_path),
        "--size",
        "6000000",
        "--pairs",
        "1",
    ]
    assert every.command_line("publish", options)[-3:] == ["5000000", "--pairs", "1"]
    assert "--pairs" not in every.command_line("failover", options)
    assert every.command_line("b2", every.parse([]))[2:] == ["benchmarks.b2", "--out", "build/bench"]


def test_one_that_fails_does_not_stop_the_others_and_an_interrupt_does(part: Any, tmp_path: Path) -> None:
    """The first failure is the exit code; the page is there after each benchmark."""
    every, started = part("all"), list[str]()

    def start(codes: dict[str, int]) -> Any:
        def one(line: list[str]) -> int:
            name = line[2].removeprefix("benchmarks.")
            assert (tmp_path / "index.html").exists() == bool(started)
            started.append(name)
            return codes.get(name, 0)

        return one

    options = every.parse(["--benchmarks", "b2", "b5", "b7", "--out", str(tmp_path)])
    assert every.run_each(options, start({"b2": 3, "b5": 1})) == 3
    assert started == ["b2", "b5", "b7"]
    started.clear()
    (tmp_path / "index.html").unlink()
    assert every.run_each(options, start({"b5": 130})) == 130
    assert started == ["b2", "b5"]


def test_only_the_page(
    part: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--only-page` runs nothing, and makes the page of what is there."""
    monkeypatch.setattr(part("all"), "run_to_end", lambda line: pytest.fail(f"{line} was run"))
    write(tmp_path, "b2", ratios={"three-windows-durable/peer": RATIO})
    assert part("all").main(["--only-page", "--out", str(tmp_path)]) == 0
    assert str(tmp_path / "index.html") in capsys.readouterr().out
    assert "three-windows-durable/peer" in (tmp_path / "index.html").read_text(encoding="utf-8")
