"""The rights that `cutwater plan --json` lists, given to users of a broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from cutwater.adapters.kafka.client_config import Cluster

GRANT_S = 30
_OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Delete": AclOperation.DELETE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "AlterConfigs": AclOperation.ALTER_CONFIGS,
}
_RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


def planned(user: str, acls: Iterable[Mapping[str, Any]]) -> set[AclBinding]:
    """Exactly what is listed, for one user."""
    return {
        AclBinding(
            _RESOURCES[one["resource"]],
            one["name"],
            ResourcePatternType.PREFIXED if one["pattern"] == "prefixed" else ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            _OPERATIONS[operation],
            AclPermissionType.ALLOW,
        )
        for one in acls
        for operation in one["operations"]
    }


def create(admin: Cluster, acls: Iterable[AclBinding]) -> None:
    """Give the rights, as whoever `admin` is; returns once the broker has them all."""
    client = AdminClient(admin.librdkafka())  # without a name it would be gone before the answer
    for done in client.create_acls(list(acls)).values():
        done.result(GRANT_S)
