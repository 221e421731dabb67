"""The site of the documentation: `make docs`. Its tree is the repository's, so links work on both.

Built with warnings as errors, and without a network: no fonts, scripts or inventories of others.
"""

import re
from posixpath import dirname, join, normpath
from typing import Any

from pygments.lexers.special import TextLexer

project = "Cutwater"
author = "the Cutwater authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]

# What Sphinx reads, from the root of the repository.
root_doc = "docs/index"
INDEXES = (root_doc, "docs/decisions/index")
source_suffix = {".md": "markdown"}
include_patterns = ["*.md", "docs/*.md", "docs/decisions/*.md", "schemas/README.md", "benchmarks/README.md"]
exclude_patterns = [".*", "build", "dist", "deploy", "services", "spark", "tests"]

myst_heading_anchors = 4
highlight_language = "none"  # a block without a language is what it is: output, bytes, a drawing

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
default_role = "literal"  # docstrings write `name`, as Markdown does
add_module_names = False

html_theme = "furo"
html_title = "Cutwater"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
templates_path = ["_site"]
html_additional_pages = {"index": "redirect.html"}
html_extra_path = ["_extra"]

_LISTED = re.compile(r"^- \[(?P<title>[^]]*)\]\((?P<path>[^)#]+)\.md\)", re.MULTILINE)


def _contents(app: object, name: str, text: list[str]) -> None:
    """Make the lists of both index pages the site's table of contents. Sphinx warns of a page that is in none."""
    if name not in INDEXES:
        return
    for section in text[0].split("\n## ")[1:]:
        caption = section.partition("\n")[0]
        found = [(one["title"], normpath(join(dirname(name), one["path"]))) for one in _LISTED.finditer(section)]
        pages = [f"{title} </{path}>" for title, path in found]
        text[0] += "\n".join(["\n```{toctree}", f":caption: {caption}", ":hidden:", "", *pages, "```\n"])


def setup(app: Any) -> None:
    app.connect("source-read", _contents)
    app.add_lexer("mermaid", TextLexer)  # shown as text: the script that draws it would come from another host
