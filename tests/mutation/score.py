"""The score that was recorded, and the page of it: docs/MUTATION.md."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mutation.equivalents import EQUIVALENT, reason_of
from mutation.operators import Mutant, mutants, sources

FILE = Path(__file__).with_name("score.json")
PAGE = Path(__file__).parents[2] / "docs/MUTATION.md"
NOTICED = frozenset({"killed", "timeout"})

_HEAD = """# Mutations of the core

A test that passes whatever the code does shows nothing. `make mutate` changes one place of one module of
`services/cutwater/core` at a time (a *mutant*) and runs the tests that run that function, its module's own first,
until one fails. If no test notices a mutant, an error in that place would go unnoticed.

| operator | example |
|---|---|
| comparisons | `<` becomes `<=` and `>=`; `==` becomes `!=`, `is` `is not`, `in` `not in` |
| `and`, `or` | each becomes the other; each operand is left out |
| `not` | left out; the condition of an `if` or a `while` is negated |
| arithmetic | `+` and `-`, `*` and `//`, `\\|` and `&` are exchanged; `min` and `max`, `any` and `all` too |
| constants | a number is increased by 1; `True` and `False` are exchanged, in defaults of parameters too |
| statements | a call, a `raise`, a `break`, a `continue`, an assignment to a field is deleted |

Texts and the values in them, annotations, decorators, and numbers that a module names in capitals (such as a
time-out) are not changed, because no test should repeat them. Only tests without a broker and Spark are run, the
first histories of the simulation among them, within {budget} seconds per mutant. A mutant that only a test on a
real broker notices counts as not noticed.

`make mutate MODULE=core/protocol/commit.py` runs one module, `make mutate SAMPLE=600` the same sample each time.
Results stay in `build/mutation`, so an interrupted run continues. `make mutate AGAIN=1` repeats the mutants that
no test noticed, `make mutate RECORD=1` writes this page.
"""


def write_score(chosen: Sequence[Mutant], results: Mapping[str, str], budget_s: float) -> None:
    """Of what was run among the chosen."""
    by_module: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    alive = []
    for one in chosen:
        if (said := results.get(one.name)) is None or reason_of(one):
            continue
        by_module[one.module][0] += said in NOTICED
        by_module[one.module][1] += 1
        if said not in NOTICED:
            alive.append([one.module, one.scope, one.what])
    told = {
        "date": datetime.now(UTC).date().isoformat(),
        "all": sum(len(mutants(text, module)) for module, text in sources().items()),
        "budget_s": budget_s,
        "modules": dict(sorted(by_module.items())),
        "alive": sorted(alive),
    }
    FILE.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(told), encoding="utf-8")


def recorded() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def page(score: Mapping[str, Any]) -> str:
    modules: Mapping[str, Sequence[int]] = score["modules"]
    noticed, run = (sum(column) for column in zip(*modules.values(), strict=True))
    parts = [
        _HEAD.format(budget=f"{score['budget_s']:g}"),
        "## The score\n",
        f"On {score['date']}: {noticed:,} of {run:,} mutants were noticed, **{noticed / run:.1%}**. "
        f"There are {score['all']:,} in all; these are a sample from each module. The aim is 90 %. A test "
        "written since for a mutant below counts once `make mutate AGAIN=1 RECORD=1` has run.\n",
        "| module | noticed | of | |\n|---|---|---|---|",
        *(f"| `{name}` | {dead} | {of} | {dead / of:.0%} |" for name, (dead, of) in sorted(modules.items())),
        "\n## What no test noticed\n",
        *_alive(score["alive"]),
        "\n## What no test can notice\n",
        "These are left out of the score.\n",
        "| module | in | change | why |\n|---|---|---|---|",
        *(
            f"| `{module}` | `{scope}` | {_code(what)} | {why} |"
            for (module, scope, what), why in EQUIVALENT.items()
        ),
    ]
    return "\n".join(parts) + "\n"


def _alive(alive: Sequence[Sequence[str]]) -> list[str]:
    if not alive:
        return ["Tests noticed every mutant that was run."]
    counted = Counter((module, scope, what) for module, scope, what in alive)
    rows = [f"| `{module}` | `{scope}` | {_code(what)} |" for module, scope, what in counted]
    return ["| module | in | change |\n|---|---|---|", *rows]


def _code(what: str) -> str:
    """In a cell of a table: without what would end it, and not longer than a line."""
    text = what if len(what) <= 110 else what[:107] + "..."
    return f"`{text.replace('|', chr(92) + '|').replace('`', '')}`"
