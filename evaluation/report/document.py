"""A report as Markdown with its pictures, and the same as one page for a browser."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bokeh.models.ui import UIElement
from markdown_it import MarkdownIt

from evaluation.report.html_page import TEMPLATES, render_page
from evaluation.report.slots import PageMaterial, fill
from planners.errors import GaplessError
from planners.files.output_file import write_output

REPORT_WORDS = TEMPLATES / "report.md"
IMAGES = "images"
SHOWN_PICTURE = re.compile(rf'<img src="{IMAGES}/([^"]+)"')


@dataclass(frozen=True)
class ReportMap:
    """A memory map on the page: what it is called, what is said of it, and what Bokeh draws."""

    title: str
    notes: Sequence[str]
    drawing: UIElement


def write_report(material: PageMaterial, maps: Mapping[str, ReportMap], folder: Path) -> list[Path]:
    """Write ``report.md`` with its pictures, and ``report.html``, which needs nothing beside.

    Parameters
    ----------
    material
        What slots are filled from.
    maps
        By names of which each is one word.
    folder
        Made where it is not there.

    Returns
    -------
    list of Path
        The two pages.
    """
    text = fill(REPORT_WORDS.read_text(encoding="utf-8"), material, REPORT_WORDS)
    _make_folder(folder)
    pages = [folder / "report.md", folder / "report.html"]
    write_output(pages[0], text.encode())
    write_pictures(material, folder / IMAGES)
    write_output(pages[1], html_of(text, material, maps).encode())
    return pages


def write_pictures(material: PageMaterial, folder: Path) -> None:
    """Write the pictures that slots drew."""
    if material.pictures:
        _make_folder(folder)
    for name, data in material.pictures.items():
        write_output(folder / name, data)


def html_of(text: str, material: PageMaterial, maps: Mapping[str, ReportMap]) -> str:
    """Return Markdown as a page of its own, with its pictures in it and maps below."""
    # Without HTML of its own: names of instances come from outside.
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
