"""Which pods of the chart can talk to which: exactly those that have to, evaluated connection by connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.kubernetes.chart import NAMESPACE, Object, component, job_of, of_kind, pods, render
from support.kubernetes.network import Place, may_connect
from support.kubernetes.process import rendered
from support.kubernetes.values import everything, executors, least, several_jobs

PORTS = (
    53,
    80,
    443,
    4317,
    4318,
    5432,
    6443,
    7077,
    7078,
    7079,
    8080,
    8321,
    8443,
    9000,
    9092,
    9093,
    9094,
    9101,
    9102,
    9103,
    9104,
    9105,
)
OWN = {"driver": 9101, "commit-signal": 9102, "publisher": 9103, "watch": 9104, "mirror": 9105}
OWN |= {"rehydrator": 8321, "standby": 8321, "reader": 8321}
DNS = Place("dns", "kube-system", {"k8s-app": "kube-dns"})
PROMETHEUS = Place("prometheus", "observed", {"app": "prometheus"}, {"team": "monitoring"})
CLIENT = Place("client", "web", {"uses": "views"})
STRANGER = Place("stranger", NAMESPACE, {"app": "other"})
NEIGHBOUR = Place("neighbour", "web", {"app": "other"})
BROKERS = Place("brokers", address="10.1.2.3")
ELSEWHERE = Place("elsewhere", address="203.0.113.9")
OUTSIDE = (DNS, PROMETHEUS, CLIENT, STRANGER, NEIGHBOUR, BROKERS, ELSEWHERE)
TRACING = ("driver", "mirror", "watch")
CROSSING = ("driver", "commit-signal", "mirror")

Flow = tuple[str, str, int]


def places(objects: list[Object]) -> list[Place]:
    """Each pod of a rendering, by the name of its job and component."""
    found = {}
    for pod in pods(objects):
        name = f"{job_of(pod)}/{component(pod)}"
        found[name] = Place(name, NAMESPACE, pod["metadata"]["labels"])
    return list(found.values())


def open_flows(objects: list[Object]) -> set[Flow]:
    """Every TCP connection to or from a pod of the chart that the policies admit."""
    policies, mine = of_kind(objects, "NetworkPolicy"), places(objects)
    pairs = [(a, b) for a in mine for b in mine] + [(a, b) for a in mine for b in OUTSIDE]
    pairs += [(b, a) for a in mine for b in OUTSIDE if b.namespace]
    return {(a.name, b.name, port) for a, b in pairs for port in PORTS if may_connect(policies, a, b, port)}


def to(sources: Iterator[str] | list[str], target: str, *ports: int) -> set[Flow]:
    return {(source, target, port) for source in sources for port in ports}


def anywhere(sources: list[str], mine: list[str], *ports: int) -> set[Flow]:
    """Where no address is given, a port is open to all that admit the source; none of the chart's own does."""
    return set().union(*(to(sources, place.name, *ports) for place in OUTSIDE))


@pytest.mark.needs("helm")
def test_the_least_values_open_kafka_and_the_watch_only() -> None:
    """A lone rehydrator has no peers; nobody is a client, and nobody reads metrics."""
    mine = [one.name for one in places(rendered("least"))]
    assert open_flows(rendered("least")) == (
        to(mine, "dns", 53) | anywhere(mine, mine, 9092) | to(["flights/watch"], "flights/rehydrator", 8321)
    )


@pytest.mark.needs("helm")
def test_jobs_do_not_reach_each_other() -> None:
    """Owners and standbys of one job are peers, and its watch asks them: those of the other job are strangers."""
    mine = [one.name for one in places(rendered("several jobs"))]
    views = ["flights/rehydrator", "flights/standby"]
    peers = set().union(*(to(["flights/watch", *views], one, 8321) for one in views))
    assert open_flows(rendered("several jobs")) == (
        to(mine, "dns", 53)
        | anywhere(mine, mine, 9092)
        | peers
        | to(["revenue/watch"], "revenue/rehydrator", 8321)
    )


@pytest.mark.needs("helm")
def test_everything_opens_what_each_component_needs() -> None:
    """Kafka by address; the other region, registries, the store, the webhook by port; clients and Prometheus."""
    every = {one.name.removeprefix("flights/"): one.name for one in places(rendered("everything"))}
    mine = list(every.values())
    views = [every[one] for one in ("rehydrator", "standby", "reader")]
    shares = views[:2]
    flows = to(mine, "dns", 53) | to(mine, "brokers", 9093)
    flows |= anywhere([every[one] for one in CROSSING], mine, 9094)
    flows |= anywhere([every[one] for one in ("driver", "publisher", "mirror")], mine, 8443)
    flows |= anywhere([every["mirror"], every["watch"]], mine, 443)  # the other registry, the webhook
    flows |= anywhere([*views, every["driver"]], mine, 9000)
    flows |= anywhere([every[one] for one in TRACING], mine, 4318)
    flows |= anywhere(views, mine, 8443, 8321)  # the other regions' views
    flows |= set().union(*(to([every["watch"], *shares], one, 8321) for one in shares))
    flows |= {("client", one, 8321) for one in views}
    flows |= {("prometheus", name, OWN[role]) for role, name in every.items() if role in OWN}
    assert open_flows(rendered("everything")) == flows


@pytest.mark.needs("helm")
def test_executors_talk_to_their_driver_and_each_other() -> None:
    """The driver alone asks the API of Kubernetes."""
    mine = [one.name for one in places(rendered("executors"))]
    driver, executor = "flights/driver", "flights/executor"
    flows = to(mine, "dns", 53) | anywhere(mine, mine, 9092) | to(["flights/watch"], "flights/rehydrator", 8321)
    flows |= to([executor], driver, 7078, 7079) | to([driver, executor], executor, 7079)
    flows |= anywhere([driver], mine, 443, 6443) | anywhere([executor], mine, 443)
    assert open_flows(rendered("executors")) == flows


COLLECTOR = Place("collector", "traces", {"app": "collector"})


@pytest.mark.needs("helm")
def test_a_collector_is_reached_where_there_is_one_and_nothing_else_is() -> None:
    """By those that send traces, at its address's port or at those of the policy."""
    here = {"to": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "collector"}}}]}
    narrow = render(least(traces={"url": "https://collector/v1"}, networkPolicy={"traces": here}))
    assert traced(narrow, COLLECTOR) == {("driver", 443), ("watch", 443)}
    assert not traced(narrow, ELSEWHERE), "the address of another"
    other = {"traces": {"ports": [4317]}}
    assert traced(render(least(traces={"url": "http://collector:4318"}, networkPolicy=other)), ELSEWHERE) == {
        ("driver", 4317),
        ("watch", 4317),
    }
    assert not traced(rendered("least"), COLLECTOR)


def traced(objects: list[Object], target: Place) -> set[tuple[str, int]]:
    """Who reaches a place outside at a port that no broker has."""
    policies = of_kind(objects, "NetworkPolicy")
    return {
        (one.name.partition("/")[2], port)
        for one in places(objects)
        for port in (80, 443, 4317, 4318)
        if may_connect(policies, one, target, port)
    }


@pytest.mark.needs("helm")
def test_a_mirror_reads_the_other_region_and_its_readers_do_not() -> None:
    mine = [one.name for one in places(rendered("replica region"))]
    assert mine == ["flights/reader", "flights/mirror"]
    flows = to(mine, "dns", 53) | anywhere(mine, mine, 9092) | anywhere(["flights/mirror"], mine, 9094)
    assert open_flows(rendered("replica region")) == flows


@pytest.mark.needs("helm")
def test_names_are_asked_by_udp_and_no_other_pod_is() -> None:
    policies = of_kind(rendered("least"), "NetworkPolicy")
    for one in places(rendered("least")):
        assert may_connect(policies, one, DNS, 53, "UDP")
        assert not may_connect(policies, one, STRANGER, 53, "UDP")


@pytest.mark.needs("helm")
@pytest.mark.parametrize("values", [least, several_jobs, everything, executors], ids=lambda one: one.__name__)
def test_a_pod_that_no_policy_knows_is_cut_off(values: Any) -> None:
    """The release's own policy selects all its pods: what the chart forgets is closed, not open."""
    policies = of_kind(render(values()), "NetworkPolicy")
    labels = {"app.kubernetes.io/name": "cutwater", "app.kubernetes.io/instance": "shop"}
    forgotten = Place("forgotten", NAMESPACE, labels)
    assert not [port for port in PORTS if may_connect(policies, forgotten, ELSEWHERE, port)]
    assert not [port for port in PORTS if may_connect(policies, STRANGER, forgotten, port)]


@pytest.mark.needs("helm")
def test_policies_can_be_left_to_somebody_else() -> None:
    assert not of_kind(render(least(networkPolicy={"enabled": False})), "NetworkPolicy")


DENY = {
    "metadata": {"namespace": "a"},
    "spec": {"podSelector": {"matchLabels": {"x": "1"}}, "policyTypes": ["Ingress", "Egress"]},
}
ONE, OTHER = Place("one", "a", {"x": "1"}), Place("other", "a", {"y": "2"})


def rule(way: str, peers: list[dict[str, Any]], port: int) -> Object:
    """A policy of ONE with one rule."""
    key = {"Ingress": "from", "Egress": "to"}[way]
    spec = {"podSelector": {"matchLabels": {"x": "1"}}, "policyTypes": [way]}
    return {
        "metadata": {"namespace": "a"},
        "spec": {**spec, way.lower(): [{key: peers, "ports": [{"port": port}]}]},
    }


def test_the_evaluation_of_policies_is_that_of_kubernetes() -> None:
    """Open without a policy, closed by an empty one, and rules of several policies add up."""
    assert may_connect([], ONE, OTHER, 1)
    assert not may_connect([DENY], ONE, OTHER, 1)
    assert not may_connect([DENY], OTHER, ONE, 1)
    outward = rule("Egress", [{"podSelector": {"matchLabels": {"y": "2"}}}], 1)
    assert may_connect([DENY, outward], ONE, OTHER, 1)
    assert not may_connect([DENY, outward], ONE, OTHER, 2)
    assert not may_connect([DENY, outward], OTHER, ONE, 1)
    assert not may_connect([DENY, outward], ONE, Place("far", "b", {"y": "2"}), 1), "another namespace"
    everywhere = rule("Egress", [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"y": "2"}}}], 1)
    assert may_connect([DENY, everywhere], ONE, Place("far", "b", {"y": "2"}), 1)
    addressed = rule("Egress", [{"ipBlock": {"cidr": "10.1.0.0/16"}}], 1)
    assert may_connect([DENY, addressed], ONE, BROKERS, 1)
    assert not may_connect([DENY, addressed], ONE, ELSEWHERE, 1)
    inward = rule("Ingress", [{"podSelector": {}}], 1)
    assert may_connect([DENY, inward], OTHER, ONE, 1)
    assert not may_connect([DENY, inward], Place("far", "b", {"y": "2"}), ONE, 1)
