"""The pages of the documentation and the code blocks on them, as Markdown sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from markdown_it import MarkdownIt
from markdown_it.token import Token

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "schemas/**/*.md",
        "examples/**/*.md",
        "benchmarks/**/*.md",
        "deploy/**/*.md",
    )
    for path in ROOT.glob(pattern)
)


class Block(NamedTuple):
    """A code block: fenced ones say their language, indented ones have none."""

    page: str
    line: int
    language: str
    text: str

    @property
    def lines(self) -> list[str]:
        """Without comments and empty lines; a line that a backslash goes on with is one."""
        joined = self.text.replace("\\\n", " ")
        return [line.strip() for line in joined.splitlines() if line.strip() and not line.strip().startswith("#")]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def _tokens(page: str) -> list[Token]:
    """Not at import: every worker would parse all pages when it collects the tests."""
    return MarkdownIt("commonmark").enable("table").parse(text_of(page))


def blocks(page: str | None = None) -> list[Block]:
    """The blocks of a page, or of all."""
    found = []
    for name in [page] if page else PAGES:
        for token in _tokens(name):
            if token.type in {"fence", "code_block"}:
                language = token.info.strip() if token.type == "fence" else "indented"
                found.append(Block(name, (token.map or [0])[0] + 1, language, token.content))
    return found


def check_each(things: Iterable[T], check: Callable[[T], object]) -> None:
    """Check all of them, and fail with each that is wrong: one test is for a page, not for a line."""
    faults = []
    for thing in things:
        try:
            check(thing)
        except Exception as error:
            faults.append(f"{thing}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)


def inline(page: str) -> list[str]:
    """The code inside of a page's sentences and tables."""
    return [one.content for token in _tokens(page) for one in token.children or () if one.type == "code_inline"]


EXAMPLES = {
    path.read_text(encoding="utf-8"): path.relative_to(ROOT).as_posix()
    for path in (ROOT / "examples").rglob("*")
    if path.suffix in {".py", ".java", ".sh", ".yaml"}
}
"""The files of examples/ by their text: a block that is one of them is tested with it."""

FRAGMENTS = {
    "describe(": "tests/spark/test_attach_refusals.py",
    "AvroDeserializer(": "tests/broker/adapters/events/test_confluent_framing.py",
}
"""Python that needs a session or a registry around it: by what it calls, the test that calls the same."""


def is_program(block: Block) -> bool:
    """Python that stands on its own."""
    alone = not any(call in block.text for call in FRAGMENTS)
    return block.language == "python" and block.text not in EXAMPLES and alone
