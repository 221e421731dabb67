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


def told(settings: Mapping[str, str] | None) -> tuple[Settings, dict[str, str]]:
    """The settings in force, of the environment and of `settings`; and the variables for the processes.

    Raises UsageError for a name that no setting has or that is chosen here, and for a value that does not fit.
    """
    given = {"CUTWATER_TRIGGER_MS": "100", **(settings or {})}
    for name in given:
        field = name.removeprefix("CUTWATER_")
        if field.lower() not in Settings.model_fields or not name.startswith("CUTWATER_"):
            raise UsageError(f"settings: {name} is none; docs/SETTINGS.md lists them")
        if field in _OURS or field.startswith("KAFKA_"):
            raise UsageError(f"settings: {name} is chosen by cutwater.testing, which starts the Kafka and the API")
    own = load_settings(given)
    # Containers inherit nothing, and processes of this machine do: what both sides must agree on is said to both.
    agreed = {"CUTWATER_REGION": own.region, "CUTWATER_API_TOKEN": own.api_token.get_secret_value()}
    return own, {**agreed, **given}
