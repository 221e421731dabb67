"""docs/TESTS.md: how many tests each tier has and how long they take, by folder."""

from __future__ import annotations

import json
from pathlib import Path

TIERS = Path(__file__).parents[2] / "tests" / "tiers.json"
_HEAD = """# Tests by tier

`make test` runs the quick tests, `make test-all` these and the slow ones. Seconds are a worker's in the last
recorded `make test-all`, when three workers ran beside each other; alone a quick run takes less. The tests in
containers run apart, with `make test-containers`.

Generated from `tests/tiers.json` by `make fmt`; a test checks it. `make test-all RECORD=1` renews that file.

| folder of tests/ | quick tests | seconds | slow tests | seconds |
|---|---|---|---|---|
"""


def tests_page() -> str:
    found: dict[str, dict[str, list[int]]] = json.loads(TIERS.read_text(encoding="utf-8"))
    rows = {folder: [*tiers.get("quick", [0, 0]), *tiers.get("slow", [0, 0])] for folder, tiers in found.items()}
    rows["all"] = [sum(column) for column in zip(*rows.values(), strict=True)]
    return _HEAD + "".join(
        f"| {folder} | {' | '.join(f'{one:,}' for one in row)} |\n" for folder, row in rows.items()
    )
