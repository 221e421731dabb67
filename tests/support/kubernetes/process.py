"""What a process of the chart reads: its settings, with some text for each secret, and cached renderings."""

from __future__ import annotations

from functools import cache

from cutwater.adapters.config.settings import Settings, load_settings
from support.kubernetes.chart import Object, environment, render
from support.kubernetes.values import CASES

VIEWS = {"rehydrator", "standby", "reader"}
_FAKES = {
    "CUTWATER_API_TOKEN": "t" * 16,
    "CUTWATER_METRICS_TOKEN": "m" * 16,
    "CUTWATER_SNAPSHOT_KEY": "k" * 32,
    "CUTWATER_TOKENS": f"alice:owner:{'0' * 64}",
    "CUTWATER_REGION_TOKENS": f"us={'u' * 16},eu={'e' * 16}",
}


@cache
def rendered(case: str) -> list[Object]:
    return render(CASES[case]())


def settings_of(pod: Object, name: str = "pod-0") -> Settings:
    """Return the settings of a pod's process. `name`: of the pod."""
    told = {
        variable: (value if value is not None else _FAKES.get(variable, "x")).replace("$(POD_NAME)", name)
        for variable, value in environment(pod).items()
        if variable.startswith("CUTWATER_")
    }
    return load_settings(told)


def settings_of_pod(workload: Object, at: int) -> Settings:
    """Return the settings of one pod of a StatefulSet, by its number."""
    return settings_of(workload["spec"]["template"], f"{workload['metadata']['name']}-{at}")
