"""What the machine itself allows, to hold the contenders' rates against: one reading of the topic, no work."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError

TIMEOUT_S = 120.0


def consumer_rate(java: Path, jar_paths: Sequence[Path], cluster: Cluster, topic: str, events: int) -> float:
    """Events per second of Kafka's own ConsumerPerformance, without its group join."""
    command = [
        str(java),
        "-cp",
        os.pathsep.join(map(str, jar_paths)),
        "org.apache.kafka.tools.ConsumerPerformance",
    ]
    options = ["--bootstrap-server", cluster.bootstrap, "--topic", topic, "--messages", str(events)]
    try:
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"ConsumerPerformance did not read {topic} within {TIMEOUT_S:.0f} s") from None
    rate = parse_rate(done.stdout)
    if rate is None:
        raise UnavailableError(
            f"ConsumerPerformance told no rate of {topic}: {(done.stdout + done.stderr)[-500:]}"
        )
    return rate


def parse_rate(output: str) -> float | None:
    """The last column, fetch.nMsg.sec, of the one line with figures."""
    for line in output.splitlines():
        if re.match(r"\d{4}-\d\d-\d\d ", line):
            return float(line.rsplit(",", 1)[1])
    return None
