"""The dashboards as files: one for each role.

    python -m deploy.grafana.dashboards

`make fmt` calls it. The chart has the same files again: Helm reads none outside of a chart's own folder.
"""

from __future__ import annotations

import json
from pathlib import Path

from deploy.grafana.job_owner import JOB_OWNER
from deploy.grafana.operator import OPERATOR
from deploy.grafana.panels import plain
from deploy.grafana.regions import REGIONS

DASHBOARDS = (JOB_OWNER, OPERATOR, REGIONS)
FOLDERS = (Path(__file__).parent, Path(__file__).parents[1] / "helm/cutwater/dashboards")


def files() -> dict[str, str]:
    """Return the text of each file by its name."""
    return {one.file: json.dumps(plain(one), indent=1, ensure_ascii=False) + "\n" for one in DASHBOARDS}


def main() -> None:
    for folder in FOLDERS:
        folder.mkdir(exist_ok=True)
        for name, text in files().items():
            (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
