"""Figures of pages that were measured on a GPU and are committed."""

from __future__ import annotations

import pytest

from evaluation.study.study_file import find_study
from evaluation.tables.committed_page import frame_of_page
from planners.errors import GaplessError


def test_numbers_of_a_page_are_numbers() -> None:
    frame = frame_of_page("programs.md", "Online allocators")
    assert set(frame["allocator"]) == {"gmlake", "vpmm"}
    assert frame["to faster"].dtype == float
    for study in ("paper-gmlake", "paper-vpmm"):
        cases = find_study(study).page["evidence"]["programs"]["cases"]
        assert set(frame["program"]) == set(cases)
    assert frame_of_page("device-calls.md", "Milliseconds for 2,048 MiB")["first_bold"].iloc[0] > 0


def test_a_missing_page_or_heading_is_named() -> None:
    with pytest.raises(GaplessError, match="did you mean 'Online allocators'"):
        frame_of_page("programs.md", "Online allocator")
    with pytest.raises(GaplessError, match="the page is needed"):
        frame_of_page("program.md", "Online allocators")
