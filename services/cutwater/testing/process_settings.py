"""The settings that a test gives to a job's processes."""

from __future__ import annotations

from collections.abc import Mapping

from cutwater.adapters.config.settings import Settings, load_settings
from cutwater.core.errors import UsageError

_OURS = {
    "BOOTSTRAP_SERVERS",
    "DATA_DIR",
    "HOST",
    "PORT",
    "CHECKPOINT",
    "S3_ENDPOINT",
    "SPARK_MASTER",
    "SPARK_JARS",
}


def settings_and_environment(settings: Mapping[str, str] | None) -> tuple[Settings, dict[str, str]]:
    """Return the effective settings of the environment and `settings`, and the variables for the processes.

    Raises UsageError for an unknown name, a name that this package sets itself, or a wrong value.
    """
    given = {"CUTWATER_TRIGGER_MS": "100", **(settings or {})}
    for name in given:
        field = name.removeprefix("CUTWATER_")
        if field.lower() not in Settings.model_fields or not name.startswith("CUTWATER_"):
            raise UsageError(f"settings: {name} is not a setting; docs/SETTINGS.md lists them")
        if field in _OURS or field.startswith("KAFKA_"):
            raise UsageError(f"settings: {name} is set by cutwater.testing, which starts Kafka and the API")
    own = load_settings(given)
    # Local processes inherit the environment, containers do not: pass what the processes must agree on.
    agreed = {"CUTWATER_REGION": own.region, "CUTWATER_API_TOKEN": own.api_token.get_secret_value()}
    return own, {**agreed, **given}
