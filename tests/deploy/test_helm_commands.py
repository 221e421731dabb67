"""What the containers of the chart run: the commands of compose, and scripts that are tried with stand-ins."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cutwater.adapters.job_files.loader import load_job
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
from support.kubernetes.process import rendered, settings_of
from support.kubernetes.values import CASES, everything, executors

pytestmark = pytest.mark.needs("helm")
ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]


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


@pytest.mark.parametrize("case", CASES)
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


def test_executors_get_the_secrets_that_spark_does_not_hand_them() -> None:
    """The password of Kafka, the keys of the store and the mounted certificates; nothing by Spark's settings."""
    (executor,) = [pod for pod in pods(rendered("executors")) if component(pod) == "executor"]
    assert {name for name, _ in secrets(executor)} == {"kafka-user", "store-keys", "kafka-tls"}
    conf = named(rendered("executors"), "ConfigMap", "flights-spark")["data"]["spark-defaults.conf"]
    told = dict(line.split(" ", 1) for line in conf.splitlines())
    assert told["spark.executor.instances"] == "3"
    memory = container(executor)["resources"]
    assert memory["requests"]["memory"] == memory["limits"]["memory"] == "1920Mi"
    assert (told["spark.executor.memory"], told["spark.executor.memoryOverhead"]) == ("1g", "896m")
    assert (
        told["spark.kubernetes.authenticate.executor.serviceAccountName"] == executor["spec"]["serviceAccountName"]
    )
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
