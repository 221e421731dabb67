"""JSON schemas of Kubernetes' objects for kubeconform, one file for each kind, from the modules of schemas.lock.

    python deploy/helm/tools/schemas.py FOLDER

They are strict: a field that no object has is an error. The definition of ServiceMonitors is copied beside them,
for an API server. Go downloads the modules and checks them; nothing is built.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

LOCK = Path(__file__).with_name("schemas.lock")
OPENAPI = "api/openapi-spec/swagger.json"
CRD = "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"
REFERENCE = "#/definitions/"
EITHER = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["string", "integer"]},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["string", "number"]},
}
"""Types that the specification calls strings, and that may be written as numbers too."""


def modules() -> Iterator[Path]:
    """Download the modules of the lock file and yield their folders. Raise SystemExit for another checksum."""
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        name, version, wanted = line.split()
        # Outside of any module: the version is the one of the lock file, not one that another module needs.
        with tempfile.TemporaryDirectory() as nowhere:
            asked = ["go", "mod", "download", "-json", f"{name}@{version}"]
            told = json.loads(subprocess.run(asked, cwd=nowhere, check=True, capture_output=True).stdout)
        if told.get("Sum") != wanted:
            raise SystemExit(f"{name} {version} has the checksum {told.get('Sum')}, and {LOCK} says {wanted}")
        yield Path(told["Dir"])


def strict(schema: Any) -> Any:
    """Refuse fields that are not described, in every object that describes some."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["string", "integer"]}
    found = {key: strict(value) for key, value in schema.items() if key != "description"}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        found["properties"] = {name: strict(one) for name, one in schema["properties"].items()}
        found["additionalProperties"] = False
    if "default" in found and not isinstance(schema.get("type"), str):
        del found["default"]
    return found


def referenced(name: str, every: dict[str, Any], known: set[str]) -> set[str]:
    """Return the names of all definitions that one needs, itself included."""
    if name not in known:
        known.add(name)
        for other in _references(every[name]):
            referenced(other, every, known)
    return known


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(REFERENCE)
        for one in schema.values():
            yield from _references(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from _references(one)


def of_openapi(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield kubeconform's file names and the schemas, one for each kind with an API version."""
    every = {name: EITHER.get(name, strict(one)) for name, one in json.loads(text)["definitions"].items()}
    for name, one in every.items():
        for told in one.get("x-kubernetes-group-version-kind", ()):
            if not one.get("properties", {}).keys() >= {"apiVersion", "kind"} or told["kind"] == "DeleteOptions":
                continue
            version = "/".join(filter(None, (told["group"], told["version"])))
            kinds = {"apiVersion": {"enum": [version]}, "kind": {"enum": [told["kind"]]}}
            whole = {**one, "properties": {**one["properties"], **kinds}}
            whole["required"] = sorted({*one.get("required", ()), "apiVersion", "kind"})
            needed = referenced(name, every, set()) - {name}
            yield file_name(**told), {**whole, "definitions": {other: every[other] for other in needed}}


def of_crd(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    spec = yaml.safe_load(text)["spec"]
    for version in spec["versions"]:
        schema = strict(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        yield file_name(spec["group"], version["name"], spec["names"]["kind"]), schema


def file_name(group: str, version: str, kind: str) -> str:
    """Return the name as of kubeconform's {{.ResourceKind}}{{.KindSuffix}}."""
    parts = [kind, *([group.partition(".")[0]] if group else []), version]
    return "-".join(parts).lower() + ".json"


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    kubernetes, operator = modules()
    found = dict(of_openapi((kubernetes / OPENAPI).read_text(encoding="utf-8")))
    definition = (operator / CRD).read_text(encoding="utf-8")
    found.update(of_crd(definition))
    (folder / "servicemonitors.crd.yaml").write_text(definition, encoding="utf-8")
    for name, schema in found.items():
        (folder / name).write_text(json.dumps(schema, separators=(",", ":")), encoding="utf-8")
    print(f"{len(found)} schemas in {folder}")


if __name__ == "__main__":
    main()
