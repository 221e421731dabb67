"""What each process of the chart is told: settings, secrets by name, peers that hold each partition once."""

from __future__ import annotations

import pytest
import yaml
from pydantic import SecretStr

from cutwater.adapters.config.settings import Settings
from cutwater.core.state.partition_share import require_whole_once
from support.kubernetes.chart import (
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
from support.kubernetes.process import VIEWS, rendered, settings_of, settings_of_pod
from support.kubernetes.values import CASES, least, several_jobs

pytestmark = pytest.mark.needs("helm")
NOT_OURS = {"POD_NAME", "POD_IP", "SPARK_LOCAL_DIRS", "PYSPARK_SUBMIT_ARGS", "AWS_REGION"}
STORE_KEYS = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
every_case = pytest.mark.parametrize("case", CASES)


@every_case
def test_a_variable_is_a_setting(case: str) -> None:
    """A mistyped one is no error for the process, so it is one here; what it gets, it takes."""
    for pod in pods(rendered(case)):
        told = set(environment(pod))
        ours = {name.removeprefix("CUTWATER_").lower() for name in told if name.startswith("CUTWATER_")}
        assert ours <= set(Settings.model_fields)
        assert {name for name in told if not name.startswith("CUTWATER_")} <= NOT_OURS | STORE_KEYS
        settings_of(pod)


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
        "roles": VIEWS,
        "regions": VIEWS,
        "metrics": running - {"topics"},
        "webhook": {"watch"},
        "collector": {"driver", "mirror", "watch"},
    }


def test_the_least_values_name_no_secret() -> None:
    assert not set().union(*(secrets(pod) for pod in pods(render(least()))))


@pytest.mark.parametrize("case", ["least", "several jobs", "everything"])
def test_owners_hold_each_partition_once(case: str) -> None:
    """Each pod of the sets finds itself in the list that all have, and standbys hold what their owner holds."""
    for job in CASES[case]()["jobs"]:
        owned = named(rendered(case), "StatefulSet", f"{job}-rehydrator")
        settings = {at: settings_of_pod(owned, at) for at in range(owned["spec"]["replicas"])}
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
                mine = settings_of_pod(one, at)
                assert mine.peers == settings[0].peers
                assert mine.held(4) == held[f"owner {at % len(held)}"]
        watching = [pod for pod in pods(rendered(case)) if (component(pod), job_of(pod)) == ("watch", job)]
        asked = settings_of(watching[0]).watch_views
        assert dict(asked) == dict(settings[0].shares) or len(asked) == 1


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


def test_a_reader_knows_the_names_of_its_service() -> None:
    every = render(least(readers={"enabled": True}, auth={"hosts": ["view.example"]}))
    services = {one["metadata"]["name"] for one in of_kind(every, "Service")}
    (pod,) = [one for one in pods(every) if component(one) == "reader"]
    assert "shop-flights-readers" in services
    assert {"shop-flights-readers", "shop-flights-readers.streams.svc", "view.example"} <= settings_of(
        pod
    ).api_names


def test_with_a_token_no_names_are_needed() -> None:
    assert not [pod for pod in pods(rendered("everything")) if "CUTWATER_API_HOSTS" in environment(pod)]


def test_readers_are_replicas_and_no_peers() -> None:
    (pod,) = [one for one in pods(rendered("everything")) if component(one) == "reader"]
    mine = settings_of(pod)
    assert (mine.replica, mine.peers, mine.select_prefixes) == (True, "", "E")


def test_readers_of_another_region_read_its_copy() -> None:
    (pod,) = [one for one in pods(rendered("replica region")) if component(one) == "reader"]
    mine = settings_of(pod)
    assert (mine.region, mine.replica_of, mine.origin_region) == ("eu", "us", "")
    assert str(mine.views_dir).endswith("replicas/us")


def test_numbers_are_written_out() -> None:
    """A million of a values file is a float for Helm, and 1e+06 is no whole number for a setting."""
    told = {component(pod): environment(pod) for pod in pods(rendered("everything"))}
    assert told["driver"]["CUTWATER_TRIGGER_MS"] == "1000000"
    assert told["mirror"]["CUTWATER_MIRROR_BYTES_PER_S"] == "5000000"


def test_several_jobs_keep_their_spark_cores() -> None:
    masters = {
        job_of(pod): environment(pod)["CUTWATER_SPARK_MASTER"]
        for pod in pods(render(several_jobs()))
        if component(pod) == "driver"
    }
    assert masters == {"flights": "local[2]", "revenue": "local[4]"}
