"""Each pod of the chart: rights, probes, resources, and the settings that its process gets."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from cutwater.adapters.config.settings import Settings, load_settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.state.partition_share import require_whole_once
from support.kubernetes.chart import (
    Object,
    component,
    container,
    environment,
    job_of,
    named,
    of_kind,
    pods,
    render,
    secrets,
)
from support.kubernetes.values import CASES, everything, executors, least, several_jobs

pytestmark = pytest.mark.needs("helm")
ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
NOT_OURS = {"POD_NAME", "POD_IP", "SPARK_LOCAL_DIRS", "PYSPARK_SUBMIT_ARGS", "AWS_REGION"}
STORE_KEYS = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
GIB = 1 << 30
VIEWS = {"rehydrator", "standby", "reader"}


@cache
def rendered(case: str) -> list[Object]:
    return render(CASES[case]())


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


@every_case
def test_a_variable_is_a_setting(case: str) -> None:
    """A mistyped one is no error for the process, so it is one here; what it gets, it takes."""
    for pod in pods(rendered(case)):
        told = set(environment(pod))
        ours = {name.removeprefix("CUTWATER_").lower() for name in told if name.startswith("CUTWATER_")}
        assert ours <= set(Settings.model_fields)
        assert {name for name in told if not name.startswith("CUTWATER_")} <= NOT_OURS | STORE_KEYS
        settings_of(pod)


def settings_of(pod: Object, name: str = "pod-0") -> Settings:
    """What the process reads, with some text for each secret."""
    fakes = {"CUTWATER_API_TOKEN": "t" * 16, "CUTWATER_METRICS_TOKEN": "m" * 16, "CUTWATER_SNAPSHOT_KEY": "k" * 32}
    fakes |= {"CUTWATER_REGION_TOKENS": f"us={'u' * 16},eu={'e' * 16}"}
    told = {
        variable: (value if value is not None else fakes.get(variable, "x")).replace("$(POD_NAME)", name)
        for variable, value in environment(pod).items()
        if variable.startswith("CUTWATER_")
    }
    return load_settings(told)


@every_case
def test_no_secret_has_a_value(case: str) -> None:
    """Nor is there a Secret: they are named, and belong to somebody else."""
    assert not of_kind(rendered(case), "Secret")
    secret = {name for name, one in Settings.model_fields.items() if one.annotation is SecretStr}
    for pod in pods(rendered(case)):
        for one in container(pod)["env"]:
            name = one["name"].removeprefix("CUTWATER_").lower()
            if name in secret or one["name"] in STORE_KEYS:
                assert one.keys() == {"name", "valueFrom"}
                assert one["valueFrom"].keys() == {"secretKeyRef"}
    assert "secret.key" not in yaml.safe_dump_all(rendered(case))


def test_each_secret_goes_to_those_that_use_it() -> None:
    """A component reads its own user and no other's; tokens go to views and watch, keys to views and driver."""
    found: dict[str, set[str]] = {}
    for pod in pods(rendered("everything")):
        for name, _ in secrets(pod):
            found.setdefault(name, set()).add(component(pod))
    running = {component(pod) for pod in pods(rendered("everything"))}
    crossing = {"driver", "commit-signal", "mirror"}
    assert found == {
        "kafka-user": running - {"driver", "topics"},
        "kafka-driver": {"driver"},
        "kafka-setup": {"topics"},
        "kafka-tls": running,
        "kafka-us-user": crossing,
        "kafka-us-tls": crossing,
        "registry": {"driver", "publisher", "mirror"},
        "registry-us": {"mirror"},
        "store-keys": {"driver", *VIEWS},
        "signing": {"driver", *VIEWS},
        "api": {"watch", *VIEWS},
        "regions": VIEWS,
        "metrics": running - {"topics"},
        "webhook": {"watch"},
    }


@pytest.mark.parametrize(
    "name", ["driver", "commit-signal", "publisher", "watch", "rehydrator", "mirror", "topics"]
)
def test_a_container_runs_what_compose_runs(name: str) -> None:
    """The same image, module and port as in docker-compose.yml."""
    (pod, *_) = [one for one in pods(rendered("everything")) if component(one) == name]
    other = COMPOSE["rehydrator-1" if name == "rehydrator" else name]
    image = other["image"].partition(":")[0]
    assert re.match(rf"{image}[:@]", container(pod)["image"])
    run = [word.replace("${CUTWATER_JOB:-flights.yaml}", "flights.yaml") for word in other["command"]]
    if name == "mirror":
        assert f"python3 -m {run[0]} " in container(pod)["command"][2]
        assert container(pod)["args"] == run[1:]
    else:
        assert container(pod)["args"] == run
    ports = {
        key: int(value)
        for key, value in other["environment"].items()
        if re.fullmatch(r"CUTWATER_(\w+_)?PORT", key)
    }
    told = environment(pod)
    assert {key: int(told[key] or 0) for key in told if re.fullmatch(r"CUTWATER_(\w+_)?PORT", key)} == ports


@every_case
def test_a_job_file_is_read_from_where_it_is_mounted(case: str, tmp_path: Path) -> None:
    """With the files that it names, by the loader of the services."""
    for one in of_kind(rendered(case), "ConfigMap"):
        if "executor.yaml" in one["data"]:
            continue
        for name, text in one["data"].items():
            (tmp_path / name).write_text(text, "utf-8")
    for pod in pods(rendered(case)):
        if component(pod) == "executor":
            continue
        (mount,) = [each for each in container(pod)["volumeMounts"] if each["name"] == "job"]
        (path,) = [word for word in container(pod)["args"] if word.endswith(".yaml")]
        assert Path(path).parent == Path(mount["mountPath"])
        assert load_job(tmp_path / Path(path).name).name == job_of(pod)


@pytest.mark.parametrize("case", ["least", "several jobs", "everything"])
def test_owners_hold_each_partition_once(case: str, tmp_path: Path) -> None:
    """Each pod of the sets finds itself in the list that all have, and standbys hold what their owner holds."""
    for job in CASES[case]()["jobs"]:
        owned = named(rendered(case), "StatefulSet", f"{job}-rehydrator")
        settings = {at: of_pod(owned, at) for at in range(owned["spec"]["replicas"])}
        held = {f"owner {at}": one.held(4) for at, one in settings.items()}
        require_whole_once(held, 4)
        standing = [
            one
            for one in of_kind(rendered(case), "StatefulSet")
            if one["metadata"]["name"].endswith(f"{job}-standby")
        ]
        assert bool(standing) == (case != "least" and job == "flights")
        for one in standing:
            for at in range(one["spec"]["replicas"]):
                mine = of_pod(one, at)
                assert mine.peers == settings[0].peers
                assert mine.held(4) == held[f"owner {at % len(held)}"]
        watching = [pod for pod in pods(rendered(case)) if (component(pod), job_of(pod)) == ("watch", job)]
        asked = settings_of(watching[0]).watch_views
        assert dict(asked) == dict(settings[0].shares) or len(asked) == 1


def of_pod(workload: Object, at: int) -> Settings:
    return settings_of(workload["spec"]["template"], f"{workload['metadata']['name']}-{at}")


@pytest.mark.parametrize("case", ["least", "several jobs"])
def test_without_a_token_a_view_knows_its_names(case: str) -> None:
    """Requests with another host name are refused: peers, the watch and users use these."""
    for pod in pods(rendered(case)):
        if component(pod) not in VIEWS:
            continue
        mine = settings_of(pod)
        urls = [url for group in mine.shares.items() for url in (group[0], *group[1])]
        names = {url.removeprefix("http://").removesuffix(":8321") for url in urls}
        assert names | {f"shop-{job_of(pod)}-view", f"shop-{job_of(pod)}-view.streams.svc"} <= mine.api_names


def test_with_a_token_no_names_are_needed() -> None:
    assert not [pod for pod in pods(rendered("everything")) if "CUTWATER_API_HOSTS" in environment(pod)]


def test_readers_are_replicas_and_no_peers() -> None:
    (pod,) = [one for one in pods(rendered("everything")) if component(one) == "reader"]
    mine = settings_of(pod)
    assert (mine.replica, mine.peers, mine.select_prefixes) == (True, "", "E")


def test_numbers_are_written_out() -> None:
    """A million of a values file is a float for Helm, and 1e+06 is no whole number for a setting."""
    told = {component(pod): environment(pod) for pod in pods(rendered("everything"))}
    assert told["driver"]["CUTWATER_TRIGGER_MS"] == "1000000"
    assert told["mirror"]["CUTWATER_MIRROR_BYTES_PER_S"] == "5000000"


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


def test_executors_get_the_secrets_that_spark_does_not_hand_them() -> None:
    """The password of Kafka, the keys of the store and the mounted certificates; nothing by Spark's settings."""
    (executor,) = [pod for pod in pods(rendered("executors")) if component(pod) == "executor"]
    assert {name for name, _ in secrets(executor)} == {"kafka-user", "store-keys", "kafka-tls"}
    conf = named(rendered("executors"), "ConfigMap", "flights-spark")["data"]["spark-defaults.conf"]
    told = dict(line.split(" ", 1) for line in conf.splitlines())
    assert told["spark.executor.instances"] == "3"
    assert told["spark.kubernetes.executor.podTemplateFile"] == "/etc/spark/executor.yaml"
    assert not re.search("secret|password|token", conf, re.IGNORECASE)
    (driver,) = [pod for pod in pods(rendered("executors")) if component(pod) == "driver"]
    assert settings_of(driver).spark_master.startswith("k8s://https://")
    assert not settings_of(driver).needs_spark_secret
    mounts = {one["mountPath"]: one for one in container(driver)["volumeMounts"]}
    assert mounts["/opt/cutwater/pyspark/conf/spark-defaults.conf"]["subPath"] == "spark-defaults.conf"


def test_an_executor_starts_as_spark_starts_one(tmp_path: Path) -> None:
    """With a `java` that prints its arguments: Spark's variables become the options of its executor."""
    (executor,) = [pod for pod in pods(render(executors())) if component(pod) == "executor"]
    program(tmp_path / "java", 'printf "%s\\n" "$@"')
    told = {
        "SPARK_JAVA_OPT_10": "-Dten=10",
        "SPARK_JAVA_OPT_0": "-Done two",
        "SPARK_EXECUTOR_MEMORY": "1g",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_EXECUTOR_ID": "7",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
        "SPARK_EXECUTOR_POD_NAME": "shop-flights-exec-7",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_HOME": "/opt/cutwater/pyspark",
    }
    done = run_container(executor, tmp_path, told, "executor")
    words = done.stdout.splitlines()
    assert words[:4] == ["-Done two", "-Dten=10", "-Xms1g", "-Xmx1g"]
    assert words[words.index("-cp") + 2].endswith(".KubernetesExecutorBackend")
    options = dict(zip(words[7::2], words[8::2], strict=True))
    assert options["--driver-url"] == told["SPARK_DRIVER_URL"]
    assert (options["--executor-id"], options["--cores"], options["--podName"]) == (
        "7",
        "2",
        "shop-flights-exec-7",
    )


@pytest.mark.parametrize(("ends_with", "code"), [(0, 143), (4, 4), (6, 6)])
def test_a_mirror_that_ends_tells_kubernetes_why(ends_with: int, code: int, tmp_path: Path) -> None:
    """0 would complete the Job, and nothing would start the mirror again after its node was drained."""
    (pod, *_) = [one for one in pods(render(everything())) if component(one) == "mirror"]
    program(tmp_path / "python3", f"exit {ends_with}")
    assert run_container(pod, tmp_path, {}, *container(pod)["args"]).returncode == code


def test_a_mirror_is_asked_to_stop(tmp_path: Path) -> None:
    """SIGTERM reaches it, and it has its time to end."""
    (pod, *_) = [one for one in pods(render(everything())) if component(one) == "mirror"]
    program(
        tmp_path / "python3", 'trap "sleep 0.3; echo ended; exit 0" TERM; echo "$@"; while :; do sleep 0.1; done'
    )
    words = [*container(pod)["command"], *container(pod)["args"]]
    with subprocess.Popen(words, env=path_of(tmp_path), stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        assert running.stdout.readline() == "-m cutwater.mirror /etc/cutwater/flights.yaml\n"
        running.terminate()
        assert running.stdout.read() == "ended\n"
        assert running.wait(10) == 143


def test_a_fenced_mirror_stays_away() -> None:
    """A failover fences it with exit code 6. A drain does not count, and after an outage it is tried again."""
    for one in of_kind(rendered("everything"), "Job"):
        if "-mirror-" not in one["metadata"]["name"]:
            continue
        assert one["spec"]["template"]["spec"]["restartPolicy"] == "Never"
        ended, drained = one["spec"]["podFailurePolicy"]["rules"]
        assert ended["action"] == "FailJob"
        assert 6 in ended["onExitCodes"]["values"]
        assert not {0, 4, 143} & set(ended["onExitCodes"]["values"])
        assert drained == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}


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


def program(file: Path, text: str) -> None:
    file.write_text(f"#!/usr/bin/env bash\n{text}\n", "utf-8")
    file.chmod(0o755)


def path_of(folder: Path) -> dict[str, str]:
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def run_container(pod: Object, folder: Path, told: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    """Run the command of a container with programs of a folder in place of its own."""
    words = [*container(pod)["command"], *args]
    return subprocess.run(
        words, env=path_of(folder) | told, capture_output=True, text=True, timeout=30, check=False
    )


def test_several_jobs_keep_their_spark_cores() -> None:
    masters = {
        job_of(pod): environment(pod)["CUTWATER_SPARK_MASTER"]
        for pod in pods(render(several_jobs()))
        if component(pod) == "driver"
    }
    assert masters == {"flights": "local[2]", "revenue": "local[4]"}


def test_the_least_values_name_no_secret() -> None:
    assert not set().union(*(secrets(pod) for pod in pods(render(least()))))
