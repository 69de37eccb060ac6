"""An HTML page in one file: opened from the file system, it loads nothing else.

The head of the page has a content security policy that forbids loading any address. So no content
of a page, such as the name of a tensor, can make a browser fetch anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bokeh.models import Model
    from bokeh.models.ui import UIElement
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
# The parts of Bokeh that a memory map uses; the parts for formulas and data tables are left out.
BOKEH_PARTS: Final = ("bokeh", "bokeh-gl", "bokeh-widgets")


@dataclass(frozen=True)
class ReportMap:
    """A memory map on the page: its title, its notes, and its drawing by Bokeh."""

    title: str
    notes: Sequence[str]
    drawing: UIElement


def render_page(template: str, maps: Mapping[str, UIElement], **values: object) -> str:
    """Return a page from a template, in which ``maps`` are divisions by their names."""
    script, divisions, resources = "", dict[str, str](), ""
    if maps:
        # Imported here, as all of the extra `report`, because a page without maps needs no Bokeh.
        from bokeh.embed import components

        models: dict[str, Model] = dict(maps)
        script, divisions = components(models)
        resources = _bokeh()
    return (
        _templates()
        .get_template(template)
        .render({"script": script, "maps": divisions, "resources": resources, **values})
    )


@cache
def _bokeh() -> str:
    from bokeh.resources import Resources

    return Resources(mode="inline", components=[*BOKEH_PARTS]).render_js()


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
