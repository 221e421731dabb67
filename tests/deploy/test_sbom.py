"""`make sbom` writes down everything that is installed or fetched."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_bill_of_materials_has_each_part_with_its_hash() -> None:
    """Each pinned Python package, a jar of Kafka, one inside pyspark, the charts' library, a crate if built in."""
    done = subprocess.run(["make", "sbom"], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    made = json.loads((ROOT / "build" / "sbom.cdx.json").read_text(encoding="utf-8"))
    assert made["bomFormat"] == "CycloneDX"
    hashes = {one["purl"]: one.get("hashes", []) for one in made["components"]}
    pinned = re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", (ROOT / "requirements.lock").read_text("utf-8"), re.M)
    for name, version in pinned:
        assert hashes[f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version}"], name
    built = (ROOT / "native" / "Cargo.lock").is_file()
    assert ("crates are left out" in done.stderr) != built
    parts = ["pkg:maven/org.apache.kafka/kafka-server@", "pkg:maven/org.apache.spark/spark-sql", "pkg:npm/uplot@1"]
    for part in [*parts, "pkg:cargo/"] if built else parts:
        found = [purl for purl in hashes if purl.startswith(part)]
        assert found, part
        assert all(hashes[purl] for purl in found), part
