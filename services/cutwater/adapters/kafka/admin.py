"""Description, creation and deletion of topics, with confluent-kafka's admin client."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from cutwater.adapters.kafka.client import TIMEOUT_S, explain, failure
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.connect import create_client
from cutwater.core.checks.replication import UNREPLICATED, Replication
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.protocol.topic_settings import FoundTopic, differences
from cutwater.core.protocol.topics import UNCLEAN, TopicSpec

_ABSENT = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
_UNWANTED = (KafkaError.POLICY_VIOLATION, KafkaError.INVALID_CONFIG)
"""Errors for a setting that the brokers do not have, an invalid value, or a value that a policy forbids."""


def admin_client(cluster: Cluster) -> AdminClient:
    # One level quieter than the default, at which each closing client logs its number of unread events.
    admin: AdminClient = create_client(cluster, AdminClient, {"log_level": 5})
    return admin


def brokers(cluster: Cluster) -> int:
    """Return the number of brokers; raises UnavailableError if none answers."""
    try:
        return len(admin_client(cluster).list_topics(timeout=TIMEOUT_S).brokers)
    except KafkaException as error:
        raise explain(error, f"listing the brokers of {cluster.bootstrap}") from None


def names(cluster: Cluster) -> list[str]:
    """Return the names of all visible topics; raises UnavailableError if no broker answers."""
    try:
        return list(admin_client(cluster).list_topics(timeout=TIMEOUT_S).topics)
    except KafkaException as error:
        raise explain(error, f"listing the topics of {cluster.bootstrap}") from None


def cluster_id(cluster: Cluster) -> str:
    """Return the cluster's own id, which does not depend on its address."""
    doing = f"reading the cluster id of {cluster.bootstrap}"
    admin = admin_client(cluster)  # kept in a variable: otherwise it would be collected before the answer
    asked = admin.describe_cluster(request_timeout=TIMEOUT_S)
    if (error := failure(asked, doing, 2 * TIMEOUT_S)) is not None:
        raise explain(error, doing) from None
    return str(asked.result(TIMEOUT_S).cluster_id)


def _answers(asked: Mapping[str, Future[Any]], doing: str, but: Container[int]) -> Iterator[tuple[str, Any]]:
    """Yield the answer for each topic; skip errors with a code in `but`, and raise any other."""
    for name, future in asked.items():
        error = failure(future, f"{doing} topic {name}", 2 * TIMEOUT_S)
        if error is None:
            yield name, future.result(TIMEOUT_S)
        elif error.args[0].code() not in but:
            raise explain(error, f"{doing} topic {name}") from None


def create_topics(
    cluster: Cluster, specs: Sequence[TopicSpec], replication: Replication = UNREPLICATED
) -> list[str]:
    """Create missing topics; existing ones are not changed. Returns the names of those created."""
    if not specs:
        return []
    admin = admin_client(cluster)
    asked = admin.create_topics([_new_topic(one, replication) for one in specs], request_timeout=TIMEOUT_S)
    created = [name for name, _ in _answers(asked, "creating", {KafkaError.TOPIC_ALREADY_EXISTS})]
    _until(lambda: set(created) - set(_described(admin, created)), "created, but not visible")
    return created


def _until(awaited: Callable[[], Collection[str]], doing: str) -> None:
    """Wait until `awaited` is empty, as brokers lag behind the controller. Raises UnavailableError after 20 s."""
    deadline = time.monotonic() + TIMEOUT_S
    while names := awaited():
        if time.monotonic() > deadline:
            raise UnavailableError(f"{', '.join(sorted(names))}: {doing} within {TIMEOUT_S:.0f} s")
        time.sleep(0.05)


def _new_topic(spec: TopicSpec, replication: Replication) -> NewTopic:
    # Left to the broker for a single replica: the embedded one has its own default.
    copies = (
        {"min.insync.replicas": str(replication.min_insync), UNCLEAN: "false"} if replication.factor > 1 else {}
    )
    return NewTopic(spec.name, spec.partitions, replication.factor, config={**dict(spec.config), **copies})


def ensure_topics(
    cluster: Cluster, specs: Sequence[TopicSpec], replication: Replication = UNREPLICATED
) -> list[str]:
    """Create missing topics, after checking the existing ones. Returns the names of those created."""
    return create_topics(cluster, missing_topics(cluster, specs), replication)


def missing_topics(cluster: Cluster, specs: Sequence[TopicSpec]) -> list[TopicSpec]:
    """Return the topics that do not exist yet.

    Raises UsageError for existing topics with wrong settings, a line each: topic, setting, found, wanted.
    """
    found = describe_topics(cluster, [one.name for one in specs])
    wrong = [each for one in specs if one.name in found for each in differences(one, found[one.name])]
    if wrong:
        lines = "\n".join(f"{one} ({one.remedy})" for one in wrong)
        raise UsageError(f"topics at {cluster.bootstrap} do not have the required settings:\n{lines}")
    return [one for one in specs if one.name not in found]


def describe_topics(cluster: Cluster, names: Sequence[str], operations: bool = False) -> dict[str, FoundTopic]:
    """Return the existing topics by name; with `operations` also this client's permissions on them.

    Raises UnavailableError if the cluster does not answer or refuses to describe them.
    """
    found = descriptions(cluster, names, operations)
    configs = _topic_configs(admin_client(cluster), list(found))
    # A topic that is deleted between the two requests does not exist: the second answer counts.
    return {name: _topic_found(name, found[name], config, operations) for name, config in configs.items()}


def descriptions(cluster: Cluster, names: Sequence[str], operations: bool = False) -> dict[str, Any]:
    return _described(admin_client(cluster), names, operations)


def _described(admin: AdminClient, names: Sequence[str], operations: bool = False) -> dict[str, Any]:
    if not names:
        return {}
    asked = admin.describe_topics(
        TopicCollection(list(names)), include_authorized_operations=operations, request_timeout=TIMEOUT_S
    )
    return dict(_answers(asked, "describing", _ABSENT))


def _topic_found(name: str, described: Any, config: dict[str, str], operations: bool) -> FoundTopic:
    allowed = frozenset(one.name for one in described.authorized_operations or ()) if operations else None
    copies = min((len(one.replicas) for one in described.partitions), default=0)
    return FoundTopic(name, len(described.partitions), config, copies, allowed)


def _topic_configs(admin: AdminClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
    if not names:
        return {}
    asked = admin.describe_configs(
        [ConfigResource(ResourceType.TOPIC, one) for one in names], request_timeout=TIMEOUT_S
    )
    by_name = {resource.name: future for resource, future in asked.items()}
    return {
        name: {key: one.value or "" for key, one in settings.items()}
        for name, settings in _answers(by_name, "reading the settings of", _ABSENT)
    }


def set_configs(cluster: Cluster, topic: str, settings: Mapping[str, str]) -> None:
    """Change only these settings. Raises UsageError for a missing topic, a denied change or a rejected value."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    admin = admin_client(cluster)  # kept, as above
    asked = admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)], request_timeout=TIMEOUT_S
    )
    doing = f"changing {', '.join(sorted(settings))} of topic {topic}"
    for future in asked.values():
        error = failure(future, doing, 2 * TIMEOUT_S)
        if error is not None and error.args[0].code() in _UNWANTED:
            raise UsageError(f"{doing}: the brokers reject a value ({error.args[0].str()})")
        if error is not None:
            raise explain(error, doing) from None


def delete_topics(cluster: Cluster, names: Sequence[str]) -> list[str]:
    """Delete topics, ignoring missing ones. Returns the names of those deleted."""
    if not names:
        return []
    admin = admin_client(cluster)
    asked = admin.delete_topics(list(names), request_timeout=TIMEOUT_S)
    gone = [name for name, _ in _answers(asked, "deleting", _ABSENT)]
    _until(lambda: _described(admin, gone), "deleted, but still there (does another process recreate it?)")
    return gone


def not_creatable(cluster: Cluster, specs: Sequence[TopicSpec], replication: Replication) -> dict[str, str]:
    """Return the topics that the cluster would refuse to create, and why, without creating any."""
    if not specs:
        return {}
    refused = {}
    admin = admin_client(cluster)  # kept, as above
    asked = admin.create_topics(
        [_new_topic(one, replication) for one in specs], request_timeout=TIMEOUT_S, validate_only=True
    )
    for name, future in asked.items():
        error = failure(future, f"checking whether topic {name} may be created", 2 * TIMEOUT_S)
        if error is not None and error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            refused[name] = str(explain(error, f"creating topic {name}"))
    return refused
