"""The folders of the publisher's stores on the disk."""

from __future__ import annotations

import shutil
from pathlib import Path

from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Generation
from cutwater.views.store.folders import adopt_preload, preload_folder, remove_preload
from cutwater.views.store.store import Store

FREE_SHARE = 0.1
FREE_BYTES = 10 << 30
"""Preloading leaves this share of the disk free, at most these bytes: publishing needs space, too."""


class StoreFolders:
    """One folder per generation, and one beside it for preloaded rows. They belong to this process."""

    def __init__(self, root: Path, segment: int | None = None) -> None:
        """`segment`: the length of a time segment in ms; None for the usual one."""
        self._root, self._segment = root, segment

    def _folder(self, generation: Generation) -> Path:
        return self._root / str(generation)

    def exists(self, generation: Generation) -> bool:
        """Return True if there is a folder of the generation's store."""
        return self._folder(generation).is_dir()

    def open(self, generation: Generation, job: Job) -> Store:
        """Open the generation's store, which may be empty. `job`: that of its rows."""
        return Store(self._folder(generation), job, generation, segment=self._segment)

    def open_preload(self, generation: Generation, job: Job) -> Store:
        """Open a store to preload into. `job`: that of the generation's rows."""
        return Store(preload_folder(self._folder(generation)), job, generation, segment=self._segment)

    def adopt_preload(self, generation: Generation) -> bool:
        """Make the preloaded store the generation's, if only the preloaded one exists; return whether it is."""
        return adopt_preload(self._folder(generation))

    def remove_preload(self, generation: Generation) -> None:
        """Delete the preloaded store, which must be closed. Raises OSError."""
        remove_preload(self._folder(generation))

    def remove(self, generation: Generation) -> None:
        """Delete the generation's store, which must be closed."""
        shutil.rmtree(self._folder(generation), ignore_errors=True)

    def remove_others(self, kept: Generation | None) -> None:
        """Delete all stores, preloaded ones included, except that of `kept`."""
        for folder in self._root.iterdir() if self._root.is_dir() else ():
            if folder.is_dir() and (kept is None or folder != self._folder(kept)):
                shutil.rmtree(folder, ignore_errors=True)

    def is_roomy(self) -> bool:
        """Return True if the disk has room to preload."""
        usage = shutil.disk_usage(next(one for one in (self._root, *self._root.parents) if one.is_dir()))
        return usage.free >= min(FREE_SHARE * usage.total, FREE_BYTES)
