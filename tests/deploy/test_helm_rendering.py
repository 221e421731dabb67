"""The chart as Helm renders it: valid for Kubernetes, complete in itself, the same each time."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import yaml

from support.kubernetes.chart import (
    CHART,
    NAMESPACE,
    WORKLOADS,
    conform,
    helm,
    kubernetes,
    named,
    of_kind,
    pods,
    render,
    selects,
    template,
)
from support.kubernetes.process import rendered
from support.kubernetes.values import CASES, everything, least, several_jobs

pytestmark = pytest.mark.needs("helm")
every_case = pytest.mark.parametrize("case", CASES)
NAME_MAX = 63
STATEFUL_NAME_MAX = 52


@every_case
def test_every_object_is_one_of_kubernetes(case: str) -> None:
    """By the strict schemas of the pinned version: no unknown field, no wrong type, and none is left out."""
    told = conform(rendered(case))
    assert told["resources"] == []
    found = told["summary"]
    assert (found["invalid"], found["errors"], found["skipped"]) == (0, 0, 0)
    assert found["valid"] == len(rendered(case))


@every_case
def test_the_template_of_an_executor_is_a_pod(case: str) -> None:
    """Spark completes it: a name, arguments, variables."""
    every = of_kind(rendered(case), "ConfigMap")
    texts = [one["data"]["executor.yaml"] for one in every if "executor.yaml" in one["data"]]
    assert len(texts) == (case == "executors")
    found = [pod for pod in pods(rendered(case)) if pod.get("kind") == "Pod"]
    assert len(found) == len(texts)
    assert conform([{**pod, "metadata": {**pod["metadata"], "name": "one"}} for pod in found])["resources"] == []


@every_case
def test_names_are_unique_and_fit(case: str) -> None:
    """In the namespace of the release; the pods of a StatefulSet have longer names than itself."""
    every = [(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in rendered(case)]
    assert len(every) == len(set(every))
    for _, kind, name in every:
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
        assert len(name) <= (STATEFUL_NAME_MAX if kind == "StatefulSet" else NAME_MAX)
    assert {one["metadata"]["namespace"] for one in rendered(case)} == {NAMESPACE}


@every_case
def test_what_is_named_is_there(case: str) -> None:
    """Accounts, files, claims and services that a workload names are objects of the same rendering."""
    every = rendered(case)
    known = {
        kind: {one["metadata"]["name"] for one in of_kind(every, kind)} for kind in {o["kind"] for o in every}
    }
    for pod in pods(every):
        assert pod["spec"]["serviceAccountName"] in known["ServiceAccount"]
        for volume in pod["spec"].get("volumes", ()):
            if "configMap" in volume:
                assert volume["configMap"]["name"] in known["ConfigMap"]
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in known["PersistentVolumeClaim"]
    assert all(one["spec"]["serviceName"] in known["Service"] for one in of_kind(every, "StatefulSet"))
    for one in of_kind(every, "HorizontalPodAutoscaler"):
        assert one["spec"]["scaleTargetRef"]["name"] in known["Deployment"]


@every_case
def test_mounts_have_volumes(case: str) -> None:
    """Those of the pod, or the claim that a StatefulSet makes for each; and no volume is left over."""
    for one in of_kind(rendered(case), *WORKLOADS):
        spec = one["spec"]["template"]["spec"]
        claims = {claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", ())}
        volumes = {volume["name"] for volume in spec["volumes"]} | claims
        assert {mount["name"] for each in spec["containers"] for mount in each["volumeMounts"]} == volumes


@every_case
def test_each_selector_fits_its_pods_and_no_others(case: str) -> None:
    """Of workloads and services: pods of another component or another job are none of theirs."""
    labelled = {one["metadata"]["name"]: one["spec"]["template"] for one in of_kind(rendered(case), *WORKLOADS)}
    for one in of_kind(rendered(case), "Deployment", "StatefulSet"):
        fitting = [
            name for name, pod in labelled.items() if selects(one["spec"]["selector"], pod["metadata"]["labels"])
        ]
        assert fitting == [one["metadata"]["name"]]
    for one in of_kind(rendered(case), "Service"):
        selector = {"matchLabels": one["spec"]["selector"]}
        fitting = [name for name, pod in labelled.items() if selects(selector, pod["metadata"]["labels"])]
        base = one["metadata"]["name"]
        if base.endswith("-view"):
            wanted = [base.removesuffix("view") + role for role in ("rehydrator", "standby")]
            assert fitting == [name for name in labelled if name in wanted]
        else:
            wanted = [base.replace("-readers", "-reader")]
            assert fitting == [name for name in labelled if re.sub(r"-[0-9a-f]{8}$", "", name) in wanted]
            assert fitting


@every_case
def test_each_budget_selects_pods(case: str) -> None:
    """Each of one job; those of rehydrators count owners and standbys together."""
    every = rendered(case)
    for one in of_kind(every, "PodDisruptionBudget"):
        found = [pod for pod in pods(every) if selects(one["spec"]["selector"], pod["metadata"]["labels"])]
        assert found
        assert len({pod["metadata"]["labels"]["cutwater-job"] for pod in found}) == 1
        roles = {pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in found}
        own = one["metadata"]["labels"]["app.kubernetes.io/component"]
        assert roles <= {own, "standby"}
    shares = [
        one for one in of_kind(every, "PodDisruptionBudget") if one["metadata"]["name"].endswith("rehydrator")
    ]
    assert len(shares) == len(of_kind(every, "StatefulSet")) - len(
        [one for one in of_kind(every, "StatefulSet") if one["metadata"]["name"].endswith("standby")]
    )


@every_case
def test_a_rendering_is_the_same_each_time(case: str) -> None:
    """Nothing random, and no time: what has not changed restarts nothing."""
    assert template(CASES[case]()).stdout == template(CASES[case]()).stdout


@every_case
def test_another_chart_version_alone_restarts_no_pod(case: str) -> None:
    """Labels of pods have neither the chart's nor the application's version."""
    for pod in pods(rendered(case)):
        assert not {"helm.sh/chart", "app.kubernetes.io/version"} & pod["metadata"]["labels"].keys()


@every_case
def test_the_chart_is_clean_for_lint(case: str) -> None:
    values = yaml.safe_dump(CASES[case]())
    linted = helm("lint", CHART, "--strict", "--kube-version", kubernetes(), "--values", "-", given=values)
    assert linted.returncode == 0, linted.stdout


def test_a_misspelt_field_is_found() -> None:
    """The schemas are strict: so a valid rendering says something."""
    wrong = copy.deepcopy(named(rendered("least"), "Deployment", "flights-driver"))
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    (told,) = conform([wrong])["resources"]
    assert "livenesProbe" in told["msg"]
    wrong = copy.deepcopy(named(rendered("least"), "StatefulSet", "flights-rehydrator"))
    wrong["spec"]["replicas"] = "two"
    assert "replicas" in conform([wrong])["resources"][0]["msg"]


def test_jobs_are_apart() -> None:
    """Each has its own objects, and what it overrides does not reach the other."""
    every = render(several_jobs())
    owners = {
        job: named(every, "StatefulSet", f"{job}-rehydrator")["spec"]["replicas"] for job in ("flights", "revenue")
    }
    assert owners == {"flights": 3, "revenue": 1}
    assert not [one for one in every if "revenue-publisher" in one["metadata"]["name"]], "it has no output"
    alone = {str(one) for one in render(least(jobs={"revenue": several_jobs()["jobs"]["revenue"]}))}
    beside = {str(one) for one in render(least(jobs=several_jobs()["jobs"]))}
    assert alone <= beside


def test_a_changed_job_file_restarts_its_pods_only() -> None:
    values: dict[str, Any] = several_jobs()
    changed = copy.deepcopy(values)
    changed["jobs"]["revenue"]["file"] += "# a comment\n"
    before, after = (
        {one["metadata"]["name"]: one["spec"]["template"] for one in of_kind(render(one), "Deployment")}
        for one in (values, changed)
    )
    different = {name for name in before if before[name] != after[name]}
    assert different == {name for name in before if "-revenue-" in name}


def test_jobs_of_kubernetes_run_again_if_they_have_to() -> None:
    """A Job cannot be changed. Topics are prepared for another job file, a mirror starts for another `run`."""
    values = everything()
    again = everything()
    again["mirror"]["run"] = 2
    names = [{one["metadata"]["name"] for one in of_kind(render(one), "Job")} for one in (values, again)]
    topics = {name for name in names[0] if "-topics-" in name}
    assert names[0] & names[1] == topics
    assert len(topics) == 1
    assert len(names[0]) == len(names[1]) == 3
