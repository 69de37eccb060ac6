"""Writes the pages of records: a report, as Markdown and as HTML, and the page of a study."""

from __future__ import annotations

import base64
import re
import warnings
from collections.abc import Mapping, Sequence
from os.path import isfile
from pathlib import Path

from evaluation.pages.html_page import TEMPLATES, ReportMap, render_page
from evaluation.pages.page_material import PageMaterial
from evaluation.pages.slots import fill
from evaluation.study.record import AnyRecord
from evaluation.study.records_file import read_records
from evaluation.study.study import Study
from evaluation.study.study_file import FOLDER, SUFFIX, read_study
from planners.errors import GaplessError
from planners.files.output_file import require_targets, say_written, write_output
from planners.missing_core import broken_import
from planners.processes import standard_output

REPORT_WORDS = TEMPLATES / "report.md"
IMAGES = "images"
SHOWN_PICTURE = re.compile(rf'<img src="{IMAGES}/([^"]+)"')


def write_pages(
    records: Sequence[AnyRecord],
    results: Sequence[Path],
    folder: Path | None,
    page: Path | None,
    maps: Sequence[Path],
) -> None:
    """Write a report with memory maps into a folder, and the page of the study of all records.

    The records are those of the files ``results``.
    """
    name, *more = dict.fromkeys(record.study for record in records)
    study = None if more else _study_of(name, results)
    words = {} if study is None else {"question": study.question, **study.page}
    if more:
        name, words = "studies", {"question": ", ".join([name, *more])}
    material = PageMaterial(name, records, words)
    if page is not None:
        require_targets({"--page": page}, results)
        write_study_page(material, study, page)
        say_written(page, f"wrote {page}")
    if folder is not None:
        with standard_output.kept_for_the_answer():
            drawn = _maps(maps, material)
        for path in write_report(material, drawn, folder):
            say_written(path, f"wrote {path}")


def _maps(paths: Sequence[Path], material: PageMaterial) -> dict[str, ReportMap]:
    if not paths:
        return {}
    # Imported here because maps alone need Bokeh.
    from evaluation.pages.replanned import map_of_file

    names = {f"map-{number}": path for number, path in enumerate(paths, 1)}
    return {name: map_of_file(path, material.cases, name) for name, path in names.items()}


def read_all(paths: Sequence[Path]) -> list[AnyRecord]:
    """Return the records of files; raises an error if there is none."""
    records = [record for path in paths for record in read_records(path)]
    if not records:
        raise GaplessError(f"{', '.join(map(str, paths))}: a record is needed, found none")
    return records


def write_study_page(material: PageMaterial, study: Study | None, page: Path) -> None:
    """Fill the words of a study, and write them with their pictures."""
    if study is None:
        raise GaplessError(
            f"--page {page}: the file of one study is needed, {material.file_name}{SUFFIX}, beside "
            f"its records, in the working folder or in {FOLDER}; found none"
        )
    words = study.path.with_suffix(".md")
    if not words.is_file():
        raise GaplessError(f"--page {page}: {words.name} is needed beside {study.path}")
    beside = page.parent.parent / IMAGES
    images, link = (beside, f"../{IMAGES}") if beside.is_dir() else (page.parent / IMAGES, IMAGES)
    text = fill(words.read_text(encoding="utf-8"), material, words)
    write_pictures(material, images, text)
    write_output(page, text.replace(f"]({IMAGES}/", f"]({link}/").encode())


def _study_of(name: str, results: Sequence[Path]) -> Study | None:
    """Read the study of records: one beside them, in the working folder, or one of Gapless."""
    # The name is foreign text: it may lead anywhere, and be too long for a file.
    file = Path(f"{name}{SUFFIX}").name
    folders = (*(path.parent for path in results), Path(), FOLDER)
    path = next((folder / file for folder in folders if isfile(folder / file)), None)
    return None if path is None else read_study(path)


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
