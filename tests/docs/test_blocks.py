"""Every code block of every page is held against the code. A block that no check knows fails here."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from docs._generate import pages
from pydantic import TypeAdapter

from cutwater.adapters.avro.codec import crc64
from cutwater.adapters.config.chaos_plan_file import read_chaos_plan
from cutwater.adapters.config.figure_files import read_figures
from cutwater.adapters.config.policy_file import read_policy
from cutwater.adapters.job_files.models import AttachedModel, JobModel
from cutwater.adapters.kafka.client_config import Cluster, Security
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.sizing.costs import Prices
from cutwater.core.sizing.machine import Machine
from cutwater_spark.authentication import PROTECTED
from support.pages import EXAMPLES, FRAGMENTS, PAGES, ROOT, Block, blocks, check_each, text_of

RUN_BY = {
    "examples/attach/orders_query.py": "tests/support/shop.py",
    "examples/attach/orders.yaml": "tests/support/shop.py",
    "examples/changes/balances.yaml": "tests/spark/expressions/test_examples_of_jobs.py",
    "examples/consumers/python_consumer.py": "tests/integration/test_examples.py",
    "examples/consumers/JavaConsumer.java": "tests/integration/test_examples.py",
    "examples/consumers/kcat.sh": "tests/integration/test_examples.py",
    "examples/consumers/kcat_table.sh": "tests/integration/test_examples.py",
    "examples/mistakes/job.yaml": "tests/docs/test_operating.py",
    "examples/testing/conftest.py": "tests/support/example_project.py",
    "examples/testing/test_orders.py": "tests/support/example_project.py",
    "examples/tutorial/watch.py": "tests/integration/test_tutorial.py",
}
"""Which test runs a file that a page shows."""
SAMPLES = {
    ("README.md", "the ten busiest airport-hours"): "the end of the demonstration; tests/integration/test_demo.py",
    ("docs/TUTORIAL.md", "18,113 rows served, 18,113 expected by DuckDB"): "a line of it",
    ("docs/OPERATING.md", "job.yaml:2: retention: is required"): "output; tests/docs/test_operating.py",
    ("docs/DIFF.md", "windows that differ between"): "output; tests/broker/cli/past/test_diff.py",
    ("docs/REPLAY.md", "windows that differ, job"): "output; tests/broker/cli/past/test_replay_verb.py",
    ("docs/BLAME.md", "JFK, 2013-01-02T11:00:00Z to"): "output; tests/broker/cli/past/test_blame.py",
    (
        "docs/SNAPSHOTS.md",
        "sales/g1-local-00000000/all/manifests",
    ): "names; tests/unit/core/state/test_snapshot_manifest.py",
    (
        "docs/FORMAT.md",
        "shard     = xxhash64",
    ): "a formula; tests/unit/core/job/test_shards.py, and the golden rows",
}
"""Text that nothing could run, and what stands for it."""
GOLDEN = json.loads((ROOT / "tests/golden/format.json").read_text(encoding="utf-8"))
FIRST = Generation(1, "local")
GENERATED = {f"docs/{name}" for name in pages.PAGES}


def values(golden: Any) -> set[str]:
    """Every text in the golden vectors."""
    if isinstance(golden, dict):
        return values(list(golden.values()))
    return set().union(*map(values, golden)) if isinstance(golden, list) else {str(golden)}


def sample(block: Block) -> None:
    """Output and drawings: listed above, with the reason."""
    assert [at for at in SAMPLES if at[0] == block.page and block.text.startswith(at[1])], "not in SAMPLES"


def hexadecimal(block: Block) -> None:
    """Bytes: each block is made of golden vectors, whole ones."""
    shown = re.sub(r"\s", "", block.text)
    for vector in sorted(values(GOLDEN), key=len, reverse=True):
        shown = shown.replace(vector, "")
    assert re.fullmatch(r"[0-9a-f\s]+", block.text), "a block without a language holds bytes in hexadecimal"
    assert not shown, f"{shown[:40]}… is in no golden vector"


def json_text(block: Block) -> None:
    """A schema whose fingerprint stands on its page, or golden lines."""
    try:
        schema = json.loads(block.text)
    except ValueError:  # one object a line
        schema = None
    if isinstance(schema, dict) and schema.get("type") == "record":
        assert crc64(schema).hex() in text_of(block.page), "the page has another fingerprint"
    else:
        assert set(block.text.splitlines()) <= values(GOLDEN)


def yaml_text(block: Block) -> None:
    """A job file, or some of its top-level fields: what pydantic checks when it is read. Or a verb's own file."""
    told = yaml.safe_load(block.text)
    for page, read in (("docs/CHAOS.md", read_chaos_plan), ("docs/POLICY.md", read_policy)):
        if block.page == page:
            with TemporaryDirectory() as folder:
                Path(folder, "file.yaml").write_text(block.text, encoding="utf-8")
                read(Path(folder, "file.yaml"))
            return
    for kind in (Machine, Prices):
        if told.keys() <= {one.name for one in fields(kind)}:
            with TemporaryDirectory() as folder:
                Path(folder, "figures.yaml").write_text(block.text, encoding="utf-8")
                read_figures(Path(folder, "figures.yaml"), kind)
            return
    if "job" in told.get("source", {}):
        told["source"] |= {"topic": "none", "schema": "none"}  # that job's file tells them
    if "job" in told:
        (AttachedModel if "attached" in told else JobModel).model_validate(told)
        return
    for name, value in told.items():
        known = {**AttachedModel.model_fields, **JobModel.model_fields}
        TypeAdapter(known[name].annotation).validate_python(value)


def properties(block: Block) -> None:
    """What SECURITY.md says a client, or Spark, gets is what it gets, for the settings on that page."""
    told = dict(line.split("=", 1) for line in block.lines)
    if "spark.authenticate" in told:
        assert told == PROTECTED
        return
    ca_file = ROOT / "README.md"  # any text: it is not looked into
    security = Security("SASL_SSL", "SCRAM-SHA-512", "cutwater", "secret", str(ca_file))
    cluster = Cluster("kafka-1.example:9093", security)
    made = cluster.jvm() if "config.providers" in told else cluster.librdkafka()
    made.pop("bootstrap.servers")
    told = {name: made.get(name) if "…" in value else value for name, value in told.items()}
    assert told == made | {name: value for name, value in told.items() if name == "ssl.ca.location"}


def python(block: Block) -> None:
    """Programs are run by tests/integration/test_page_programs.py; a call of `describe` needs a session."""
    tree = ast.parse(block.text)
    for fragment, test in FRAGMENTS.items():
        assert fragment not in block.text or fragment in (ROOT / test).read_text(encoding="utf-8")
    if "describe(" in block.text:
        from cutwater_spark.attach import describe

        (call,) = [one for one in ast.walk(tree) if isinstance(one, ast.Call)]
        inspect.signature(describe).bind(*call.args, **{str(one.arg): one.value for one in call.keywords})


def flowchart(block: Block) -> None:
    """A flowchart of Mermaid: each line is an arrow; topics are those of the demonstration, packages exist."""
    kind, *arrows = block.lines
    assert re.fullmatch(r"flowchart (LR|TD)", kind)
    node = r"\w+(?:\[\(.+\)\]|\[.+\])?"
    labels: dict[str, str] = {}
    for arrow in arrows:
        found = re.fullmatch(rf"({node}) (?:-- [\w ]+ )?--> ({node})", arrow)
        assert found, arrow
        for end in found.groups():
            name, bracket, label = end.partition("[")
            labels[name] = label.strip("()]") if bracket else labels[name]
    owned = {one.name for one in topics.generation_topics("flights", FIRST, 1)} | {"flights.events"}
    assert {one for one in labels.values() if one.startswith("flights.")} <= owned
    if kind == "flowchart TD":
        folders = {path.parent.name for path in ROOT.glob("s*/cutwater*/**/__init__.py")}
        assert {one for label in labels.values() for one in label.partition(":")[0].split(" · ")} <= folders


def elsewhere(_block: Block) -> None:
    """Command lines: tests/docs/test_commands.py."""


def built(_block: Block) -> None:
    """Directives: the site is built with warnings as errors."""


CHECKS: dict[str, Callable[[Block], None]] = {
    "": hexadecimal,
    "text": sample,
    "json": json_text,
    "yaml": yaml_text,
    "properties": properties,
    "python": python,
    "mermaid": flowchart,
    "sh": elsewhere,
    "indented": elsewhere,
    "{eval-rst}": built,
}


@pytest.mark.parametrize("page", sorted({*PAGES} - GENERATED))
def test_every_block_is_true(page: str) -> None:
    check_each(blocks(page), check)


def check(block: Block) -> None:
    """By its language; a block that is a file of examples/ is that file, which a test runs."""
    if block.text in EXAMPLES:
        name = EXAMPLES[block.text]
        assert name in RUN_BY, f"no test is named that runs {name}"
        assert Path(name).name in (ROOT / RUN_BY[name]).read_text(encoding="utf-8")
        return
    assert block.language in CHECKS, f"no test covers blocks of '{block.language}': add a check for them"
    CHECKS[block.language](block)


def test_every_sample_is_still_there() -> None:
    """The list of what nothing runs does not outlive its pages."""
    shown = blocks()
    for page, begin in SAMPLES:
        assert [one for one in shown if one.page == page and one.text.startswith(begin)], (page, begin)
