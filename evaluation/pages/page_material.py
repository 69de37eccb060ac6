"""The material of a page: the records of a study, the words of its file, and pictures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from evaluation.pages.cases import Case, cases_of
from evaluation.pages.frames import Frames
from evaluation.study.record import Record


@dataclass(frozen=True)
class PageMaterial:
    """The material from which slots are filled."""

    # Name of the study; the names of pictures begin with it.
    name: str
    records: Sequence[Record]
    # The parts of the study's file beside its grid, such as its question and its claims.
    words: Mapping[str, Any] = field(default_factory=dict)
    # Pictures that slots drew: by file name, as PNG or SVG.
    pictures: dict[str, bytes] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """The name of the study without characters that a file name may not have."""
        return re.sub(r"[^\w-]+", "-", self.name)

    @cached_property
    def cases(self) -> list[Case]:
        """The records as lines of a table."""
        return cases_of(self.records)

    @cached_property
    def frames(self) -> Frames:
        """The records, and the frames of the study's file, as tables of a database."""
        return Frames(self.cases, self.words)

    def picture(self, name: str, data: bytes, says: str, suffix: str = "png") -> str:
        """Keep a picture, and return the Markdown that shows it; ``says`` is the text for it."""
        file = f"{self.file_name}-{name}.{suffix}"
        self.pictures[file] = data
        return f"![{says}](images/{file})"
