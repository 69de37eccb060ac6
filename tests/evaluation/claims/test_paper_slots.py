"""The pages of papers' studies are filled from records alone."""

from __future__ import annotations

import tomllib

import pytest

from evaluation.claims.papers import EVIDENCE
from evaluation.report.slots import PageMaterial, fill
from planners.errors import GaplessError
from tests.evaluation.claims.made_up_records import GB, record
from tests.evaluation.claims.shipped_claims import STUDIES


@pytest.mark.parametrize("study", EVIDENCE)
def test_the_words_of_every_study_can_be_filled(study: str) -> None:
    words = STUDIES / f"{study}.md"
    page = tomllib.loads(words.with_suffix(".toml").read_text())["page"]
    material = PageMaterial(study, [record("bert", "greedy-size-first", GB)], page)
    text = fill(words.read_text(), material, words)
    assert "| not measured |" in text
    assert all(key in text for key in page["claim"])
    # What has nothing to show is left out, with its heading.
    has_reasons = any("says_why" in claim for claim in page["claim"].values())
    assert ("### What is not measured here" in text) == has_reasons


def test_a_study_of_no_paper_has_no_claims() -> None:
    with pytest.raises(GaplessError, match=r"study paper-offset: .* did you mean 'paper-offsets'"):
        fill("{claims}", PageMaterial("paper-offset", [record("bert", "auto")]), "words")
