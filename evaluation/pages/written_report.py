"""Writes a report on the records of studies, or the page of one study."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import isfile
from pathlib import Path

from evaluation.pages.document import IMAGES, ReportMap, write_pictures, write_report
from evaluation.pages.page_material import PageMaterial
from evaluation.pages.slots import fill
from evaluation.study.record import AnyRecord
from evaluation.study.records_file import read_records
from evaluation.study.study import Study
from evaluation.study.study_file import FOLDER, SUFFIX, read_study
from planners.errors import GaplessError
from planners.files.output_file import require_targets, say_written, write_output
from planners.processes import standard_output


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
