"""Values for the chart that tests render: the least, all options, several jobs, executors on Kubernetes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
REVENUE = """\
job: revenue
source: {topic: orders, schema: order.avsc, key: shop, event_time: at}
window: {kind: tumbling, size: 1m}
lateness: 1m
retention: 1d
partitions: 6
output: {mode: none}
measures:
  orders: {measure: count}
"""
ORDER = (
    '{"type": "record", "name": "Order", "fields": [{"name": "shop", "type": "string"}, '
    '{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}'
)


@cache
def flights() -> dict[str, Any]:
    """Return the job of the demonstration as the chart takes it."""
    return {
        "file": (ROOT / "deploy/jobs/flights.yaml").read_text("utf-8"),
        "files": {"flight_event.avsc": (ROOT / "schemas/flight_event.avsc").read_text("utf-8")},
    }


def least(**more: Any) -> dict[str, Any]:
    """Return the two values without a default, and these."""
    return {"kafka": {"bootstrapServers": "kafka.brokers:9092"}, "jobs": {"flights": flights()}, **more}


def several_jobs() -> dict[str, Any]:
    """Two jobs, of which one has three owners with a standby each, and the other no output."""
    flying = {**flights(), "rehydrator": {"owners": 3, "standbys": 1, "settings": {"preload": False}}}
    selling = {"file": REVENUE, "files": {"order.avsc": ORDER}, "driver": {"spark": {"cores": 4}}}
    return least(jobs={"flights": flying, "revenue": selling}, watch={"settings": {"watch_late": 2_000_000}})


def everything() -> dict[str, Any]:
    """Every option that can be on with the others."""
    user = {"existingSecret": "kafka-user", "usernameKey": "user", "passwordKey": "pass"}
    tls = {"existingSecret": "kafka-tls", "caKey": "ca.pem", "certificateKey": "tls.crt", "keyKey": "tls.key"}
    secure = {"securityProtocol": "SASL_SSL", "saslMechanism": "SCRAM-SHA-512", "credentials": user}
    seen = [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]
    used = [{"podSelector": {"matchLabels": {"uses": "views"}}, "namespaceSelector": {}}]
    rule = {"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [9093]}
    return least(
        region="eu",
        image={
            "pullPolicy": "Always",
            "pullSecrets": ["registry-login"],
            "spark": {"digest": f"sha256:{'0' * 64}"},
        },
        kafka={
            "bootstrapServers": "kafka-1.brokers:9093,kafka-2.brokers:9093",
            **secure,
            "credentialsOf": {"driver": "kafka-driver", "topics": "kafka-setup"},
            "tls": {**tls, "keyPasswordKey": "key-password"},
        },
        origin={
            "region": "us",
            "bootstrapServers": "kafka-us:9094",
            **secure,
            "credentials": {**user, "existingSecret": "kafka-us-user"},
            "tls": {**tls, "existingSecret": "kafka-us-tls"},
            "registry": {"url": "https://registry-us", "existingSecret": "registry-us"},
        },
        registry={"url": "https://registry:8443/apis", "existingSecret": "registry"},
        objectStore={
            "endpoint": "http://store:9000",
            "region": "eu-central-1",
            "credentials": {"existingSecret": "store-keys", "sessionTokenKey": "session"},
        },
        snapshots={
            "location": "s3://backups/cutwater",
            "everySeconds": 900,
            "signingKey": {"existingSecret": "signing"},
        },
        auth={
            "apiToken": {"existingSecret": "api"},
            "tokens": {"existingSecret": "roles"},
            "metricsToken": {"existingSecret": "metrics"},
        },
        regions={
            "urls": "us=https://view-us:8443,eu=http://view-eu:8321",
            "tokens": {"existingSecret": "regions"},
        },
        alerts={"webhook": {"existingSecret": "webhook", "tokenKey": "token"}},
        traces={"url": "http://collector.traces:4318", "token": {"existingSecret": "collector"}},
        driver={
            "checkpoint": "s3a://checkpoints/flights",
            "disruptionsAllowed": 0,
            "settings": {"trigger_ms": 1000000},
        },
        rehydrator={
            "owners": 2,
            "standbys": 2,
            "storage": {"className": "fast", "retention": {"whenScaled": "Delete"}},
            "nodeSelector": {"disk": "nvme"},
            "tolerations": [{"key": "state", "operator": "Exists", "effect": "NoSchedule"}],
            "priorityClassName": "views",
            "podAnnotations": {"team": "flights"},
            "podLabels": {"cost-centre": "42"},
            "serviceAccountAnnotations": {"role": "reader"},
        },
        readers={
            "enabled": True,
            "settings": {"select_prefixes": "E"},
            "autoscaling": {"enabled": True, "requestsInProgress": 8, "backlogMilestones": 20},
        },
        mirror={"enabled": True, "slots": ["0,1", "2,3"], "settings": {"mirror_bytes_per_s": 5_000_000}},
        topics={"source": True},
        networkPolicy={"kafka": rule, "clients": used, "monitoring": seen},
        serviceMonitor={"enabled": True, "labels": {"release": "prometheus"}},
        dashboards={"enabled": True, "labels": {"team": "flights"}, "annotations": {"grafana_folder": "Cutwater"}},
    )


def executors() -> dict[str, Any]:
    """Executors as pods, with a password and a store of their own."""
    kafka = {
        "bootstrapServers": "kafka:9092",
        "securityProtocol": "SASL_SSL",
        "saslMechanism": "PLAIN",
        "credentials": {"existingSecret": "kafka-user"},
        "tls": {"existingSecret": "kafka-tls", "caKey": "ca.pem"},
    }
    spark = {"mode": "kubernetes", "executors": {"instances": 3, "cores": 2}}
    store = {"credentials": {"existingSecret": "store-keys"}, "region": "eu-central-1"}
    driver = {"checkpoint": "s3a://checkpoints/flights", "spark": spark}
    return least(kafka=kafka, objectStore=store, driver=driver)


def replica_region() -> dict[str, Any]:
    """Only a mirror of another region's job, and readers of what it has copied."""
    nothing = {"enabled": False}
    off = ("driver", "commitSignal", "publisher", "watch", "rehydrator", "topics")
    return least(
        region="eu",
        origin={"region": "us", "bootstrapServers": "kafka-us:9094"},
        mirror={"enabled": True},
        readers={"enabled": True, "replicaOf": "us"},
        **dict.fromkeys(off, nothing),
    )


CASES = {
    "least": least,
    "several jobs": several_jobs,
    "everything": everything,
    "executors": executors,
    "replica region": replica_region,
}
