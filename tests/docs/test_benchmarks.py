"""The benchmarks' own arithmetic, with plain values: a wrong ratio would be believed."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def run(part: Any, contender: str, pair: int, drain_s: float, **more: Any) -> Any:
    known = {"events": 1000, "start_s": 3.0, "cpu_s": 2 * drain_s, "start_cpu_s": 5.0, "broker_cpu_s": 1.0}
    known |= {"memory_mb_peak": 500.0, "exact": True}
    return part("harness.figures").Run(contender=contender, pair=pair, drain_s=drain_s, **(known | more))


def test_arguments_have_defaults_and_bounds(part: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments five pairs of two million events; what is out of bounds is refused with the bounds."""
    b2 = part("b2")
    options = b2.COMMAND.parse([])
    assert (options.pairs, options.size, options.seed, options.contenders) == (5, 2_000_000, 7, b2.BY_DEFAULT)
    assert b2.COMMAND.parse(["--pairs", "2", "--size", "5000"]).size == 5000
    for wrong in (["--pairs", "0"], ["--size", "many"], ["--size", "10000001"], ["--contenders", "peer"]):
        with pytest.raises(SystemExit) as refused:
            b2.COMMAND.parse(wrong)
        assert refused.value.code == 2
    assert "is not a number from 1,000 to 10,000,000" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["b1", "b2", "b4", "b5", "publish"])
def test_a_benchmark_that_cannot_run_says_why_and_gives_the_error_s_code(
    part: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line and the exit code of the error, not a traceback: a machine without Java gives 3."""
    errors, benchmark = importlib.import_module("cutwater.core.errors"), part(name)

    def no_java() -> None:
        raise errors.MachineError("no Java was found")

    monkeypatch.setattr(benchmark, "find_java", no_java)
    assert benchmark.main(["--out", str(tmp_path)]) == 3
    assert capsys.readouterr().err == f"{name}: no Java was found\n"


def test_the_exit_code_says_whether_every_run_was_exact(
    part: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 when exact, 1 when a run was not, 130 when interrupted; the conclusions are said before it ends."""
    command, written = part("harness.command"), {"ratios": {"drain/peer": part("harness.figures").spread([0.5])}}
    tool = command.Command("b9", "B9", ("ours",), size=1_000, size_max=2_000)

    def code(bench: Any) -> int:
        return int(tool.run(["--out", str(tmp_path)], bench, command.ratio_lines))

    def interrupted(_options: Any) -> Any:
        raise KeyboardInterrupt

    assert code(lambda _: {**written, "exact": True}) == 0
    assert "drain/peer: 0.5 (0.5 to 0.5, 1 pairs)" in capsys.readouterr().out
    assert code(lambda _: {**written, "exact": False}) == 1
    assert code(interrupted) == 130


def test_each_contender_begins_in_turn(part: Any) -> None:
    """Every pair runs all contenders once, and three pairs begin with three different ones."""
    orders = [part("harness.command").order(["a", "b", "c"], pair) for pair in (1, 2, 3, 4)]
    assert orders == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"]]


def test_a_ratio_is_taken_within_a_pair_and_above_one_is_better(part: Any) -> None:
    """Ours over the peer's rate, pair by pair: twice as fast is 2; the median is not that of medians."""
    figures = part("harness.figures")
    runs = [
        run(part, "ours", 1, 5.0), run(part, "peer", 1, 10.0),
        run(part, "ours", 2, 20.0), run(part, "peer", 2, 20.0),
        run(part, "peer", 3, 40.0), run(part, "ours", 3, 10.0),
        run(part, "ours", 4, 1.0),
    ]  # fmt: skip
    wanted = [figures.Figure("drain", "peer", lambda one: one.events_per_s), figures.Figure("x", "absent", id)]
    assert figures.ratios(runs, "ours", wanted) == {
        "drain/peer": {"median": 2.0, "min": 1.0, "max": 4.0, "pairs": 3}
    }


def test_a_rate_that_a_run_does_not_have_gives_no_ratio(part: Any) -> None:
    """Kafka Streams has no epochs, hence no warm rate: no figure rather than a wrong one."""
    figures = part("harness.figures")
    runs = [run(part, "ours", 1, 5.0, warm_events_per_s=300.0), run(part, "peer", 1, 5.0)]
    warm = figures.Figure("warm", "peer", lambda one: one.warm_events_per_s)
    assert figures.ratios(runs, "ours", [warm]) == {}


def test_the_document_has_the_common_form_and_one_inexact_run_shows(part: Any) -> None:
    """The keys are those that every benchmark writes; `exact` is true only when all runs are."""
    figures = part("harness.figures")
    good, bad = run(part, "ours", 1, 5.0), run(part, "peer", 1, 5.0, exact=False, fault="of 9 rows 1 is missing")
    wrong = figures.document("b2", {"cores": 2}, [good, bad], {"drain/peer": figures.spread([0.9, 1.1, 1.0])})
    assert list(wrong) == ["benchmark", "machine", "exact", "ratios", "runs"]
    assert (wrong["exact"], figures.document("b2", {}, [good], {})["exact"]) == (False, True)
    assert figures.document("b2", {}, [], {})["exact"] is False
    assert wrong["ratios"]["drain/peer"] == {"median": 1.0, "min": 0.9, "max": 1.1, "pairs": 3}
    assert json.loads(json.dumps(wrong))["runs"][0]["events_per_s"] == 200.0
    shown = figures.markdown("B2", wrong, [good, bad], ["a limit"])
    assert "| ours | 200 |" in shown
    assert "of 9 rows 1 is missing" in shown


def test_a_difference_to_the_oracle_is_counted_and_shown(part: Any) -> None:
    """A missing, a different and an unexpected row are each found; nothing at all is not exact."""
    fault = part("windows.exactness").fault
    right = {("a", 0): (1, 5, 5), ("b", 0): (2, 6, 4)}
    assert fault(dict(right), right) is None
    assert "1 are missing" in fault({("a", 0): (1, 5, 5)}, right)
    assert "1 different" in fault({**right, ("b", 0): (2, 7, 4)}, right)
    assert "1 are unexpected" in fault({**right, ("c", 0): (1, 1, 1)}, right)
    assert fault({}, {}) is not None


def test_one_seed_gives_one_list_of_ticks(part: Any) -> None:
    """The same ticks for the same seed, others for another."""
    workload = part("windows.workload")
    made, again = workload.generate(2_000, seed=3), workload.generate(2_000, seed=3)
    assert (again.time_ms == made.time_ms).all()
    assert (workload.generate(2_000, seed=4).key != made.key).any()


def test_the_oracle_puts_an_event_into_three_windows(part: Any) -> None:
    """One event counts in each window of a minute that holds it; a second one in the same window adds up."""
    workload, oracle = part("windows.workload"), part("windows.oracle")
    numpy = importlib.import_module("numpy")
    columns = [numpy.array(one) for one in ([7, 7], [60_000, 79_999], [5, 3])]
    state, _ = oracle.expected(workload.Events(*columns).backlog, oracle.TICKS, 60_000, 20_000)
    assert state == {("key-00007", start): (2, 8, 5) for start in (20_000, 40_000, 60_000)}


def test_cpu_time_is_read_between_samples(part: Any) -> None:
    """The CPU time of a drain that begins and ends between two samples is interpolated, not rounded."""
    measuring = part("harness.measurement")
    samples = [measuring.Sample(at, cpu, 0.0) for at, cpu in ((10.0, 1.0), (11.0, 3.0), (12.0, 4.0))]
    assert measuring.cpu_between(samples, 10.5, 11.5) == pytest.approx(1.5)
    assert measuring.cpu_at(samples, 5.0) == 1.0
    assert measuring.cpu_at(samples, 50.0) == 4.0


ENDED = """
import os, subprocess, sys
from benchmarks.harness.measurement import Sampler

def used(waited):
    sampler = Sampler(lambda: [os.getpid()], waited=waited)
    sampler.sample()
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.4: pass"], check=True)
    sampler.sample()
    return sampler.samples[1].cpu_s - sampler.samples[0].cpu_s

print(used(True), used(False))
"""


def test_what_a_process_used_that_has_ended_is_asked_of_its_parent() -> None:
    """A worker that lived between two samples only is in the account: its parent has waited for it.

    In a process of its own: this one may have threads of other tests at work.
    """
    done = subprocess.run([sys.executable, "-c", ENDED], cwd=ROOT, capture_output=True, text=True, check=True)
    waited, alone = map(float, done.stdout.split())
    assert waited > 0.3 > alone


def test_the_drain_is_read_from_the_checkpoint(part: Any, tmp_path: Path) -> None:
    """It ends with the commit of the epoch that reads the last event, not with an epoch without data after it."""
    import os

    def written(folder: str, epoch: int, text: str, at_s: float) -> None:
        (tmp_path / folder).mkdir(exist_ok=True)
        path = tmp_path / folder / str(epoch)
        path.write_text(text, encoding="utf-8")
        os.utime(path, (at_s, at_s))

    def plan(events: int) -> str:
        return "\n".join(["v1", json.dumps({"batchWatermarkMs": 0}), json.dumps({"t": {"0": events}})])

    timeline = part("windows.timeline")
    assert timeline.from_checkpoint(tmp_path, 400) is None
    for epoch, events in enumerate([100, 200, 300, 400, 400]):
        written("offsets", epoch, plan(events), 1_000.0 + 10 * epoch)
        assert timeline.from_checkpoint(tmp_path, 400) is None or epoch == 4
        written("commits", epoch, "v1\n{}", 1_009.0 + 10 * epoch)
    found = timeline.from_checkpoint(tmp_path, 400)
    assert (found.first_s, found.last_s) == (1_000.0, 1_039.0)
    assert found.warm_events_per_s == pytest.approx(200 / 20.0)


def test_the_rate_of_the_consumer_is_the_last_column(part: Any) -> None:
    """ConsumerPerformance's line of figures is found among its headings; without one there is no rate."""
    output = (
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
        "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
        "2026-01-01 10:00:00:000, 2026-01-01 10:00:02:000, 50.1, 25.0, 2000000, 1000000.0, 400, "
        "1600, 31.3, 1250000.5\n"
    )
    assert part("harness.limits").parse_rate(output) == 1250000.5
    assert part("harness.limits").parse_rate("nothing") is None


def test_each_benchmark_that_a_page_names_can_be_called() -> None:
    """`make bench B=x` runs `python -m benchmarks.x`: a module that has moved would be found by nobody else."""
    pages = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    named = {name for page in pages for name in re.findall(r"make bench B=([a-z0-9_.]+)", page.read_text("utf-8"))}
    assert {"b1", "reading.half_requests"} <= named
    for name in sorted(named):
        place = ROOT.joinpath("benchmarks", *name.split("."))
        assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), name
