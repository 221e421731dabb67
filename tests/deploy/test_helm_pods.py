"""Each pod of the chart: rights, tokens, probes, resources, volumes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from deploy.grafana.dashboards import files

from support.kubernetes.chart import Object, component, container, environment, of_kind, pods
from support.kubernetes.process import VIEWS, rendered, settings_of
from support.kubernetes.values import CASES

pytestmark = pytest.mark.needs("helm")
ROOT = Path(__file__).parents[2]
GIB = 1 << 30
every_case = pytest.mark.parametrize("case", CASES)


def bytes_of(text: str) -> float:
    number, unit = re.fullmatch(r"([0-9.]+)(Mi|Gi)", text).groups()  # type: ignore[union-attr]
    return float(number) * (GIB if unit == "Gi" else GIB / 1024)


@every_case
def test_a_pod_has_nobodys_rights(case: str) -> None:
    """What the Pod Security Standard `restricted` asks for, and a root file system that cannot be written."""
    for pod in pods(rendered(case)):
        spec, one = pod["spec"], container(pod)
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["fsGroup"] == 10001
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & spec.keys()
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
        }
        allowed = {"configMap", "emptyDir", "secret", "projected", "persistentVolumeClaim", "ephemeral"}
        assert {key for volume in spec["volumes"] for key in volume} - {"name"} <= allowed


@every_case
def test_no_pod_gets_a_token_of_kubernetes(case: str) -> None:
    """But for a driver that starts executors: its token is mounted by name, and its role is for their pods."""
    assert not [one for one in of_kind(rendered(case), "ServiceAccount") if one["automountServiceAccountToken"]]
    for pod in pods(rendered(case)):
        assert pod["spec"]["automountServiceAccountToken"] is False
        tokens = [one for one in pod["spec"]["volumes"] if "projected" in one]
        assert bool(tokens) == (case == "executors" and component(pod) == "driver")
    roles = of_kind(rendered(case), "Role")
    assert {name for role in roles for rule in role["rules"] for name in rule["resources"]} == (
        {"pods", "configmaps"} if case == "executors" else set()
    )


@every_case
def test_a_pod_has_no_variables_of_services(case: str) -> None:
    """Kubernetes makes them of names: a service named cutwater would set CUTWATER_PORT to tcp://…"""
    assert not [pod for pod in pods(rendered(case)) if pod["spec"]["enableServiceLinks"]]


@every_case
def test_a_container_is_probed_at_its_own_port(case: str) -> None:
    """Kubernetes asks the paths that need no token. Topics are prepared once, and Spark watches its executors."""
    for pod in pods(rendered(case)):
        one, role = container(pod), component(pod)
        if role in {"topics", "executor"}:
            assert not {"livenessProbe", "readinessProbe", "startupProbe"} & one.keys()
            continue
        (port,) = [each["containerPort"] for each in one["ports"] if each["name"] == "http"]
        assert port == own_port(pod)
        paths = {name: one[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
        assert paths == {
            "startup": {"path": "/healthz", "port": "http"},
            "liveness": {"path": "/healthz", "port": "http"},
            "readiness": {"path": "/readyz", "port": "http"},
        }
        allowed_s = one["startupProbe"]["periodSeconds"] * one["startupProbe"]["failureThreshold"]
        # A process waits so long for its brokers before it answers.
        assert allowed_s * 1_000 >= settings_of(pod).wait_ms + 30_000


def test_a_view_ends_after_its_service_has_left_it() -> None:
    """So that a request in a rolling update meets no closed port; there is time left for the end itself."""
    for pod in pods(rendered("everything")):
        first = container(pod).get("lifecycle", {}).get("preStop")
        assert bool(first) == (component(pod) in VIEWS)
        if first:
            word, seconds = first["exec"]["command"]
            assert word == "sleep"
            assert pod["spec"]["terminationGracePeriodSeconds"] >= int(seconds) + 20


def own_port(pod: Object) -> int:
    """The port in the pod's settings; there is exactly one."""
    (port,) = [
        value for name, value in environment(pod).items() if re.fullmatch(r"CUTWATER_(\w+_)?PORT", name) and value
    ]
    return int(port)


@every_case
def test_a_container_has_resources(case: str) -> None:
    """A request for both, and a bound of memory: more than is requested, and at a heap more than the heap."""
    for pod in pods(rendered(case)):
        told = container(pod)["resources"]
        assert told["requests"].keys() == {"cpu", "memory"}
        assert bytes_of(told["limits"]["memory"]) >= bytes_of(told["requests"]["memory"])
        heap = environment(pod).get("CUTWATER_SPARK_DRIVER_MEMORY")
        if heap:
            assert bytes_of(told["limits"]["memory"]) >= bytes_of(f"{heap[:-1]}Gi") * 1.5


def test_single_components_never_run_twice() -> None:
    """A new driver, commit-signal, publisher or watch fences the old one, so the old one ends first."""
    for one in of_kind(rendered("everything"), "Deployment"):
        if one["metadata"]["name"].endswith("reader"):
            assert "replicas" not in one["spec"], "the autoscaler decides"
        else:
            assert (one["spec"]["replicas"], one["spec"]["strategy"]) == (1, {"type": "Recreate"})
            assert one["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= 20


def test_a_checkpoint_is_on_a_volume_that_stays_or_in_a_store() -> None:
    """A local one is lost with its volume: Helm does not delete it. Remote ones need none."""
    (claim,) = of_kind(rendered("least"), "PersistentVolumeClaim")
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert not of_kind(rendered("everything"), "PersistentVolumeClaim")
    (driver,) = [pod for pod in pods(rendered("everything")) if component(pod) == "driver"]
    assert settings_of(driver).checkpoint == "s3a://checkpoints/flights"


def test_prometheus_finds_the_names_that_its_rules_use() -> None:
    """The label of each service is the name of a scraped job; the view's own service is not read twice."""
    (monitor,) = of_kind(rendered("everything"), "ServiceMonitor")
    assert monitor["spec"]["jobLabel"] == "cutwater-scraped-as"
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))["scrape_configs"]
    labels = [one["metadata"]["labels"] for one in of_kind(rendered("everything"), "Service")]
    found = {one["cutwater-scraped-as"] for one in labels if "cutwater-scraped-as" in one}
    assert found == {one["job_name"] for one in scraped} - {"prometheus"}
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": "metrics", "key": "token"}


def test_grafana_finds_the_dashboards() -> None:
    """By the label of its sidecar, in one ConfigMap of the release; none unless they are asked for."""
    (one,) = [each for each in of_kind(rendered("everything"), "ConfigMap") if "operator.json" in each["data"]]
    assert one["data"] == files()
    assert one["metadata"]["labels"] | {"grafana_dashboard": "1", "team": "flights"} == one["metadata"]["labels"]
    assert one["metadata"]["annotations"] == {"grafana_folder": "Cutwater"}
    assert not [each for each in of_kind(rendered("least"), "ConfigMap") if "operator.json" in each["data"]]
