"""The tutorial shows the example that the tests run, to the letter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ATTACH.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("language", "file"), [("python", "orders_query.py"), ("yaml", "orders.yaml")])
def test_the_code_of_the_tutorial_is_the_example(language: str, file: str) -> None:
    """The first block of that language is the file (tests/spark/test_attach.py runs it)."""
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert blocks[0] == (ROOT / "examples" / "attach" / file).read_text(encoding="utf-8")


def test_the_function_of_the_tutorial_is_the_examples() -> None:
    """And what the page says of its file (tests/spark/attach/test_attach_generations.py runs both)."""
    function = re.findall(r"```python\n(def sales.*?)\n\n\nquery =", PAGE, re.DOTALL)
    assert function[0] in (ROOT / "examples/attach/sales_query.py").read_text(encoding="utf-8")
    [merges] = re.findall(r"^  merges: .*$", PAGE, re.MULTILINE)
    assert merges in (ROOT / "examples/attach/sales.yaml").read_text(encoding="utf-8")
