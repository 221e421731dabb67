"""The chart installed at a real API server: its validation, Pod Security and rights. No node runs the pods."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.kubernetes.apiserver import ApiServer, api_server
from support.kubernetes.chart import CHART, NAMESPACE, RELEASE, component, of_kind, pods, render, tool
from support.kubernetes.values import CASES, everything, executors, least, several_jobs

pytestmark = pytest.mark.needs("apiserver")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(name="server", scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with api_server(tmp_path_factory.mktemp("apiserver")) as server:
        definition = yaml.safe_load((tool("schemas") / "servicemonitors.crd.yaml").read_text("utf-8"))
        server.create(CRDS, definition).raise_for_status()
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "views"}}
        server.create("/apis/scheduling.k8s.io/v1/priorityclasses", {**priority, "value": 1}).raise_for_status()
        yield server


@pytest.fixture(name="namespace")
def _namespace(server: ApiServer, request: pytest.FixtureRequest) -> str:
    """One of the test's own, in which only pods of the standard `restricted` are admitted."""
    name = f"{NAMESPACE}-{abs(hash(request.node.name)) % 10**8}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    one = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    server.create("/api/v1/namespaces", one).raise_for_status()
    return name


def install(server: ApiServer, namespace: str, values: dict[str, Any], verb: str = "install") -> str:
    """Install or upgrade the release, and return the notes. Raise AssertionError with the server's words."""
    words = (verb, RELEASE, CHART, "--namespace", namespace, "--values", "-")
    done = server.helm(*words, given=yaml.safe_dump(values))
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("NOTES:")[2]


@pytest.mark.parametrize("case", CASES)
def test_a_release_is_installed(server: ApiServer, namespace: str, case: str) -> None:
    """The server takes each object; the notes name each view. Uninstalled, only a checkpoint's claim stays."""
    notes = install(server, namespace, CASES[case]())
    for job in CASES[case]()["jobs"]:
        service = "readers" if case == "replica region" else "view"
        assert f"service/{RELEASE}-{job}-{service}" in notes
    assert server.objects(f"/apis/apps/v1/namespaces/{namespace}/deployments")
    done = server.helm("uninstall", RELEASE, "--namespace", namespace)
    assert done.returncode == 0, done.stderr
    assert server.objects(f"/apis/apps/v1/namespaces/{namespace}/deployments") == []
    claims = server.objects(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")
    assert bool(claims) == (case in {"least", "several jobs"})


@pytest.mark.parametrize("case", CASES)
def test_each_pod_is_admitted(server: ApiServer, namespace: str, case: str) -> None:
    """By the standard `restricted`, with the account of the release, and without an unknown field."""
    install(server, namespace, CASES[case]())
    every = list(pods(render(CASES[case]())))
    for pod in every:
        one = copy.deepcopy(pod)
        one["metadata"] |= {"name": f"{component(pod)}-0", "namespace": namespace}
        one["spec"]["containers"][0]["volumeMounts"] = [
            mount for mount in one["spec"]["containers"][0]["volumeMounts"] if has_volume(pod, mount["name"])
        ]
        answer = server.create(
            f"/api/v1/namespaces/{namespace}/pods", {**one, "apiVersion": "v1", "kind": "Pod"}, dry=True
        )
        assert answer.status_code == 201, answer.text
        assert "warning" not in answer.headers
    wrong = copy.deepcopy(every[0])
    wrong["metadata"] |= {"name": "wrong", "namespace": namespace}
    del wrong["spec"]["containers"][0]["securityContext"]
    answer = server.create(
        f"/api/v1/namespaces/{namespace}/pods", {**wrong, "apiVersion": "v1", "kind": "Pod"}, dry=True
    )
    assert answer.status_code == 403, "the standard is not enforced, and the test shows nothing"


def has_volume(pod: dict[str, Any], name: str) -> bool:
    """A claim of a StatefulSet becomes a volume of its pods only when they are made."""
    return name in {one["name"] for one in pod["spec"]["volumes"]}


def test_an_upgrade_changes_what_may_change(server: ApiServer, namespace: str) -> None:
    """More owners, another job file, a new mirror: nothing of it needs an object to be deleted by hand."""
    install(server, namespace, least())
    values = several_jobs()
    install(server, namespace, values, "upgrade")
    sets = server.objects(f"/apis/apps/v1/namespaces/{namespace}/statefulsets")
    assert {one["metadata"]["name"]: one["spec"]["replicas"] for one in sets} == {
        f"{RELEASE}-flights-rehydrator": 3,
        f"{RELEASE}-flights-standby": 3,
        f"{RELEASE}-revenue-rehydrator": 1,
    }
    values["jobs"]["flights"]["file"] += "# changed\n"
    values |= {"origin": {"region": "us", "bootstrapServers": "kafka-us:9092"}, "mirror": {"enabled": True}}
    install(server, namespace, values, "upgrade")
    values["mirror"]["run"] = 2
    install(server, namespace, values, "upgrade")
    jobs = [one["metadata"]["name"] for one in server.objects(f"/apis/batch/v1/namespaces/{namespace}/jobs")]
    assert len([name for name in jobs if "-flights-mirror-" in name]) == 1
    done = server.helm("rollback", RELEASE, "1", "--namespace", namespace)
    assert done.returncode == 0, done.stderr


def test_the_autoscaler_may_scale_the_readers(server: ApiServer, namespace: str) -> None:
    """An upgrade does not put their number back: the Deployment has none."""
    install(server, namespace, everything())
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{RELEASE}-flights-reader/scale"
    changed = server._http.patch(
        path, json={"spec": {"replicas": 5}}, headers={"Content-Type": "application/merge-patch+json"}
    )
    assert changed.status_code == 200, changed.text
    values = everything()
    values["readers"]["memoryMb"] = 64
    install(server, namespace, values, "upgrade")
    assert server._http.get(path).json()["spec"]["replicas"] == 5


def test_a_driver_has_the_rights_of_its_executors_and_no_others(server: ApiServer, namespace: str) -> None:
    install(server, namespace, executors())
    driver, view = (
        f"system:serviceaccount:{namespace}:{RELEASE}-flights-{one}" for one in ("driver", "rehydrator")
    )
    assert all(server.may(driver, verb, "pods", namespace) for verb in ("create", "list", "watch", "delete"))
    assert server.may(driver, "create", "configmaps", namespace)
    assert not server.may(driver, "get", "secrets", namespace)
    assert not server.may(driver, "create", "pods", "default")
    assert not any(server.may(view, verb, "pods", namespace) for verb in ("create", "get", "list"))


def test_a_wrong_object_is_refused(server: ApiServer, namespace: str) -> None:
    """The server's own rules go beyond the schemas: a budget must not have both bounds."""
    (budget, *_) = of_kind(render(least()), "PodDisruptionBudget")
    budget["metadata"]["namespace"] = namespace
    budget["spec"]["minAvailable"] = 1
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    assert server.create(path, budget).status_code == 422


def test_the_log_of_the_server_is_at_hand(tmp_path: Path) -> None:
    """A server that does not start says why."""
    (tmp_path / "certificates").write_text("a file in place of a folder")
    with pytest.raises(AssertionError, match="certificates"), api_server(tmp_path):
        pass
