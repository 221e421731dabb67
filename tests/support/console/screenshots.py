"""Makes the pictures of the console in docs/images, with a headless Chromium over a constructed job.

PYTHONPATH=services:tests python -m support.console.screenshots docs/images
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from cutwater.core.access.audit_log import Argument, AuditRecords
from cutwater.core.generations.candidates import Candidates
from cutwater.core.generations.holds import make_hold
from cutwater.core.protocol.recovery_log import Fact, Recovery, Took
from support.console.sample_job import (
    AUDIT,
    NOW_MS,
    TOKENS,
    ConstructedReader,
    ConstructedView,
    alert,
    follower,
    served,
    with_roles,
)
from support.protocol_samples import GENERATION, JOB, OTHER
from tiers import CHROMIUMS

WIDTH, HEIGHT = 1_280, 720
COLOURS = 128
"""A picture of so few colours is small; charts and texts need no more."""
TIMEOUT_MS = 30_000
FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
PICTURES = {
    "overview": ("overview", "light"),
    "milestones": ("milestones", "light"),
    "shards": ("shards", "dark"),
    "generations": ("generations", "light"),
    "recovery": ("recovery", "light"),
}
"""By name of a picture its page and its theme."""
ACTION = "action"
"""The picture of the dialog that asks for the generation's name."""


class ShownReader(ConstructedReader):
    """A job whose texts are those of a usual one."""

    def candidates(self) -> Candidates:
        """One candidate, held after watch has raised its alert."""
        found = super().candidates()
        held = make_hold(JOB, OTHER, 3_600_000, "alice", "an epoch is stuck", NOW_MS - 60_000)
        return replace(found, by_id={OTHER: replace(found.require(OTHER), hold=held)})

    def trail(self) -> Sequence[Recovery]:
        facts = (Fact("newest milestone", f"{GENERATION}:399"), Fact("committed", "epoch 398"))
        steps = (Took("fencing older drivers", 31), Took("starting Spark", 4_200))
        first = Recovery(
            **{"job": JOB, "generation": GENERATION, "service": "driver", "process": "node-1:4711", "attempt": 2},
            **{"begun_ms": NOW_MS - 3_600_000, "outcome": "running"},
            **{"decision": "run epoch 399 again as attempt 2", "found": facts, "steps": steps},
        )  # type: ignore[arg-type]
        told = {"service": "rehydrator", "process": "node-1:4720", "attempt": 0, "decision": "continue after 399"}
        return [
            first,
            replace(first, **told, begun_ms=NOW_MS - 3_590_000, steps=(Took("opening the store", 210),)),
        ]  # type: ignore[arg-type]

    def actions(self) -> AuditRecords:
        claimed, promoted, _ = AUDIT
        given = (Argument("partitions", "24"), Argument("reason", "twice the partitions"))
        snapshot = replace(
            promoted, action="snapshots create", object=JOB, outcome="done", id="f" * 32, arguments=()
        )
        snapshot = replace(snapshot, actor="bob", role="operator", detail=f"{GENERATION}:398 is in the store")
        why = f"{OTHER} has no milestone yet: its driver starts"
        found = [
            replace(claimed, arguments=given, begun_ms=NOW_MS - 120_000),
            replace(promoted, arguments=(), detail=why, begun_ms=NOW_MS - 90_000),
            replace(snapshot, begun_ms=NOW_MS - 30_000),
        ]
        return AuditRecords(found)


@contextmanager
def tab(theme: str) -> Iterator[Any]:
    """A tab on the console of the job, with the token of an owner."""
    from playwright.sync_api import sync_playwright

    why = "epoch 401 is written, and not committed for 95 s (usual: 2 s)"
    reader = ShownReader(alerts=[alert("stuck-epoch", "driver", why)])
    made = follower(reader, ConstructedView(reader.many, reader.shards))
    program = next(filter(None, map(shutil.which, CHROMIUMS)))
    with served(made, with_roles()) as console, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS.split())
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=theme)  # type: ignore[arg-type]
        page.goto(console.url)
        page.locator("#token").fill(TOKENS["owner"])
        page.locator("#token-form button").click()
        page.get_by_text("live").first.wait_for(timeout=TIMEOUT_MS)
        page.get_by_text("my-owner (owner)").wait_for(timeout=TIMEOUT_MS)
        yield page
        browser.close()
    made.stop()


def open_page(page: Any, name: str) -> None:
    page.evaluate("hash => { location.hash = hash }", f"#/{JOB}/{name}")
    page.wait_for_function(
        "name => document.querySelector(`#nav-${name}`)?.ariaCurrent === 'page' && document.querySelector('#page')"
        " && !document.querySelector('.loading')",
        arg=name,
        timeout=TIMEOUT_MS,
    )
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def pictures() -> Iterator[tuple[str, bytes]]:
    """Return name and PNG of each picture."""
    for theme in ("light", "dark"):
        with tab(theme) as page:
            for name, (shown, of) in PICTURES.items():
                if of == theme:
                    open_page(page, shown)
                    yield name, page.screenshot()
            if theme == "light":
                open_page(page, "generations")
                page.get_by_text(f"Release {OTHER}").first.click()
                page.locator("#action-name").fill(str(OTHER)[:9])
                yield ACTION, page.locator("#action-dialog").screenshot()


def small(png: bytes) -> bytes:
    """Return the picture with few colours."""
    from PIL import Image

    out = io.BytesIO()
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


def make(folder: Path) -> None:
    """Write all pictures, and say their sizes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, png in pictures():
        path = folder / f"console-{name}.png"
        path.write_bytes(small(png))
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    make(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
