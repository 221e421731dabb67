"""Each guard of `committed()` on the output: right with it, and not without it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from cutwater.client import from_output
from cutwater.core.errors import CutwaterError
from support.views.changelogs import Rows, Writing, make_job
from support.views.output_guards import OUTPUT_GUARDS, RIGHT, WAITS, WRONG, Output, OutputGuard
from support.views.publishing import create, pieces

PATIENCE_S = 60.0


@pytest.mark.variations
@pytest.mark.parametrize("guard", [pytest.param(one, id=one.name.replace(" ", "-")) for one in OUTPUT_GUARDS])
def test_right_with_the_guard_and_not_without_it(broker: Any, tmp_path: Path, guard: OutputGuard) -> None:
    writing = Writing(broker.cluster, make_job(tmp_path)[0])
    create(writing.cluster, writing.job)
    output = Output(writing)
    guard.write(output)
    with_it = outcome(output, guard, nullcontext())
    without = outcome(output, guard, guard.hole())
    writing.close()
    assert with_it == guard.holds, f"with the guard: {with_it}"
    assert without != guard.holds, f"without the guard: {without}"
    print(f"{guard.name}: {with_it} with it, {without} without")


def outcome(output: Output, guard: OutputGuard, hole: AbstractContextManager[Any]) -> str:
    """What a reader comes to that reads the output from its first record to its end."""
    read: list[from_output.LongLivedConsumer] = []
    rows: Rows = {}

    def at_end() -> bool:
        return bool(read) and read[0].at_end

    with hole:
        made = from_output.LongLivedConsumer

        def note(*args: Any, **options: Any) -> Any:
            read.append(made(*args, **options))
            return read[0]

        with patch.object(from_output, "LongLivedConsumer", note):
            try:
                for one in from_output.from_output(
                    output.job, output.cluster, None, at_end, PATIENCE_S, rows_max=1_000
                ):
                    rows |= pieces(one)
                    if one.token.sequence == 3:
                        return RIGHT if rows == guard.rows else WRONG
            except CutwaterError as error:
                return type(error).__name__
    return WAITS
