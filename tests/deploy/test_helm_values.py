"""Values of the chart: what is refused and in which words, and what the code says about the defaults."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.machine import Machine
from cutwater.core.sizing.recommendation import size_job
from cutwater.core.sizing.skew import KeySkew
from support.kubernetes.chart import CHART, has_value, helm, kubernetes, refusal
from support.kubernetes.values import CASES, everything, executors, flights, least
from support.pages import text_of

ROOT = Path(__file__).parents[2]
DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text("utf-8"))
TEMPLATES = "\n".join(one.read_text("utf-8") for one in sorted((CHART / "templates").iterdir()))
OTHERS = {
    "console_port",
    "data_dir",
    "log_json",
    "spark_application",
    "spark_classes",
    "spark_jars",
    "spark_ui_port",
}
"""Settings that the images have, or that are of no use in a container."""


def test_a_setting_is_free_unless_the_chart_sets_it() -> None:
    """`settings` of a component takes every other one, and no secret."""
    prefix = "CUTWATER_"
    written = set(re.findall(rf'"{prefix}([A-Z0-9_]+)"', TEMPLATES))
    for kind in ("KAFKA", "ORIGIN_KAFKA"):
        written |= {
            f"{kind}_{one}" for one in ("SASL_USERNAME", "SSL_CA_FILE", "SSL_CERTIFICATE_FILE", "SSL_KEY_FILE")
        }
    written |= {"REGISTRY_USERNAME", "ORIGIN_REGISTRY_USERNAME"}
    written |= {one["setting"] for one in ports().values()}
    own = {one.lower() for one in written} & set(Settings.model_fields) | OTHERS
    secret = {name for name, one in Settings.model_fields.items() if one.annotation is SecretStr}
    free = set(Settings.model_fields) - own - secret
    assert set(SCHEMA["definitions"]["settings"]["properties"]) == free


def ports() -> dict[str, dict[str, Any]]:
    text = TEMPLATES.partition('define "cutwater.ports" -}}')[2].partition("{{-")[0]
    return dict(yaml.safe_load(text))


def test_the_chart_is_of_this_version() -> None:
    """Its images have the tag of the package's version by default."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert chart["appVersion"] == project["version"]


def test_each_component_has_the_port_of_compose() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    for name, one in ports().items():
        other = {"rehydrator": "rehydrator-1", "standby": "rehydrator-1", "reader": "rehydrator-1"}.get(name, name)
        assert int(services[other]["environment"][f"CUTWATER_{one['setting']}"]) == one["port"]


def leaves(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        for name, one in value.items():
            yield from leaves(one, (*place, name))
    else:
        yield place


def test_the_schema_has_each_default_and_nothing_else_is_taken() -> None:
    """Every object of it is closed, except labels and the like, whose names are the user's."""
    for place in leaves(DEFAULTS):
        found = SCHEMA
        for name in place:
            found = SCHEMA["definitions"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found
            assert name in found["properties"], place
            found = found["properties"][name]
    for one in objects(SCHEMA):
        assert one["additionalProperties"] is False, one["properties"].keys()


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object of a schema that describes its fields."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
            yield schema
        for one in schema.values():
            yield from objects(one)


def test_the_readme_describes_each_value() -> None:
    """By its path, in a table; and none that is not there."""
    shown = set(re.findall(r"^\| `([\w.]+)`", text_of("deploy/helm/cutwater/README.md"), re.MULTILINE))
    known = {".".join(place[:depth]) for place in leaves(DEFAULTS) for depth in range(1, len(place) + 1)}
    frame = {"nodeSelector", "tolerations", "affinity", "priorityClassName", "podAnnotations", "podLabels"}
    common = {"enabled", "settings", "resources", "startupSeconds", "terminationGracePeriodSeconds"}
    assert shown <= known | frame | common | {"serviceAccountAnnotations", "jobs.NAME.file", "jobs.NAME.files"}
    missing = [
        place for place in leaves(DEFAULTS) if not {".".join(place[: at + 1]) for at in range(len(place))} & shown
    ]
    components = {name for name, one in DEFAULTS.items() if isinstance(one, dict) and "resources" in one}
    assert [place for place in missing if not (place[0] in components and place[1] in common)] == []


def test_the_defaults_hold_what_size_asks_for() -> None:
    """For the job and the load that values.yaml names: cores, memory and disk of driver and rehydrator."""
    job = load_job(ROOT / "deploy/jobs/flights.yaml")
    job = replace(job, retention_ms=7 * 86_400_000)  # 500 days in the demonstration, so that every row stays
    sizing = size_job(job, Demand(5_000, KeySkew(3_000, 1.0)), Machine())
    driver, view = DEFAULTS["driver"], DEFAULTS["rehydrator"]
    assert float(driver["resources"]["requests"]["cpu"]) >= sizing["driver_cores"]
    assert driver["spark"]["cores"] == sizing["driver_cores"]
    assert gb(driver["resources"]["requests"]["memory"]) >= sizing["driver_memory_gb"]
    assert gb(driver["storage"]["size"]) >= sizing["driver_disk_gb"]
    assert gb(view["resources"]["requests"]["memory"]) >= sizing["rehydrator_memory_gb"]
    assert gb(view["storage"]["size"]) >= sizing["rehydrator_disk_gb"]


def test_figures_of_size_become_values() -> None:
    """The script reads the JSON of `cutwater size`; the values hold each figure, and are values of the chart."""
    figures = {
        "driver_cores": 3.0,
        "driver_memory_gb": 4.0,
        "driver_disk_gb": 20.0,
        "rehydrators": 2.0,
        "rehydrator_memory_gb": 0.5,
        "rehydrator_disk_gb": 50.0,
        "snapshot_interval_s": 900.0,
        "changelog_partitions": 4.0,
        "shuffle_partitions": 3.0,
    }
    told = {
        "job": "flights",
        "warnings": ["a doubt"],
        "figures": [{"name": n, "value": v} for n, v in figures.items()],
    }
    words = [sys.executable, ROOT / "deploy/helm/values_from_size.py"]
    done = subprocess.run(words, input=json.dumps(told), capture_output=True, text=True, timeout=60, check=True)
    assert "# warning: a doubt" in done.stdout
    made = yaml.safe_load(done.stdout)["jobs"]["flights"]
    assert all(has_value(".".join(place)) for place in leaves(made))
    assert (made["driver"]["spark"]["cores"], made["rehydrator"]["owners"]) == (3, 2)
    assert gb(made["driver"]["resources"]["requests"]["memory"]) >= 4.0
    assert int(made["driver"]["spark"]["memory"].removesuffix("m")) * (1 << 20) < 4.0e9
    assert gb(made["driver"]["storage"]["size"]) >= 20
    assert gb(made["rehydrator"]["storage"]["size"]) >= 50
    assert made["snapshots"] == {"everySeconds": 900}


def gb(text: str) -> float:
    number, unit = text[:-2], text[-2:]
    return float(number) * {"Mi": 1 << 20, "Gi": 1 << 30}[unit] / 1e9


def changed(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The values with one of them changed. `path`: with dots."""
    made = copy.deepcopy(values)
    *above, last = path.split(".")
    place = made
    for name in above:
        place = place.setdefault(name, {})
    place[last] = value
    return made


WRONG: list[tuple[str, Any, str]] = [
    ("kafka.bootstrapServers", "", "at '/kafka/bootstrapServers'"),
    ("kafka.bootstrapServers", "kafka", "does not match pattern"),
    ("jobs", {}, "at '/jobs': minProperties: got 0, want 1"),
    ("jobs", {"Flights": {"file": "job: Flights"}}, "additional properties 'Flights' not allowed"),
    ("jobs", {"flights": {}}, "missing property 'file'"),
    ("jobs", {"sales": {"file": "job: flights"}}, "the job file has job: flights. Use the same name"),
    ("jobs", {"sales": {"file": "job: [flights"}}, "jobs.sales.file: is no YAML"),
    ("rehydrator.owners", 0, "at '/rehydrator/owners': minimum: got 0, want 1"),
    ("rehydrator.owners", 5, "rehydrator.owners is 5, and the job file has 4 partitions"),
    ("rehydrator.standbys", 5, "at '/rehydrator/standbys': maximum: got 5, want 4"),
    ("rehydrator.standbies", 1, "additional properties 'standbies' not allowed"),
    ("rehydrator.autoscaling", {"enabled": True}, "owners divide the partitions by a fixed list"),
    ("driver.settings", {"triger_ms": 5}, "at '/driver/settings': additional properties 'triger_ms' not allowed"),
    ("driver.settings", {"spark_secret": "x"}, "additional properties 'spark_secret' not allowed"),
    ("driver.settings", {"bootstrap_servers": "x"}, "additional properties 'bootstrap_servers' not allowed"),
    ("driver.resources", {"requests": {"memory": "2 GB"}}, "does not match pattern"),
    ("driver.checkpoint", "/checkpoints", "at '/driver/checkpoint'"),
    ("driver.spark.mode", "yarn", "value must be one of 'local', 'kubernetes'"),
    ("driver.spark.mode", "kubernetes", "executors on other nodes need a checkpoint that all reach"),
    ("kafka.securityProtocol", "SASL_SSL", "set kafka.saslMechanism too"),
    ("kafka.saslMechanism", "PLAIN", "set it to SASL_SSL"),
    ("kafka.credentials.password", "secret", "additional properties 'password' not allowed"),
    ("kafka.tls.caKey", "ca.pem", "set kafka.tls.existingSecret"),
    ("auth.apiToken.token", "secret", "additional properties 'token' not allowed"),
    ("registry.url", "https://user:secret@registry", "at '/registry/url'"),
    ("mirror.enabled", True, "set origin.region and origin.bootstrapServers"),
    ("mirror.slots", ["4"], "at '/mirror/slots/0'"),
    ("origin.region", "us", "set origin.bootstrapServers too"),
    ("origin", {"region": "local", "bootstrapServers": "k:9092"}, "no region mirrors itself"),
    ("readers", {"enabled": True, "autoscaling": {"enabled": True, "minReplicas": 9}}, "and maxReplicas is 8"),
    (
        "readers",
        {"enabled": True, "autoscaling": {"enabled": True, "cpuPercent": 0}},
        "needs cpuPercent or requestsInProgress",
    ),
    ("networkPolicy.clients", [{"podselector": {}}], "additional properties 'podselector' not allowed"),
    ("jobs.flights.driver.spark.cores", 0, "at '/jobs/flights/driver/spark/cores': minimum: got 0, want 1"),
    ("region", "EU-1", "at '/region'"),
]


@pytest.mark.needs("helm")
@pytest.mark.parametrize(("path", "value", "words"), WRONG, ids=lambda one: str(one)[:40])
def test_a_wrong_value_is_refused_in_words_that_name_it(path: str, value: Any, words: str) -> None:
    assert words in refusal(changed(least(), path, value))


@pytest.mark.needs("helm")
def test_names_that_are_too_long_together_are_refused() -> None:
    """Kubernetes would refuse the pods of a StatefulSet later, without saying what to change."""
    job = "j" * 30
    text = flights()["file"].replace("job: flights", f"job: {job}")
    values = yaml.safe_dump(least(jobs={job: {"file": text}}))
    words = (CHART, "--kube-version", kubernetes(), "--values", "-")
    assert helm("template", "short", *words, given=values).returncode == 0
    done = helm("template", "a-long-name", *words, given=values)
    assert "have 41 characters together, and at most 37 are possible: choose a shorter release name" in done.stderr


@pytest.mark.needs("helm")
def test_an_attached_job_has_its_driver_elsewhere() -> None:
    attached = (ROOT / "examples/attach/orders.yaml").read_text("utf-8")
    values = least(jobs={"orders": {"file": attached}})
    assert "set jobs.orders.driver.enabled=false" in refusal(values)


def test_the_cases_of_the_tests_differ() -> None:
    assert len(CASES) == len({str(one()) for one in CASES.values()}) == 5
    assert everything() != executors()
