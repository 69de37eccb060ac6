"""A report as Markdown with its pictures, and the same as one page for a browser."""

from __future__ import annotations

import base64
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.pages.html_page import TEMPLATES, render_page
from evaluation.pages.page_material import PageMaterial
from evaluation.pages.slots import fill
from planners.errors import GaplessError
from planners.files.output_file import write_output
from planners.missing_core import broken_import

if TYPE_CHECKING:
    from bokeh.models.ui import UIElement

REPORT_WORDS = TEMPLATES / "report.md"
IMAGES = "images"
SHOWN_PICTURE = re.compile(rf'<img src="{IMAGES}/([^"]+)"')


@dataclass(frozen=True)
class ReportMap:
    """A memory map on the page: its title, its notes, and its drawing by Bokeh."""

    title: str
    notes: Sequence[str]
    drawing: UIElement


def write_report(material: PageMaterial, maps: Mapping[str, ReportMap], folder: Path) -> list[Path]:
    """Write ``report.md`` with its pictures, and ``report.html``, which needs no other file."""
    text = fill(REPORT_WORDS.read_text(encoding="utf-8"), material, REPORT_WORDS)
    _make_folder(folder)
    pages = {folder / "report.md": text}
    try:
        pages[folder / "report.html"] = html_of(text, material, maps)
    except ImportError as error:
        warnings.warn(f"report.html is left out: {broken_import(error)}", stacklevel=2)
    write_pictures(material, folder / IMAGES)
    for path, content in pages.items():
        write_output(path, content.encode())
    return list(pages)


def write_pictures(material: PageMaterial, folder: Path, shown_in: str | None = None) -> None:
    """Write all pictures that slots drew, or only the pictures that a text shows."""
    for name, data in material.pictures.items():
        if shown_in is None or f"({IMAGES}/{name})" in shown_in:
            _make_folder(folder)
            write_output(folder / name, data)


def html_of(text: str, material: PageMaterial, maps: Mapping[str, ReportMap]) -> str:
    """Return Markdown as a page of its own, with its pictures in it and maps below."""
    # Imported here because only the HTML page needs markdown_it.
    from markdown_it import MarkdownIt

    # This preset allows no HTML in Markdown: names of instances are foreign text.
    body = MarkdownIt("js-default").render(text)
    body = body.replace("<table>", '<div class="scrolled"><table>')
    body = body.replace("</table>", "</table></div>")

    def inlined(found: re.Match[str]) -> str:
        data = base64.b64encode(material.pictures[found[1]]).decode()
        return f'<img src="data:image/png;base64,{data}"'

    return render_page(
        "report.html",
        {name: its.drawing for name, its in maps.items()},
        title=material.name,
        body=SHOWN_PICTURE.sub(inlined, body),
        about=maps,
    )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GaplessError(f"{folder}: no folder can be made: {error.strerror}") from None
