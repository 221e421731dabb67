"""The heat map as a picture."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # files only
from matplotlib import pyplot as plt

from cutwater.core.skew.heat_bands import HeatBands

_INK = "#1f2933"


def write_png(heat: HeatBands, title: str, path: Path) -> None:
    """Write a PNG of 1200 x 700 pixels: bands of shards from bottom to top, milestones from left to right."""
    figure, axes = plt.subplots(figsize=(12, 7), dpi=100, facecolor="white")
    image = axes.imshow(heat.cells, aspect="auto", origin="lower", cmap="magma_r", interpolation="nearest")
    each = "milestone" if heat.column == 1 else f"{heat.column} milestones"
    axes.set_xlabel(f"{each}, the newest on the right", color=_INK)
    axes.set_ylabel(f"{heat.band} shard(s) a row", color=_INK)
    axes.set_yticks([at for at in range(len(heat.cells)) if at == 0 or _begins(heat, at)])
    axes.set_yticklabels([f"partition {heat.partitions[at][1]}" for at in axes.get_yticks()])
    axes.tick_params(length=0, colors=_INK)
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, label="of the hottest shard in a row")
    axes.set_title(title, color=_INK, loc="left", fontsize=14)
    figure.tight_layout()
    figure.savefig(path, format="png")
    plt.close(figure)


def _begins(heat: HeatBands, at: int) -> bool:
    return heat.partitions[at][1] != heat.partitions[at - 1][1]
