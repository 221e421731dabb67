"""NetworkPolicies as plain values: whether a connection is possible between two places."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from support.kubernetes.chart import Object, selects

NAMESPACE_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True)
class Place:
    """A pod with its labels and its namespace's, or, without a namespace, an address outside of the cluster."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    namespace_labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    address: str = "192.0.2.1"

    @property
    def of_namespace(self) -> dict[str, str]:
        return {NAMESPACE_LABEL: self.namespace, **self.namespace_labels}


def may_connect(
    policies: Iterable[Object], source: Place, target: Place, port: int, protocol: str = "TCP"
) -> bool:
    """Return whether the policies let the source connect: its own for egress, and the target's for ingress."""
    every = list(policies)
    out = _admitted(every, source, target, "Egress", port, protocol)
    return out and _admitted(every, target, source, "Ingress", port, protocol)


def _admitted(policies: list[Object], of: Place, other: Place, way: str, port: int, protocol: str) -> bool:
    mine = [one for one in policies if _applies(one, of) and way in one["spec"]["policyTypes"]]
    if not mine:
        return True  # a place that no policy selects is open
    rules = [rule for one in mine for rule in one["spec"].get(way.lower(), ())]
    return any(
        _has_port(rule, port, protocol) and _has_peer(rule, "to" if way == "Egress" else "from", of, other)
        for rule in rules
    )


def _applies(policy: Object, place: Place) -> bool:
    here = policy["metadata"]["namespace"] == place.namespace
    return bool(place.namespace) and here and selects(policy["spec"]["podSelector"], place.labels)


def _has_port(rule: Object, port: int, protocol: str) -> bool:
    ports = rule.get("ports")
    return not ports or any((one["port"], one.get("protocol", "TCP")) == (port, protocol) for one in ports)


def _has_peer(rule: Object, key: str, of: Place, other: Place) -> bool:
    peers = rule.get(key)
    return not peers or any(_is_peer(one, of, other) for one in peers)


def _is_peer(peer: Mapping[str, Any], of: Place, other: Place) -> bool:
    if "ipBlock" in peer:
        inside = ipaddress.ip_address(other.address) in ipaddress.ip_network(peer["ipBlock"]["cidr"])
        return not other.namespace and inside
    if not other.namespace:
        return False
    if "namespaceSelector" in peer:
        if not selects(peer["namespaceSelector"], other.of_namespace):
            return False
    elif other.namespace != of.namespace:
        return False
    return selects(peer.get("podSelector", {}), other.labels)
