"""A checkpoint that is an older copy, or that cannot be read: named, and nothing is written or shown of it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cutwater.core.errors import DivergenceError, MachineError
from cutwater.core.protocol.chain import find_chain_faults
from support.events import counting
from support.harness import Flow, kill_session
from support.shop import PROGRAM, Shop, orders

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("shared_spark")]
DRIVER = "cutwater_spark.driver"


class Copies:
    """Copies of a stopped driver's checkpoint."""

    def __init__(self, job: Flow) -> None:
        self.folder = job.folder / "checkpoints"
        self._kept = job.folder / "kept"

    def keep(self, name: str) -> None:
        shutil.copytree(self.folder, self._kept / name)

    def put_back(self, name: str) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self._kept / name, self.folder)

    def newest(self, pattern: str) -> Path:
        """The file of the highest number among those of a pattern."""
        found = [path for path in self.folder.rglob(pattern) if path.name.isdecimal()]
        return max(found, key=lambda path: int(path.name))


def told_by(driver: subprocess.Popen[bytes], job: Flow, seen: int) -> tuple[int, str]:
    """Exit code, and what the log says since."""
    code = driver.wait(120)
    return code, job.log(DRIVER).read_text("utf-8")[seen:]


def run_and_keep(job: Flow, made: list[Any], copies: Copies) -> None:
    """Have the events counted, end the driver, and keep a copy of its checkpoint as `good`."""
    job.signal()
    job.produce(made)
    driver = job.driver()
    job.wait_committed()
    driver.terminate()
    assert driver.wait(60) == 0
    copies.keep("good")


def test_a_checkpoint_that_is_old_or_damaged(job: Flow) -> None:
    """Each refusal names what is wrong and what to do; with the right copy the job goes on, exact."""
    made, copies = counting.events(1_600), Copies(job)
    run_and_keep(job, made, copies)
    before = [one for one, _ in job.milestones()]

    def refused() -> tuple[int, str]:
        seen = len(job.log(DRIVER).read_text("utf-8"))
        return told_by(job.driver(), job, seen)

    for path in (copies.newest("offsets/*"), copies.newest("commits/*")):  # as in a copy made one epoch ago
        path.unlink()
    code, said = refused()
    assert code == DivergenceError.exit_code
    assert "start a new generation" in said

    copies.put_back("good")
    plan = copies.newest("offsets/*")
    plan.rename(plan.with_name(str(int(plan.name) + 1)))  # as Spark goes on, once the folder is gone
    code, said = refused()
    assert code == DivergenceError.exit_code
    assert f"the plan of epoch {plan.name} is gone" in said
    assert "start a new generation" in said

    copies.put_back("good")
    plan.write_text("v1\n{", encoding="utf-8")
    code, said = refused()
    assert code == MachineError.exit_code
    assert f"is damaged: org.apache.hadoop.fs.ChecksumException: Checksum error: {plan}" in said
    assert "Put back a copy" in said

    copies.put_back("good")
    for path in copies.folder.rglob("state/0/*/*"):
        if path.is_file() and path.suffix in {".zip", ".changelog"}:
            path.write_bytes(b"damaged")
    more = counting.events(400, seed=9)
    job.produce(more)
    code, said = refused()
    assert code == MachineError.exit_code
    assert "is damaged: org.apache.hadoop.fs.ChecksumException: Checksum error" in said
    assert "/state/0/0/" in said
    assert [one for one, _ in job.milestones()] == before

    copies.put_back("good")
    next(copies.folder.glob("*/*/metadata")).unlink()
    code, said = refused()
    assert code == MachineError.exit_code
    assert "is damaged: [STREAMING_CHECKPOINT_MISSING_METADATA_FILE]" in said
    assert "Put back a copy" in said

    copies.put_back("good")
    shutil.rmtree(next(copies.folder.glob("*/*/state")))
    code, said = refused()
    assert code == MachineError.exit_code
    assert "[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY]" in said
    assert "Put back a copy" in said

    copies.put_back("good")
    job.driver()
    milestone = job.wait_committed()
    assert job.state(milestone) == counting.expected([*made, *more])
    assert list(find_chain_faults(job.milestones())) == []


def empty(path: Path) -> None:
    """As a power failure leaves a file: its name is on the disk, without its bytes or those of its checksum."""
    checksum = path.with_name(f".{path.name}.crc")
    assert checksum.stat().st_size
    for one in (path, checksum):
        one.write_bytes(b"")


@pytest.mark.parametrize("pattern", ["offsets/*", "commits/*"])
def test_a_file_that_a_power_failure_has_left_empty(job: Flow, pattern: str) -> None:
    """Hadoop takes an empty checksum for none. The refusal names the file; with a copy the job goes on, exact."""
    made, copies = counting.events(400), Copies(job)
    run_and_keep(job, made, copies)
    path = copies.newest(pattern)
    empty(path)
    seen = len(job.log(DRIVER).read_text("utf-8"))
    code, said = told_by(job.driver(), job, seen)
    assert code == MachineError.exit_code
    [told] = [line for line in said.splitlines() if "is damaged: " in line][:1]
    assert str(path) in told
    assert "Put back a copy" in told
    copies.put_back("good")
    job.driver()
    assert job.state(job.wait_committed()) == counting.expected(made)


def test_a_damaged_checkpoint_of_an_attached_query(
    broker: Any, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """The program that waits for its query is told which file, and what to do."""
    shop = Shop(broker.cluster, tmp_path, unique("shop"))
    try:
        shop.orders(orders(200))
        shop.signal()
        first = shop.program()
        shop.wait_committed()
        kill_session(first.pid)
        first.wait(60)
        # Of an epoch that is committed: one only begun is read by Spark, which does not look at checksums.
        committed = Copies(shop).newest("commits/*")
        plan = committed.parents[1] / "offsets" / committed.name
        plan.write_text("v1\n{", encoding="utf-8")
        assert shop.program().wait(120) != 0
        assert f"is damaged: org.apache.hadoop.fs.ChecksumException: Checksum error: {plan}" in (
            shop.log(PROGRAM).read_text("utf-8")
        )
    finally:
        shop.close()
