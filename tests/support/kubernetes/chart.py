"""Renderings of the chart by real Helm, and its objects as plain values."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "helm" / "cutwater"
RELEASE, NAMESPACE = "shop", "streams"
WORKLOADS = ("Deployment", "StatefulSet", "Job")
SECONDS = 120

Object = dict[str, Any]


@cache
def _builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("helm_tools", ROOT / "deploy/helm/tools/build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tool(name: str) -> Path:
    """Return the place of a program that `make helm-tools` builds, or of the folder `schemas`."""
    return Path(_builder().folder()) / name


def has_tools(*names: str) -> bool:
    return all(tool(name).exists() for name in names)


def kubernetes() -> str:
    """Return the pinned version of Kubernetes, such as 1.36.3."""
    return ".".join(map(str, _builder().KUBERNETES))


def helm(*words: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run Helm with its own folders below none of the user's, and no cluster."""
    nowhere = {name: "/nonexistent" for name in ("KUBECONFIG", "HELM_PLUGINS", "HELM_REPOSITORY_CONFIG")}
    return subprocess.run(
        [tool("helm"), *words],
        input=given,
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def template(values: Mapping[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    """Run `helm template` with these values beside the chart's own."""
    named = ["template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", kubernetes()]
    return helm(*named, "--values", "-", *words, given=yaml.safe_dump(dict(values)))


def render(values: Mapping[str, Any]) -> list[Object]:
    """Return the objects of a rendering. Raise AssertionError with Helm's words if it refuses the values."""
    done = template(values)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def refusal(values: Mapping[str, Any]) -> str:
    """Return what Helm says of wrong values."""
    done = template(values)
    assert done.returncode != 0, "Helm took the values"
    return done.stderr


def conform(objects: Iterable[Object]) -> dict[str, Any]:
    """Return kubeconform's report, with the strict schemas of the pinned version."""
    place = f"{tool('schemas')}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    words = [tool("kubeconform"), "-strict", "-summary", "-output", "json", "-schema-location", place, "-"]
    text = yaml.safe_dump_all(objects)
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
    return dict(json.loads(done.stdout))


def has_value(path: str) -> bool:
    """Return whether the chart has a value. `path`: as for --set, with dots; one inside of a name is escaped."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    found = schema
    for escaped in re.split(r"(?<!\\)\.", path):
        name = escaped.replace("\\", "")
        if "$ref" in found:
            found = schema["definitions"][found["$ref"].rpartition("/")[2]]
        patterns = [one for pattern, one in found.get("patternProperties", {}).items() if re.search(pattern, name)]
        found = found.get("properties", {}).get(name) or next(iter(patterns), {})
    return bool(found)


def of_kind(objects: Iterable[Object], *kinds: str) -> list[Object]:
    return [one for one in objects if one["kind"] in kinds]


def named(objects: Iterable[Object], kind: str, name: str) -> Object:
    """Return the only object of a kind whose name begins with the release's and this one."""
    (found,) = [one for one in of_kind(objects, kind) if one["metadata"]["name"].startswith(f"{RELEASE}-{name}")]
    return found


def pods(objects: Iterable[Object]) -> Iterator[Object]:
    """Yield the pod templates of all workloads, that of Spark's executors included."""
    for one in objects:
        if one["kind"] in WORKLOADS:
            yield one["spec"]["template"]
        for text in one.get("data", {}).values() if one["kind"] == "ConfigMap" else ():
            if text.startswith("apiVersion: v1\nkind: Pod\n"):
                yield yaml.safe_load(text)


def component(pod: Object) -> str:
    return str(pod["metadata"]["labels"]["app.kubernetes.io/component"])


def job_of(pod: Object) -> str:
    return str(pod["metadata"]["labels"]["cutwater-job"])


def container(pod: Object) -> Object:
    (one,) = pod["spec"]["containers"]
    return dict(one)


def environment(pod: Object) -> dict[str, str | None]:
    """Return the variables of a pod's container; None for one that a secret or the pod itself has."""
    return {one["name"]: one.get("value") for one in container(pod).get("env", ())}


def secrets(pod: Object) -> set[tuple[str, str]]:
    """Return name and key of each secret that a pod reads: by a variable, or as a mounted file (key is '')."""
    variables = [one["valueFrom"].get("secretKeyRef") for one in container(pod)["env"] if "valueFrom" in one]
    mounted = [one["secret"]["secretName"] for one in pod["spec"].get("volumes", ()) if "secret" in one]
    return {(one["name"], one["key"]) for one in variables if one} | {(name, "") for name in mounted}


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a label selector fits."""
    for one in selector.get("matchExpressions", ()):
        there, value = one["key"] in labels, labels.get(one["key"])
        fits = {
            "In": value in one.get("values", ()),
            "NotIn": value not in one.get("values", ()),
            "Exists": there,
            "DoesNotExist": not there,
        }
        if not fits[one["operator"]]:
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()
