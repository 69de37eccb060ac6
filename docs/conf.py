"""How Sphinx makes a site of these pages: python -m sphinx -W docs build/site."""

from __future__ import annotations

import re
from importlib.metadata import version as version_of
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"

project = "Gapless"
author = "the maintainers of Gapless"
version = release = version_of("gapless")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"Gapless {version}"
html_static_path = ["_static"]
html_css_files = ["phone.css"]
html_copy_source = False

# Pages link to headings as code hosts name them.
myst_heading_anchors = 4

napoleon_google_docstring = False
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
# Its callbacks inherit from classes of these.
autodoc_mock_imports = ["lightning", "pytorch_lightning", "torch", "transformers"]

# Whatever a page refers to of ours is there; what Python's and NumPy's pages have is not looked up.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!(planners|instances|gpu_runtime|evaluation)\b).*"),
    ("py:.*", r"\w+\._core\b.*"),
]

SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
# The page of results links to these by question.
MEASURED = """
```{toctree}
:hidden:
:glob:

studies/*
benchmarks/*
```
"""
PAGE = re.compile(r"\]\(((?!\.\./)[\w/-]+)\.md\)")


def make_front_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Open the site with the README, and make its navigation from the links of the index."""
    if page == "index":
        app.env.note_dependency(str(README))
        readme = README.read_text(encoding="utf-8").replace("](docs/", "](")
        source[0] = readme + re.sub("^# ", "\n## ", _with_navigation(source[0]))
    if page == "results":
        source[0] += MEASURED
    # Both are one page here.
    source[0] = source[0].replace("](../README.md)", "](index.md)")


def _with_navigation(index: str) -> str:
    _, *sections = SECTION.split(index)
    lists = [
        "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])
        for title, links in zip(sections[::2], sections[1::2], strict=True)
        if (pages := PAGE.findall(links))
    ]
    return index + "".join(lists)


def setup(app: Sphinx) -> None:
    """Have pages pass through here before they are parsed."""
    app.connect("source-read", make_front_page)
